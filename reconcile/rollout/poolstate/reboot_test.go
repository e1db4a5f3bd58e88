package poolstate_test

import (
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// TestARebootIsNotIntoAConfigThatWasAssignedLater has a node that rebooted from v0 into v1, whose pool was then
// reverted to v0.
func TestARebootIsNotIntoAConfigThatWasAssignedLater(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		desired string
		silent  time.Duration
		want    string
	}{
		"it reboots into its config":      {"v1", 0, "rebooting into v1"},
		"for some minutes":                {"v1", 5 * time.Minute, "rebooting into v1, not Ready for 5m: its kubelet stopped reporting"},
		"the pool was reverted":           {"v0", 5 * time.Minute, "rebooting for an earlier config, not Ready for 5m: its kubelet stopped reporting"},
		"it does not return":              {"v1", 11 * time.Minute, "has not returned from its reboot: not Ready for 11m: its kubelet stopped reporting"},
		"it does not return for a revert": {"v0", 11 * time.Minute, "has not returned from its reboot: not Ready for 11m: its kubelet stopped reporting"},
	} {
		n := poolstate.Node{
			Name: "n0", State: "Working",
			Config: poolstate.Configs{Current: version("v0"), Desired: version(c.desired)},
			Step:   poolstate.Step{Rebooting: true},
		}
		if c.silent > 0 {
			n.Health = poolstate.Health{
				Trouble: "not Ready", Silence: "its kubelet stopped reporting",
				Since: now.Add(-c.silent),
			}
		}
		if got := (poolstate.Wording{Now: now, Target: version("v1")}).State(&n); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
