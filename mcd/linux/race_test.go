package linux_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
)

// TestTheRacer is the process of the user in TestAUserRacesTheDaemon.
func TestTheRacer(t *testing.T) {
	home := os.Getenv(hosttest.RacerHome)
	if home == "" {
		t.Skip("it is a part of TestAUserRacesTheDaemon")
	}
	t.Fatal(hosttest.Racer(home))
}

// TestAUserRacesTheDaemon has a user exchange directories for links while the daemon writes below the user's home
// directory.
func TestAUserRacesTheDaemon(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it runs a process of another user, which takes root: run the tests as root, as make test does in CI")
	}
	top := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(top), 0o755), os.Chmod(top, 0o755)); err != nil {
		t.Fatal(err)
	}
	// the directory of the test's binary may be root's alone
	racer := exec.Command("/proc/self/exe", "-test.run=^TestTheRacer$")
	hosttest.Race(t, top, func() host.Files {
		root, err := files.Open(top)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { root.Close() })
		root.Batch()
		return root
	}, racer)
}
