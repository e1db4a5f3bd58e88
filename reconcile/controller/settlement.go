package controller

import (
	"context"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// unsettledNotice is how long a pool waits for a whole revision before its status says so: an ordinary apply takes less.
const unsettledNotice = 10 * time.Second

// settlement decides whether a pool may be rolled out: the sources that feed it are on the cluster as one whole revision each,
// so are the pools of all sources, and the pool was rendered from them. The zero value is ready; losing it delays a message.
type settlement struct {
	seen revision.Digests
	// since is when each pool began to wait: pool name → time.Time.
	since sync.Map
}

// waitsFor says what a pool waits for; empty: nothing. A pool that has changed since it was read is not decided about at all;
// see Fleet.decide.
func (s *settlement) waitsFor(ctx context.Context, c client.Reader, pool *mcfgv1.MachineConfigPool) (string, error) {
	all, err := readRevisions(ctx, c, &s.seen)
	if err != nil {
		return "", err
	}
	if why, err := revision.Unsettled(pool, all.states); err != nil || why != "" {
		return why, err
	}
	if why := revision.Moving(all.states); why != "" {
		return why, nil
	}
	selected, err := all.selected(pool)
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

// lasts reports whether a pool has waited for long enough that people should know.
func (s *settlement) lasts(pool string, now time.Time) bool {
	since, _ := s.since.LoadOrStore(pool, now)
	return now.Sub(since.(time.Time)) >= unsettledNotice
}
