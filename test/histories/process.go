package histories

import (
	"reflect"
	"slices"
	"strconv"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/membership"
	"github.com/bunsen-os/bunsen/reconcile/drain"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// process is the controllers' memory: what their watches have shown, and what they are in the middle of. A crash loses
// all of it; the next one begins with a list of what there is.
type process struct {
	nodes map[string]*corev1.Node
	pools map[string]*mcfgv1.MachineConfigPool
	// secrets are the revisions that the watch has shown; heardSecrets is their edition.
	secrets      poolstate.Published
	heardSecrets int
	// heardNodes and heardPools are how much of the server's logs the watches have shown.
	heardNodes, heardPools int
	sorting
	// written are the versions of our own writes that no watch has shown yet: while there is one, nothing is decided.
	written map[string]int
	// pending are the writes of the sync under way.
	pending []write
	// answers are what evictions were answered, by the pod.
	answers map[string]drain.Answer
	clocks
}

// sorting says which pool a node belongs to, and keeps what was read.
type sorting struct {
	members membership.Pools
	customs []poolstate.Custom
	sights  map[string]sight
	said    map[string]saying
}

// sight is a node as it was read; its pool is empty where it has none.
type sight struct {
	of   *corev1.Node
	read poolstate.Node
	pool string
}

// saying is what a pool and the policies say.
type saying struct {
	pool          *mcfgv1.MachineConfigPool
	edition, size int
	secrets       int
	facts         poolstate.Facts
}

// seen is a node as the watch has shown it.
func (p *process) seen(name string) sight {
	n, s := p.nodes[name], p.sights[name]
	switch {
	case n == nil:
		return sight{}
	case s.of == n:
		return s
	}
	s = sight{of: n, read: poolstate.ReadNode(n)}
	if primary, _, err := p.members.For(s.read.Name, s.read.Labels); err == nil {
		s.pool = primary
	}
	p.sights[name] = s
	return s
}

// clocks say when to look again; they are the process's own and are never set back.
type clocks struct {
	// dirty pools have news; look is when to look at a pool without any.
	dirty map[string]bool
	look  map[string]time.Duration
	// due is when to look at a node's pods again.
	due map[string]time.Duration
	// edition of the policies that was looked at last.
	edition int
	// watched are the pools that a pool's last decision depended on.
	watched map[string][]string
}

// write is one write of a sync. Those after a failed record are not done.
type write struct {
	pool   string
	do     func() error
	record bool
}

func newProcess(w *world) *process {
	p := &process{
		nodes: map[string]*corev1.Node{}, pools: map[string]*mcfgv1.MachineConfigPool{},
		written: map[string]int{}, answers: map[string]drain.Answer{}, heardSecrets: -1,
		heardNodes: len(w.api.nodeLog), heardPools: len(w.api.poolLog),
		clocks: clocks{
			dirty: map[string]bool{}, look: map[string]time.Duration{}, due: map[string]time.Duration{},
			watched: map[string][]string{}, edition: w.edition,
		},
	}
	for name, pool := range w.api.pools {
		p.pools[name], p.dirty[name] = pool, true
	}
	p.regroup()
	p.hearSecrets(w)
	for name, n := range w.api.nodes {
		p.nodes[name], p.due[name] = n, 0
	}
	return p
}

func (p *process) regroup() {
	all := make([]*mcfgv1.MachineConfigPool, 0, len(p.pools))
	for _, pool := range p.pools {
		all = append(all, pool)
	}
	p.sorting = sorting{membership.New(all), poolstate.NewCustoms(all), map[string]sight{}, map[string]saying{}}
}

// hear lets watches show what happened since.
func (p *process) hear(w *world, which int) {
	if which&hearPools != 0 {
		for ; p.heardPools < len(w.api.poolLog); p.heardPools++ {
			pool := w.api.poolLog[p.heardPools]
			old := p.pools[pool.Name]
			p.pools[pool.Name] = pool
			p.shown("pool/"+pool.Name, pool.ResourceVersion)
			if old == nil || old.Spec.NodeSelector != pool.Spec.NodeSelector {
				p.regroup()
				p.news()
			}
			p.newsOf(pool.Name)
		}
		p.hearSecrets(w)
	}
	if which&hearNodes != 0 {
		for ; p.heardNodes < len(w.api.nodeLog); p.heardNodes++ {
			p.hearNode(w.api.nodeLog[p.heardNodes])
		}
	}
	if p.edition != w.edition {
		p.edition = w.edition
		p.news()
	}
}

func (p *process) hearNode(c nodeChange) {
	if c.now == nil {
		was := p.seen(c.name).pool
		delete(p.nodes, c.name)
		delete(p.due, c.name)
		delete(p.written, c.name)
		p.newsOf(was)
		return
	}
	was := p.seen(c.name)
	p.nodes[c.name] = c.now
	p.due[c.name] = 0
	p.shown(c.name, c.now.ResourceVersion)
	if is := p.seen(c.name); was.of == nil || !reflect.DeepEqual(was.read, is.read) {
		p.newsOf(was.pool, is.pool)
	}
}

// news of everything is a reason to look at every pool.
func (p *process) news() {
	for name := range p.pools {
		p.dirty[name] = true
	}
}

// newsOf pools is a reason to look at them, and at those whose last decisions depended on them.
func (p *process) newsOf(pools ...string) {
	for _, name := range pools {
		if name != "" {
			p.dirty[name] = true
		}
		for looker, at := range p.watched {
			if slices.Contains(at, name) {
				p.dirty[looker] = true
			}
		}
	}
}

func (p *process) shown(key, version string) {
	if v, ok := p.written[key]; ok && number(version) >= v {
		delete(p.written, key)
	}
}

func number(version string) int {
	n, err := strconv.Atoi(version)
	if err != nil {
		return 0
	}
	return n
}

// rollouts plays the rollout controller around the core, as reconcile does.
type rollouts struct{ *world }

// sync lets the rollout controller do its next write, or look at a pool.
func (w rollouts) sync(pool, hear int) {
	if pool < 0 || pool >= len(w.setup.Pools) {
		return
	}
	w.proc.hear(w.world, hear)
	if len(w.proc.pending) == 0 {
		w.look(w.setup.Pools[pool].Name)
	}
	w.carryOut()
}

// carryOut does the next write that is not done yet.
func (w rollouts) carryOut() {
	p := w.proc
	if len(p.pending) == 0 {
		return
	}
	next := p.pending[0]
	p.pending = p.pending[1:]
	before := w.api.version
	if err := next.do(); err != nil {
		w.tale.stirs++
		if next.record {
			p.pending = nil
		}
		p.dirty[next.pool] = true // it is tried again soon
		return
	}
	if w.api.version != before {
		w.tale.stirs++
	}
}

// look decides on a pool.
func (w rollouts) look(name string) {
	p := w.proc
	pool := p.pools[name]
	if len(p.written) > 0 {
		return // a watch shows it soon
	}
	delete(p.dirty, name)
	delete(p.look, name)
	f := w.gather(pool)
	if w.api.configs[f.Care.Healthy.Config] == nil { // nobody can go back to it
		f.Care.Healthy = v1alpha1.ConfigVersion{}
	}
	decision := poolstate.Decision{Record: f.Care.Record}
	if w.api.configs[f.Target.Config] != nil {
		f, decision = w.decide(f)
		if f.Secrets.Unresolved == "" || len(decision.Assign) > 0 { // else there is no decision
			watcher(w).judge(pool, f, decision)
		}
	}
	if f.Secrets.Unresolved == "" && w.api.configs[decision.Target.Config] == nil {
		decision = poolstate.Decision{Record: f.Care.Record, RequeueAfter: time.Minute} // until it is made again
	}
	p.pending = w.orders(pool, f, decision)
	for i := range p.pending {
		p.pending[i].pool = name
	}
	for i := range f.Nodes { // no event tells when a node's gate opens
		if f.Nodes[i].Gate != "" && (decision.RequeueAfter == 0 || decision.RequeueAfter > askGates) {
			decision.RequeueAfter = askGates
		}
	}
	if decision.RequeueAfter > 0 {
		p.look[name] = w.elapsed + decision.RequeueAfter
	}
}

// askGates is how often the gates of nodes are asked; a real controller asks more often.
const askGates = time.Minute

// decide asks the core; a job is run once its step is due.
func (w rollouts) decide(f poolstate.Facts) (poolstate.Facts, poolstate.Decision) {
	decision := w.core.Next(f, w.now)
	if !decision.Stage.Due {
		return f, decision
	}
	if jobs := w.jobs(f.Care.Pace.Gates); len(jobs) > 0 {
		f.Care.Gates = append(f.Care.Gates, jobs...)
		decision = w.core.Next(f, w.now)
	}
	return f, decision
}
