package pinning_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/pinning"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestHowManyNodesPull(t *testing.T) {
	told := func(n *poolstate.Node, digest string, ago time.Duration, report v1alpha1.PinReport) {
		at := metav1.NewTime(noon.Add(-ago))
		n.Pin, n.Pinned = v1alpha1.PinRequest{Digest: digest, Since: &at}, report
	}
	for sentence, c := range map[string]struct {
		digest string
		node   func(n *poolstate.Node, i int)
		want   int
		again  time.Duration
	}{
		"nobody pulls yet": {"d", func(*poolstate.Node, int) {}, 20, 0},
		"five pull": {"d", func(n *poolstate.Node, i int) {
			if i < 5 {
				told(n, "d", time.Minute, v1alpha1.PinReport{})
			}
		}, 15, 9 * time.Minute},
		"five have the images": {"d", func(n *poolstate.Node, i int) {
			if i < 5 {
				told(n, "d", time.Minute, v1alpha1.PinReport{Digest: "d"})
			}
		}, 20, 0},
		"five cannot": {"d", func(n *poolstate.Node, i int) {
			if i < 5 {
				told(n, "d", time.Minute, v1alpha1.PinReport{Digest: "d", Problem: "401"})
			}
		}, 20, 0},
		"five do not answer": {"d", func(n *poolstate.Node, i int) {
			if i < 5 {
				told(n, "d", time.Hour, v1alpha1.PinReport{})
			}
		}, 20, 0},
		"all have the images":   {"d", func(n *poolstate.Node, _ int) { told(n, "d", time.Hour, v1alpha1.PinReport{Digest: "d"}) }, 0, 0},
		"all have earlier ones": {"d", func(n *poolstate.Node, _ int) { told(n, "c", time.Hour, v1alpha1.PinReport{Digest: "c"}) }, 20, 0},
		"the sets are gone":     {"", func(n *poolstate.Node, _ int) { told(n, "c", time.Hour, v1alpha1.PinReport{Digest: "c"}) }, 50, 0},
		"there never were any":  {"", func(*poolstate.Node, int) {}, 0, 0},
	} {
		t.Run(sentence, func(t *testing.T) {
			var nodes []poolstate.Node
			for i := range 50 {
				n := poolstate.Node{Name: fmt.Sprintf("n%02d", i)}
				c.node(&n, i)
				nodes = append(nodes, n)
			}
			writes, again := pinning.Next(nodes, v1alpha1.PinRequest{Digest: c.digest, Sets: []string{"s"}}, noon)
			if len(writes) != c.want {
				t.Errorf("%d writes, want %d", len(writes), c.want)
			}
			if c.again == 0 != again.IsZero() || c.again != 0 && again.Sub(noon) != c.again {
				t.Errorf("again at %v", again)
			}
			for _, w := range writes {
				r, err := v1alpha1.ParsePinRequest(w.Value)
				if err != nil || r.Digest != c.digest || c.digest != "" &&
					(len(r.Sets) != 1 || r.Since == nil || !r.Since.Time.Equal(noon)) {
					t.Fatalf("%s is told %q: %v", w.Node, w.Value, err)
				}
			}
		})
	}
}
