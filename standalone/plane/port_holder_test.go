package plane

import (
	"strings"
	"testing"
)

const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:4041 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 777 1 0 100 0 0 10 0
   1: 0100007F:4041 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1000        0 778 1 0 100 0 0 10 0
   2: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 779 1 0 100 0 0 10 0
`

func TestOnlyListeningSocketsOfThePortCount(t *testing.T) {
	for name, tc := range map[string]struct {
		port int
		want []socket
	}{
		"a listener beside a connection on the same port": {0x4041, []socket{{inode: "777", uid: "1000"}}},
		"a listener on every address":                     {22, []socket{{inode: "779", uid: "0"}}},
		"a remote port is not ours":                       {0x9999, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := listeners(strings.NewReader(table), tc.port)
			if len(got) != len(tc.want) || len(got) == 1 && got[0] != tc.want[0] {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
