package console

import (
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
)

// TestWhoseSocketItIs reads tables as Linux writes them, and the real one.
func TestWhoseSocketItIs(t *testing.T) {
	client, server := netip.MustParseAddrPort("127.0.0.1:51966"), netip.MustParseAddrPort("127.0.0.1:8710")
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	for sentence, c := range map[string]struct {
		table string
		uid   int
		known bool
	}{
		"IPv4":               {head + "   0: 0100007F:2206 0100007F:CAFE 01 0:0 00:0 0  1000  0 1\n   1: 0100007F:CAFE 0100007F:2206 01 0:0 00:0 0  1001  0 2\n", 1001, true},
		"a socket for IPv6":  {head + "   0: 0000000000000000FFFF00000100007F:CAFE 0000000000000000FFFF00000100007F:2206 01 0:0 00:0 0  1002  0 2\n", 1002, true},
		"big-endian":         {head + "   0: 7F000001:CAFE 7F000001:2206 01 0:0 00:0 0  1003  0 2\n", 1003, true},
		"another port":       {head + "   0: 0100007F:CAFF 0100007F:2206 01 0:0 00:0 0  1001  0 2\n", 0, false},
		"another address":    {head + "   0: 0200007F:CAFE 0100007F:2206 01 0:0 00:0 0  1001  0 2\n", 0, false},
		"a line that is cut": {head + "   0: 0100007F:CAFE 0100007F:2206", 0, false},
		"no owner":           {head + "   0: 0100007F:CAFE 0100007F:2206 01 0:0 00:0 0  x  0 2\n", 0, false},
		"nothing":            {"", 0, false},
	} {
		if uid, known := ownerIn([]byte(c.table), client, server); uid != c.uid || known != c.known {
			t.Errorf("%s: user %d, %v", sentence, uid, known)
		}
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	browser, err := net.Dial("tcp4", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer browser.Close()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if uid, known := ownerOf(conn); runtime.GOOS == "linux" && (!known || uid != os.Getuid()) {
		t.Errorf("the user of this test is %d, %v", uid, known)
	}
}

// TestWhoMayConnect: the same user, root, and the user behind sudo.
func TestWhoMayConnect(t *testing.T) {
	for _, c := range []struct {
		owner, own int
		sudo       string
		want       bool
	}{
		{1000, 1000, "", true},
		{0, 1000, "", true},
		{1001, 1000, "", false},
		{1001, 0, "", false},
		{1001, 0, "1001", true},
		{65534, 1000, "", false},
	} {
		if got := mayConnect(c.owner, c.own, c.sudo); got != c.want {
			t.Errorf("%v: %v", c, got)
		}
	}
}
