package revisions

import (
	"context"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/membership"
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// player walks through the steps of a history.
type player struct {
	steps []Step
	next  int
	// allow is how many writes of the source controller succeed before the next steps happen.
	allow int
	moved []bool
}

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: name}}
}

// reconcileSource lets the source controller reconcile one GitSource. Steps happen between its writes.
func reconcileSource(w *world, repo int, after time.Duration, allow int) {
	if w.running.active >= 0 || repo >= w.setup.Sources {
		return
	}
	w.now = w.now.Add(after)
	w.tell("the source controller reconciles GitSource %s", sourceNames[repo])
	w.running.active, w.player.allow = repo, allow
	w.running.process.outcome = w.outcome
	_, err := w.running.source.Reconcile(context.Background(), request(sourceNames[repo]))
	w.running.process.outcome = nil
	w.running.active = -1
	if err != nil {
		w.tell("the source controller will try again: %v", err)
	}
	if w.running.process.dead {
		w.restart()
	}
}

// outcome plays the steps before the next write of the source controller, and returns what comes of the write.
func (w *world) outcome(string) int {
	if w.setup.Stuck && w.running.isFrozen && w.running.active == 1 {
		return refused
	}
	if w.player.allow > 0 {
		w.player.allow--
		return done
	}
	process := w.running.process
	for w.broken == "" && !process.dead && w.player.next < len(w.player.steps) {
		at := w.player.next
		s := w.player.steps[at]
		if w.player.next++; s.Verb == Write {
			w.player.allow, w.player.moved[at] = max(0, s.A-1), true
			return s.B % outcomes
		}
		w.step(at)
	}
	w.player.allow = 1 << 20
	return done
}

// reconcileRender lets the render controller reconcile a pool.
func reconcileRender(w *world, pool string, fault int, late int) {
	p := w.running.render.Client.(*session).process
	p.gotPool = func() { w.sync(theRender, late, 0) }
	n := fault / 8
	p.outcome = func(string) int {
		if n--; n == -1 {
			return min(fault%8, conflict)
		}
		return done
	}
	_, err := w.running.render.Reconcile(context.Background(), request(pool))
	p.gotPool, p.outcome = nil, nil
	if err != nil {
		w.tell("the render controller will try pool %s again: %v", pool, err)
	}
}

// sync gives the cache of a controller the next events of some kinds.
func (w *world) sync(who controllerID, mask, n int) {
	for i, kind := range kinds {
		if mask&(1<<i) == 0 {
			continue
		}
		if count := w.running.caches[who].sync(w.api, kind, n); count > 0 && n >= 0 {
			w.tell("the cache of the %s controller receives %d events of %s", controllerNames[who], count, kind)
		}
	}
}

// gate is what a rollout waits for.
type gate struct {
	// pool that is rolled out, and what the rollout controller sees of the sources.
	pool   *mcfgv1.MachineConfigPool
	states []revision.State
	// moved: the pool has changed since it was read. unsettled says which source is not on the cluster as one whole
	// revision, moving which pool of any source is not. unrendered: the selected MachineConfigs are not the rendered
	// ones.
	moved      bool
	unsettled  string
	moving     string
	unrendered bool
}

// isOpen reports whether nothing is in the way.
func (g gate) isOpen() bool { return !g.moved && g.unsettled == "" && g.moving == "" && !g.unrendered }

// gateOf computes what a rollout of the pool waits for, as the rollout controller does.
func gateOf(w *world, s *session, pool *mcfgv1.MachineConfigPool) (gate, error) {
	g := gate{pool: pool}
	live, err := readLive(s)
	if err != nil {
		return g, err
	}
	for i := range live.pools.Items {
		if p := &live.pools.Items[i]; p.Name == pool.Name && p.ResourceVersion != pool.ResourceVersion {
			g.moved = true
		}
	}
	var sources v1alpha1.GitSourceList
	if err := s.List(context.Background(), &sources, client.UnsafeDisableDeepCopy); err != nil {
		return g, err
	}
	for i := range sources.Items {
		g.states = append(g.states, revision.State{Source: &sources.Items[i], Live: live.owned(sources.Items[i].Name,
			w.running.digests)})
	}
	if g.unsettled, err = revision.Unsettled(pool, g.states); err != nil {
		return g, err
	}
	g.moving = revision.Moving(g.states)
	selector, err := revision.Selector(pool)
	if err != nil {
		return g, err
	}
	digest, err := w.running.digests.Selected(revision.Select(selector, live.configs.Items))
	g.unrendered = digest != pool.Annotations[v1alpha1.SelectedAnnotation]
	return g, err
}

// rolloutOnce assigns the config of a pool to the first of its nodes that does not have it, and reports whether it did.
// The kinds of the bits of late reach the cache after the pool was read.
func rolloutOnce(w *world, name string, late int) bool {
	ctx := context.Background()
	s := w.session(theRollout)
	s.process = &process{fetched: map[string]string{}, gotPool: func() { w.sync(theRollout, late, 0) }}
	pool := &mcfgv1.MachineConfigPool{}
	if err := s.Get(ctx, client.ObjectKey{Name: name}, pool); err != nil || pool.Spec.Configuration.Name == "" {
		return false
	}
	target := pool.Spec.Configuration.Name
	if _, ok := s.objects(revision.KindMachineConfig)[target]; !ok {
		return false
	}
	g, err := gateOf(w, s, pool)
	if err != nil {
		return false
	}
	if w.core.Gate != nil {
		g = w.core.Gate(g)
	}
	if !g.isOpen() {
		w.tell("the rollout of pool %s waits: moved %t, %s%s, not rendered %t", name, g.moved, g.unsettled, g.moving,
			g.unrendered)
		return false
	}
	var pools []*mcfgv1.MachineConfigPool
	for _, n := range s.objects(revision.KindMachineConfigPool).sorted() {
		pools = append(pools, s.objects(revision.KindMachineConfigPool)[n].(*mcfgv1.MachineConfigPool))
	}
	all := membership.New(pools)
	for _, n := range s.objects(kindNode).sorted() {
		node := s.objects(kindNode)[n].(*corev1.Node)
		primary, _, err := all.For(n, node.Labels)
		if err != nil || primary != name || node.Annotations[v1alpha1.DesiredConfigAnnotation] == target {
			continue
		}
		if w.api.objects[kindNode][n].GetResourceVersion() != node.ResourceVersion {
			continue // the write would be a conflict
		}
		next := node.DeepCopy()
		if next.Annotations == nil {
			next.Annotations = map[string]string{}
		}
		next.Annotations[v1alpha1.DesiredConfigAnnotation] = target
		w.api.put(next)
		w.tell("the rollout controller assigns %s to %s", target, n)
		w.assigned(next, name, target)
		return true
	}
	return false
}
