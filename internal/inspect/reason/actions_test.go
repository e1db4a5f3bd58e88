package reason

import (
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// TestACommandHoldsNoOtherCommand: what a node reports is one word of the command that people paste.
func TestACommandHoldsNoOtherCommand(t *testing.T) {
	for item, want := range map[string]string{
		"/etc/motd":      "bunsen drift show node/n0 /etc/motd",
		"/etc/$(reboot)": "bunsen drift show node/n0 '/etc/$(reboot)'",
		"a; reboot":      "bunsen drift show node/n0 'a; reboot'",
		"it's":           `bunsen drift show node/n0 'it'\''s'`,
	} {
		if got := driftActions("n0", item)[0]; got != want {
			t.Errorf("for %q: %s, want %s", item, got, want)
		}
	}
}

// TestABudgetIsNotSetToWhatItIs: a pool whose nodes are at work gets no command that would change nothing.
func TestABudgetIsNotSetToWhatItIs(t *testing.T) {
	for most, want := range map[int]string{
		0: `kubectl patch mcp worker --type=merge -p '{"spec":{"maxUnavailable":1}}'`,
		1: "", 2: "",
	} {
		v := &fleet.Pool{Object: &mcfgv1.MachineConfigPool{}}
		v.Object.Name, v.Facts.MaxUnavailable = "worker", most
		if got := strings.Join(unavailableActions(&fleet.Fleet{}, v), "; "); got != want {
			t.Errorf("for %d nodes: %q, want %q", most, got, want)
		}
	}
}
