package kube_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// TestAnotherStopReplaces: a stop that is asked for again gets the new reason and the new end, and what was in force is
// told. A stop that is in force as asked for changes nothing.
func TestAnotherStopReplaces(t *testing.T) {
	now := time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC)
	soon, later := now.Add(time.Hour), now.Add(3*time.Hour)
	for name, stop := range map[string]struct {
		do func(fleet.Cluster, kube.HoldReason) (kube.HoldOrder, error)
		// end is how a patch writes the end of the stop.
		end string
		// apply does to a cluster what the patch of the stop does.
		apply func(c *fleet.Cluster, reason, until string)
	}{
		"pause": {
			do: func(c fleet.Cluster, why kube.HoldReason) (kube.HoldOrder, error) {
				return kube.Pause(c, "worker", why)
			},
			apply: func(c *fleet.Cluster, reason, until string) {
				c.Pools[0].Spec.Paused = true
				c.Pools[0].Annotations = map[string]string{v1alpha1.PausedByAnnotation: reason}
				if until != "" {
					c.Pools[0].Annotations[v1alpha1.PausedUntilAnnotation] = until
				}
			},
			end: `"bunsen.dev/paused-until":`,
		},
		"suspend": {
			do: func(c fleet.Cluster, why kube.HoldReason) (kube.HoldOrder, error) {
				return kube.Suspend(c, "config", why, now)
			},
			apply: func(c *fleet.Cluster, reason, until string) {
				c.Sources[0].Spec.Suspend = true
				c.Sources[0].Annotations = map[string]string{v1alpha1.SuspendedByAnnotation: reason}
				if at, err := time.Parse(time.RFC3339, until); err == nil {
					end := metav1.NewTime(at)
					c.Sources[0].Spec.SuspendUntil = &end
				}
			},
			end: `"suspendUntil":`,
		},
	} {
		c := held()
		stop.apply(&c, "ada: wait", soon.Format(time.RFC3339))
		ask := func(why kube.HoldReason) (patch, did string) {
			t.Helper()
			o, err := stop.do(c, why)
			if err != nil || len(o.Changes) > 1 {
				t.Fatalf("%s: %v, %v", name, o, err)
			}
			if len(o.Changes) == 0 {
				return "", strings.Join(o.Notes, " ")
			}
			return string(o.Changes[0].Patch), o.Changes[0].Did
		}
		const was = " until Tue 2026-12-01 09:00 UTC by ada: wait"
		for about, why := range map[string]kube.HoldReason{
			`"` + later.Format(time.RFC3339) + `"`: {Who: "ada", Because: "wait", Until: later},
			"null":                                 {Who: "ada", Because: "wait"},
		} {
			patch, did := ask(why)
			if !strings.Contains(patch, stop.end+about) || !strings.Contains(did, "; before, it was ") ||
				!strings.HasSuffix(did, was) {
				t.Errorf("%s with the end %s: %s: %s", name, about, patch, did)
			}
		}
		patch, did := ask(kube.HoldReason{Who: "bob", Because: "longer", Until: soon})
		if !strings.Contains(patch, `"bob: longer"`) || !strings.HasSuffix(did, was) {
			t.Errorf("%s with another reason: %s: %s", name, patch, did)
		}
		if patch, did = ask(kube.HoldReason{Who: "ada", Because: "wait", Until: soon}); patch != "" ||
			!strings.Contains(did, was) || !strings.HasSuffix(did, "; nothing is changed") {
			t.Errorf("the same %s: %s: %s", name, patch, did)
		}
	}
}

// TestAnotherOpeningReplaces: a pool that is open outside of its windows is open for the time that was asked for last.
func TestAnotherOpeningReplaces(t *testing.T) {
	now := time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC)
	c, hour, none := held(), time.Hour, time.Duration(0)
	c.Pools[0].Annotations = map[string]string{v1alpha1.OpenUntilAnnotation: "2026-12-01T12:00:00Z"}
	o, err := kube.Resume(fleet.New(c, now), "worker", &hour)
	if err != nil || len(o.Changes) != 1 || !strings.Contains(string(o.Changes[0].Patch), "2026-12-01T09:00:00Z") ||
		!strings.HasSuffix(o.Changes[0].Did, "; before, it was open until Tue 2026-12-01 12:00 UTC, in 4h") {
		t.Errorf("another opening: %v, %v", o, err)
	}
	if o, err = kube.Resume(fleet.New(held(), now), "worker", &none); err != nil || len(o.Changes) > 0 ||
		!strings.Contains(o.Notes[0], "is not paused, and not open outside of its maintenance windows") {
		t.Errorf("no opening to end: %v, %v", o, err)
	}
}
