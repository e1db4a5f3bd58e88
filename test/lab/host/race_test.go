package host_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
)

// TestInsideAUserRacesTheDaemon has a user of the host exchange directories for links while the daemon writes below the
// user's home.
func TestInsideAUserRacesTheDaemon(t *testing.T) {
	h := open(t)
	sh(t, "rm -rf /root/.ssh")
	h.Disk.Batch()
	t.Cleanup(func() { sh(t, "rm -rf /home/* /root/.ssh /etc/race.d") })
	racer := exec.Command(suite)
	racer.Env = append(os.Environ(), insideVariable+"=racer")
	hosttest.Race(t, "/", func() host.Files { return h.Files }, racer)
}
