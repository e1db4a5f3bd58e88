package status

import (
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// ImageFacts say how far the nodes of a pool are with the images of its PinnedImageSets.
type ImageFacts struct {
	// HasSets is true if the pool has sets.
	HasSets bool
	// Updated is how many nodes have and pin all images.
	Updated int
	// Failing are the nodes that cannot pull or pin an image now.
	Failing []poolstate.Node
	// Missing are the names of sets that the pool names and that do not exist.
	Missing []string
}

// NewImageFacts reads the facts from the nodes of a pool.
func NewImageFacts(nodes []poolstate.Node, missing []string) (f ImageFacts) {
	f.Missing, f.HasSets = missing, len(missing) > 0
	for i := range nodes {
		n := &nodes[i]
		switch {
		case n.Images == "":
			continue
		case n.ImagesFail():
			f.Failing = append(f.Failing, *n)
		case n.Pinned.Digest == n.Images:
			f.Updated++
		}
		f.HasSets = true
	}
	return f
}

// setImages sets the condition PinnedImageSetsDegraded and the counts of nodes. A pool that never had a set has
// neither, and setImages does not change the condition of another program.
func setImages(s *mcfgv1.MachineConfigPoolStatus, f ImageFacts, set func(mcfgv1.MachineConfigPoolCondition)) {
	before := len(s.PoolSynchronizersStatus)
	s.PoolSynchronizersStatus = slices.DeleteFunc(s.PoolSynchronizersStatus,
		func(p mcfgv1.PoolSynchronizerStatus) bool {
			return p.PoolSynchronizerType == mcfgv1.PinnedImageSets
		})
	if f.HasSets || len(s.PoolSynchronizersStatus) < before {
		set(imagesDegraded(f))
	}
	if !f.HasSets {
		return
	}
	available := max(s.MachineCount-s.UnavailableMachineCount, s.ReadyMachineCount)
	s.PoolSynchronizersStatus = append(s.PoolSynchronizersStatus, mcfgv1.PoolSynchronizerStatus{
		PoolSynchronizerType: mcfgv1.PinnedImageSets, MachineCount: int64(s.MachineCount),
		UpdatedMachineCount: min(int64(f.Updated), int64(s.MachineCount)),
		ReadyMachineCount:   int64(s.ReadyMachineCount), AvailableMachineCount: int64(available),
		UnavailableMachineCount: int64(s.UnavailableMachineCount),
	})
}

// imagesDegraded names the sets that do not exist, and the nodes that cannot pull or pin an image.
func imagesDegraded(f ImageFacts) mcfgv1.MachineConfigPoolCondition {
	var texts []string
	if len(f.Missing) > 0 {
		texts = append(texts, "there is no PinnedImageSet "+strings.Join(f.Missing, ", ")+": create it, or remove it "+
			"from spec.pinnedImageSets of the pool")
	}
	for i := range f.Failing {
		texts = append(texts, "node "+f.Failing[i].Name+": "+cut(firstLine(f.Failing[i].Pinned.Problem), mostReason))
	}
	if len(texts) == 0 {
		return poolCondition(mcfgv1.MachineConfigPoolPinnedImageSetsDegraded, false, "AsExpected", "")
	}
	return poolCondition(mcfgv1.MachineConfigPoolPinnedImageSetsDegraded, true, "PrefetchFailed",
		list(texts, "; ", mostMessage))
}
