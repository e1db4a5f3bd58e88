package up

import (
	"io"
	"slices"
	"testing"
)

func TestEtcdSyncsItsWritesUnlessATestSaysOtherwise(t *testing.T) {
	for _, unsafe := range []bool{false, true} {
		args := []string{"--data", t.TempDir()}
		if unsafe {
			args = append(args, "--unsafe-no-fsync")
		}
		o, err := parse(args, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains((processes{o: o}).database().Args, "--unsafe-no-fsync"); got != unsafe {
			t.Errorf("with %v, etcd has the flag: %t", args, got)
		}
	}
}

func TestTheAPIServerReachesKubeletsByTheirAddresses(t *testing.T) {
	if args := (processes{}).apiServer().Args; !slices.Contains(args,
		"--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname") {
		t.Error(args)
	}
}
