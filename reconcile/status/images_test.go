package status_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	"github.com/bunsen-os/bunsen/reconcile/status"
)

// TestImagesOfAPool: the condition and the counts of a pool with PinnedImageSets. A pool that never had one has
// neither.
func TestImagesOfAPool(t *testing.T) {
	with := func(name, reported, problem string) poolstate.Node {
		n := node(name, "v1", "v1", v1alpha1.StateDone)
		n.Images, n.Pinned = "d", v1alpha1.PinReport{Digest: reported, Problem: problem}
		return n
	}
	for sentence, c := range map[string]struct {
		nodes   []poolstate.Node
		missing []string
		want    string
		updated int64
	}{
		"no sets":                   {[]poolstate.Node{node("n1", "v1", "v1", v1alpha1.StateDone)}, nil, "", -1},
		"one node has the images":   {[]poolstate.Node{with("n1", "d", ""), with("n2", "", "")}, nil, "PinnedImageSetsDegraded=False|AsExpected|", 1},
		"one has those of old sets": {[]poolstate.Node{with("n1", "c", "")}, nil, "PinnedImageSetsDegraded=False|AsExpected|", 0},
		"one cannot pull":           {[]poolstate.Node{with("n1", "d", "pulling x: 401"), with("n2", "d", "")}, nil, "PinnedImageSetsDegraded=True|PrefetchFailed|node n1: pulling x: 401", 1},
		"a set does not exist":      {[]poolstate.Node{node("n1", "v1", "v1", v1alpha1.StateDone)}, []string{"gone"}, "PinnedImageSetsDegraded=True|PrefetchFailed|there is no PinnedImageSet gone: create it, or", 0},
	} {
		t.Run(sentence, func(t *testing.T) {
			f := facts("v1", c.nodes...)
			f.Images = status.NewImageFacts(c.nodes, c.missing)
			s := status.Pool(observed, f, noon)
			if got := show(s); c.want != "" && !strings.Contains(got, c.want) || c.want == "" &&
				strings.Contains(got, "PinnedImageSets") {
				t.Errorf("the conditions are\n%s", got)
			}
			updated := int64(-1)
			for _, p := range s.PoolSynchronizersStatus {
				updated = p.UpdatedMachineCount
				if p.MachineCount != int64(len(c.nodes)) || p.AvailableMachineCount < p.ReadyMachineCount {
					t.Errorf("the counts are %+v", p)
				}
			}
			if updated != c.updated {
				t.Errorf("%d nodes have the images, want %d", updated, c.updated)
			}
			f.Images = status.ImageFacts{}
			after := status.Pool(s, f, noon)
			for _, cond := range after.Conditions {
				if cond.Type == mcfgv1.MachineConfigPoolPinnedImageSetsDegraded &&
					cond.Status != corev1.ConditionFalse {
					t.Error("without sets, the pool stays degraded")
				}
			}
			if len(after.PoolSynchronizersStatus) > 0 {
				t.Errorf("without sets, there are counts: %+v", after.PoolSynchronizersStatus)
			}
		})
	}
}
