package revision

import (
	"context"
	"fmt"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/pinnedimage"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// reportUnsettledAfter is how long a pool waits for a whole revision before its status reports the wait. A normal
// apply takes less time.
const reportUnsettledAfter = 10 * time.Second

// PoolCheck decides whether a pool may be rolled out. For each source, the cluster must have the objects of one
// whole revision, and the pool must be rendered from them. The zero value of PoolCheck is ready for use. If its
// content is lost, a message is delayed.
type PoolCheck struct {
	seen Digests
	// since is what each pool waits for, and since when: pool name → wait.
	since sync.Map
	// images are the PinnedImageSets of each pool at its last check: pool name → ImageSets.
	images sync.Map
}

// ImageSets are the PinnedImageSets of a pool.
type ImageSets struct {
	// Digest is that of pinnedimage.Digest; empty for no sets.
	Digest string
	// Names are the names of the sets, and Missing those of sets that the pool names and that do not exist. Both are
	// sorted.
	Names, Missing []string
}

// imageSets returns the PinnedImageSets of a pool.
func imageSets(pool *mcfgv1.MachineConfigPool, all []mcfgv1.PinnedImageSet) ImageSets {
	sets, missing := pinnedimage.Of(pool, all)
	out := ImageSets{Digest: pinnedimage.Digest(sets), Missing: missing}
	for _, s := range sets {
		out.Names = append(out.Names, s.Name)
	}
	return out
}

// ImageSets returns the PinnedImageSets of a pool at its last check; the zero value before the first one.
func (s *PoolCheck) ImageSets(pool string) ImageSets {
	sets, _ := s.images.Load(pool)
	is, _ := sets.(ImageSets)
	return is
}

// Forget removes the data of a deleted pool.
func (s *PoolCheck) Forget(pool string) {
	s.since.Delete(pool)
	s.images.Delete(pool)
}

// Blocker returns why a pool waits; empty if the pool does not wait. If the pool has changed since it was read,
// Fleet.decide returns poolChanged.
func (s *PoolCheck) Blocker(ctx context.Context, c client.Reader, pool *mcfgv1.MachineConfigPool) (string, error) {
	var images mcfgv1.PinnedImageSetList
	if err := c.List(ctx, &images, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("listing PinnedImageSets: %w", err)
	}
	s.images.Store(pool.Name, imageSets(pool, images.Items))
	all, why, err := Settled(ctx, c, pool, &s.seen)
	if err != nil || why != "" {
		return why, err
	}
	if why := Moving(all.States); why != "" {
		return why, nil
	}
	selected, err := all.Selected(pool)
	if err != nil {
		return "", err
	}
	digest, err := s.seen.Selected(selected)
	if err != nil {
		return "", err
	}
	if digest != pool.Annotations[v1alpha1.SelectedAnnotation] {
		return "its MachineConfigs have changed, and are not rendered yet", nil
	}
	s.since.Delete(pool.Name)
	return "", nil
}

// wait is what a pool waits for, and since when.
type wait struct {
	why   string
	since time.Time
}

// IsOverdue reports whether a pool has waited for the same thing for so long that its status reports it. A large
// revision is applied for many seconds, and only then rendered, so each of the two has its own time.
func (s *PoolCheck) IsOverdue(pool, why string, now time.Time) bool {
	before, known := s.since.Load(pool)
	if known && before.(wait).why == why {
		return now.Sub(before.(wait).since) >= reportUnsettledAfter
	}
	s.since.Store(pool, wait{why, now})
	return false
}
