package host_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/linux"
)

func sh(t *testing.T, script string) string {
	t.Helper()
	out, err := exec.Command("sh", "-euc", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// command is sh for whoever is no test.
func command(ctx context.Context, script string) error {
	return exec.CommandContext(ctx, "sh", "-euc", script).Run()
}

// open opens the machine that this process runs on, with /etc as it was at first.
func open(t *testing.T) host.Host {
	t.Helper()
	restore(t)
	sh(t, "rm -rf /home/* /opt/* /srv/* "+host.StateDir)
	h, closeHost, err := linux.OpenHost(t.Context(), "/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeHost)
	return h
}

// TestInsideConformance runs the suite of all hosts. A plain Debian cannot stage an OS, and its real reboot would end
// the suite: those two are the simulated host's here, and the real ones have tests of their own.
func TestInsideConformance(t *testing.T) {
	hosttest.Conformance(t, func(t *testing.T) host.Host {
		h := open(t)
		simulated, root, err := linux.OpenSimulated("/", func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { root.Close() })
		h.OS, h.Power = simulated.OS, simulated.Power
		return h
	})
}
