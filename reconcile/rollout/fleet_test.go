package rollout

import (
	"fmt"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/health"
)

// TestAPoolWaitsForEventsByWhatItsDecisionsCost: each decision reads all nodes of the pool, and a rollout to ten times
// as many takes ten times as long. Ten decisions a second would cost each node ten times as much.
func TestAPoolWaitsForEventsByWhatItsDecisionsCost(t *testing.T) {
	f, now := NewFleet(&health.Heartbeats{}), time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for sentence, c := range map[string]struct{ took, ago, want time.Duration }{
		"a small pool":                     {took: 50 * time.Microsecond, want: coalesce},
		"5,000 nodes":                      {took: 3 * time.Millisecond, want: 300 * time.Millisecond},
		"5,000 nodes, a moment later":      {took: 3 * time.Millisecond, ago: 100 * time.Millisecond, want: 200 * time.Millisecond},
		"5,000 nodes, after a quiet hour":  {took: 3 * time.Millisecond, ago: time.Hour, want: coalesce},
		"a slow decision":                  {took: time.Minute, want: maxPause},
		"a decision before the clock went": {took: time.Minute, ago: -time.Hour, want: maxPause},
		"a clock set back during one":      {took: -time.Minute, want: coalesce},
	} {
		f.setDecided(sentence, now.Add(-c.ago-c.took), now.Add(-c.ago))
		if got := f.wait(sentence, now); got != c.want {
			t.Errorf("%s waits %s, not %s", sentence, got, c.want)
		}
	}
	if got := f.wait("unknown", now); got != coalesce {
		t.Errorf("a pool without a decision waits %s", got)
	}
}

// TestConfigsOfNodesAreLookedForOnce: until one is deleted, or its files are forgotten.
func TestConfigsOfNodesAreLookedForOnce(t *testing.T) {
	of := v1alpha1.NodeConfigs{Base: "rendered-worker-0"}
	of.Set("a", "rendered-worker-1")
	of.Set("b", "rendered-worker-2")
	target := &mcfgv1.MachineConfig{}
	target.Name, target.Annotations = "rendered-worker", map[string]string{
		v1alpha1.NodeConfigsAnnotation: of.String(),
	}
	f := NewFleet(&health.Heartbeats{})
	f.configs.Put(target)
	lacks := ""
	look := func(when string, asked int, want bool) {
		t.Helper()
		count := 0
		there, err := f.configs.Complete(target.Name, func(own string) (bool, error) {
			count++
			return own != lacks, nil
		})
		// The first that is missing ends the search, and they have no order.
		if there != want || err != nil || count != asked && want || (count == 0) != (asked == 0) {
			t.Errorf("%s: %t, %v after %d questions; want %t after %d", when, there, err, count, want, asked)
		}
	}
	look("at first", 3, true)
	look("again", 0, true)
	f.configs.Put(target)
	look("after an event without a change", 0, true)
	own := &mcfgv1.MachineConfig{}
	own.Name, lacks = "rendered-worker-2", "rendered-worker-2"
	f.configs.Drop(own)
	look("after one was deleted", 3, false)
	look("while it is missing", 3, false)
	lacks = ""
	look("after it was created again", 3, true)
	look("then", 0, true)
	for i := range maxConfigs + 1 {
		other := &mcfgv1.MachineConfig{}
		other.Name = fmt.Sprint(i)
		f.files.Examine(other)
	}
	look("after files were forgotten", 3, true)
}
