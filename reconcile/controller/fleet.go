package controller

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// coalesce is how long a pool waits for more to happen before it is looked at: thousands of nodes report at once, and
// each look may write the pool's status.
const coalesce = 100 * time.Millisecond

// Fleet is all pools and nodes as the informers last showed them, kept as events come, so that a look at one pool walks
// nothing. Its objects are shared with the informers and never written to. It is full before the first look: a controller
// starts its workers once all its sources have handed over what is there.
type Fleet struct {
	mu      sync.Mutex
	roster  *rollout.Roster
	nodes   map[string]*corev1.Node
	pools   map[string]*mcfgv1.MachineConfigPool
	watched map[string][]string // pool → pools that its last decision depended on
	places  map[string]int      // pool → places that it took when it was decided about last
	gates   gatekeeper
	written written
	// daemons are the heartbeats of the nodes' daemons, as they were last read.
	daemons *daemonReports
	// revisions has what the sources put on the cluster; it needs no lock.
	revisions settlement
}

// poolKey is the key of a pool among what was written.
func poolKey(name string) objectKey { return objectKey{pool: true, name: name} }

// NewFleet has no pools and no nodes.
func NewFleet() *Fleet {
	roster := rollout.NewRoster()
	return &Fleet{
		roster: roster, gates: newGatekeeper(roster), nodes: map[string]*corev1.Node{}, pools: map[string]*mcfgv1.MachineConfigPool{},
		watched: map[string][]string{}, places: map[string]int{}, written: newWritten(), daemons: &daemonReports{},
	}
}

// PutNode takes note of a node, and returns the pools that have to be looked at.
func (f *Fleet) PutNode(n *corev1.Node) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := objectKey{name: n.Name}
	waited := f.written.pending[key].pool
	f.written.shown(key, n.ResourceVersion)
	f.nodes[n.Name] = n
	was, is, changed := f.roster.Put(n)
	if !changed { // most events of a node are heartbeats
		return f.concerned(waited)
	}
	f.gates.changed(is, n.Name)
	return f.concerned(waited, was, is)
}

// DropNode takes note of a node's end.
func (f *Fleet) DropNode(n *corev1.Node) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := objectKey{name: n.Name}
	waited := f.written.pending[key].pool
	f.written.drop(key)
	delete(f.nodes, n.Name)
	delete(f.gates.held, n.Name)
	return f.concerned(waited, f.roster.Delete(n.Name))
}

// PutPool takes note of a pool. Selectors are parsed where one changed, and nowhere else.
func (f *Fleet) PutPool(p *mcfgv1.MachineConfigPool) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.written.shown(poolKey(p.Name), p.ResourceVersion)
	old := f.pools[p.Name]
	f.pools[p.Name] = p
	if old != nil && equality.Semantic.DeepEqual(old.Spec.NodeSelector, p.Spec.NodeSelector) {
		return f.concerned(p.Name)
	}
	return f.regroup(p.Name)
}

// DropPool takes note of a pool's end.
func (f *Fleet) DropPool(p *mcfgv1.MachineConfigPool) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pools, p.Name)
	delete(f.watched, p.Name)
	delete(f.places, p.Name)
	delete(f.gates.toAsk, p.Name)
	f.written.drop(poolKey(p.Name))
	return f.regroup(p.Name)
}

// regroup sorts the nodes into the pools that there are now.
func (f *Fleet) regroup(changed string) []string {
	if f.roster.SetPools(f.allPools()) {
		return slices.Collect(maps.Keys(f.pools))
	}
	return f.concerned(changed)
}

// allPools are the pools by name.
func (f *Fleet) allPools() []*mcfgv1.MachineConfigPool {
	out := make([]*mcfgv1.MachineConfigPool, 0, len(f.pools))
	for _, name := range slices.Sorted(maps.Keys(f.pools)) {
		out = append(out, f.pools[name])
	}
	return out
}

// concerned are the pools, and those whose decisions depend on them; each once.
func (f *Fleet) concerned(pools ...string) []string {
	var out []string
	add := func(p string) {
		if p != "" && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	for _, p := range pools {
		add(p)
	}
	for looker, at := range f.watched {
		if slices.ContainsFunc(pools, func(p string) bool { return p != "" && slices.Contains(at, p) }) {
			add(looker)
		}
	}
	return out
}

// freed takes the places that a pool takes in budgets, and returns the other pools that look at it where these are fewer
// than last time: that a gate opened, or that a node was Ready for long enough, is no event of anybody's.
func (f *Fleet) freed(pool string, places int) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.places[pool]
	if f.places[pool] = places; places >= was {
		return nil
	}
	return slices.DeleteFunc(f.concerned(pool), func(p string) bool { return p == pool })
}

// wrote remembers a write until the informer shows it. It may have shown it by now, or the object's end; an object that an
// informer does not know is gone, for nothing is written to that it did not show before.
func (f *Fleet) wrote(key objectKey, what *write) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var version string
	if n := f.nodes[key.name]; n != nil && !key.pool {
		version = n.ResourceVersion
	}
	if p := f.pools[key.name]; p != nil && key.pool {
		version = p.ResourceVersion
	}
	if what == nil || version == "" || what.shownBy(version) {
		return
	}
	f.written.put(key, *what)
}

// feed hands an informer's events to a fleet, and asks for a look at the pools concerned, soon but not at once.
func feed[T client.Object](put, drop func(T) []string) handler.TypedFuncs[T, reconcile.Request] {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(q queue, pools []string) {
		for _, p := range pools {
			q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKey{Name: p}}, coalesce)
		}
	}
	return handler.TypedFuncs[T, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[T], q queue) { enqueue(q, put(e.Object)) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[T], q queue) { enqueue(q, put(e.ObjectNew)) },
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[T], q queue) { enqueue(q, drop(e.Object)) },
	}
}
