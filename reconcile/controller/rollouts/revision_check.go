package rollouts

import (
	"context"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controller/clusterstate"
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// reportUnsettledAfter is how long a pool waits for a whole revision before its status reports the wait. A normal
// apply takes less time.
const reportUnsettledAfter = 10 * time.Second

// revisionCheck decides whether a pool may be rolled out. For each source, the cluster must have the objects of one
// whole revision, and the pool must be rendered from them. The zero value of revisionCheck is ready for use. If its
// content is lost, a message is delayed.
type revisionCheck struct {
	seen revision.Digests
	// since is when each pool began to wait: pool name → time.Time.
	since sync.Map
}

// blocker returns why a pool waits; empty if the pool does not wait. If the pool has changed since it was read,
// Fleet.decide returns poolChanged.
func (s *revisionCheck) blocker(ctx context.Context, c client.Reader, pool *mcfgv1.MachineConfigPool) (string, error) {
	all, err := clusterstate.ReadRevisions(ctx, c, &s.seen)
	if err != nil {
		return "", err
	}
	if why, err := revision.Unsettled(pool, all.States); err != nil || why != "" {
		return why, err
	}
	if why := revision.Moving(all.States); why != "" {
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

// isOverdue reports whether a pool has waited for so long that its status reports it.
func (s *revisionCheck) isOverdue(pool string, now time.Time) bool {
	since, _ := s.since.LoadOrStore(pool, now)
	return now.Sub(since.(time.Time)) >= reportUnsettledAfter
}
