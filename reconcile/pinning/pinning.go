package pinning

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// MaxPulling is for the nodes of a pool at a time, so that registries do not get the requests of all at once. A node
// that fails, or does not report for a long time, takes no place.
const MaxPulling = 20

// Write changes the PinAnnotation of a node.
type Write struct {
	// Value is empty to remove the annotation of the Node.
	Node, Value string
}

// Next returns the writes for the nodes of a pool, in the order of names. want names the sets of the pool; its Since is
// not used. again is when the next node gets a place without an event; zero for never.
func Next(nodes []poolstate.Node, want v1alpha1.PinRequest, now time.Time) (writes []Write, again time.Time) {
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b poolstate.Node) int {
		return strings.Compare(a.Name, b.Name)
	})
	left := MaxPulling
	var waiting []string
	for i := range nodes {
		n := &nodes[i]
		n.Images = want.Digest
		until := n.PullsUntil()
		switch {
		case want.Digest == "":
			if n.Pin.Digest != "" {
				writes = append(writes, Write{Node: n.Name})
			}
		case n.Pin.Digest != want.Digest:
			waiting = append(waiting, n.Name)
		case n.Pinned.Digest == want.Digest || !until.After(now): // It has the images, fails, or is silent.
		default:
			left--
			if again.IsZero() || until.Before(again) {
				again = until
			}
		}
	}
	for _, name := range waiting[:min(len(waiting), max(0, left))] {
		since := metav1.NewTime(now.UTC().Truncate(time.Second))
		at := v1alpha1.PinRequest{Digest: want.Digest, Sets: want.Sets, Since: &since}
		writes = append(writes, Write{Node: name, Value: at.String()})
	}
	if len(waiting) <= max(0, left) {
		again = time.Time{}
	}
	return writes, again
}
