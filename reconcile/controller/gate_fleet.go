package controller

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// askAllOver is how often all nodes of a pool that run its target are asked about their health gates; one that has just
// changed is asked in the next look.
const askAllOver = 10 * time.Second

// notAsked is why a node is held that nobody asked about its gates since it changed.
const notAsked = "its health gates are not asked about yet"

// gatekeeper remembers which nodes of the fleet have to be asked about their gates, and holds them until then. The lock of
// the fleet that it belongs to guards it.
type gatekeeper struct {
	roster  *rollout.Roster
	toAsk   map[string]*gateless // by pool
	held    map[string]bool      // nodes whose gates do not hold
	changes uint64               // how many changes of nodes there were
}

func newGatekeeper(r *rollout.Roster) gatekeeper {
	return gatekeeper{roster: r, toAsk: map[string]*gateless{}, held: map[string]bool{}}
}

// gateless are the nodes of a pool whose gates have to be asked about.
type gateless struct {
	// config that they have to run, and all that is asked of them.
	config, question string
	// nodes that changed since they were asked about, and when, as gatekeeper.changes counts.
	nodes map[string]uint64
	// all is when all were asked last.
	all time.Time
}

// gateQuestions are which nodes are asked about their gates, as they were when this was decided.
type gateQuestions struct {
	pool, question string
	nodes          []*corev1.Node
	upTo           uint64
}

// newGateless is what is asked of the nodes of a pool; nil where no gate asks anything of a node, or the rollout ended.
func newGateless(f rollout.Facts) *gateless {
	a, r := &gateless{config: f.Target, nodes: map[string]uint64{}}, f.Care.Record
	if r.Config == f.Target && r.Verdict == v1alpha1.RolloutReverted {
		a.config = r.Back
	}
	if f.Target == "" || r.Config == f.Target && r.Ended != nil {
		return nil
	}
	question := []string{a.config}
	for i := range f.Care.Pace.Gates {
		for _, ds := range f.Care.Pace.Gates[i].DaemonSets {
			question = append(question, f.Care.Pace.Gates[i].Name+" "+ds.Namespace+"/"+ds.Name)
		}
	}
	if a.question = strings.Join(question, "\n"); len(question) == 1 {
		return nil
	}
	return a
}

// shut holds the nodes that run what they were told, and that nobody asked about their gates since they changed.
func (k *gatekeeper) shut(facts rollout.Facts) *gateless {
	members := k.roster.Pool(facts.Pool)
	a := newGateless(facts)
	if a == nil {
		k.ungate(facts.Pool)
		return nil
	}
	if known := k.toAsk[facts.Pool]; known != nil && known.question == a.question {
		a = known
	} else {
		k.toAsk[facts.Pool] = a
		for _, n := range members.Nodes() {
			a.nodes[n.Name] = k.changes
		}
	}
	for name := range a.nodes {
		k.ask(facts.Pool, name)
	}
	return a
}

// ask holds a node until it is asked about, where it runs what its pool is told.
func (k *gatekeeper) ask(pool, name string) {
	a := k.toAsk[pool]
	if a == nil {
		return
	}
	n, ours := k.roster.Pool(pool).Node(name)
	switch {
	case ours && n.UpdatedTo(a.config):
		k.gate(name, notAsked)
		return
	case ours:
		k.gate(name, "")
	}
	delete(a.nodes, name)
}

// changed takes note that what was said of a node's gates is of before.
func (k *gatekeeper) changed(pool, name string) {
	if a := k.toAsk[pool]; a != nil {
		k.changes++
		a.nodes[name] = k.changes
		k.ask(pool, name)
	}
}

// gate says why the gates of a node do not hold; empty: they do.
func (k *gatekeeper) gate(name, why string) {
	k.roster.SetGate(name, why)
	if delete(k.held, name); why != "" {
		k.held[name] = true
	}
}

// ungate forgets what gates said that a pool does not have any more; one that comes later asks all nodes.
func (k *gatekeeper) ungate(pool string) {
	members := k.roster.Pool(pool)
	delete(k.toAsk, pool)
	for name := range k.held {
		if _, ours := members.Node(name); ours {
			k.gate(name, "")
		}
	}
}

// unasked are the nodes to ask about their gates: those that changed, and from time to time all that run what they were
// told. It is for the beginning of a look; nothing that it returns is waited for by a decision.
func (f *Fleet) unasked(q question, now time.Time) gateQuestions {
	f.mu.Lock()
	defer f.mu.Unlock()
	members := f.roster.Pool(q.pool.Name)
	a := f.gates.shut(rollout.ReadFacts(q.pool, q.policies, members.Len()))
	if a == nil {
		return gateQuestions{}
	}
	out := gateQuestions{pool: q.pool.Name, question: a.question, upTo: f.gates.changes}
	if since := now.Sub(a.all); since < 0 || since >= askAllOver {
		a.all = now
		for _, n := range members.Nodes() {
			if n.UpdatedTo(a.config) {
				out.nodes = append(out.nodes, f.nodes[n.Name])
			}
		}
		return out
	}
	for name := range a.nodes {
		out.nodes = append(out.nodes, f.nodes[name])
	}
	slices.SortFunc(out.nodes, func(x, y *corev1.Node) int { return strings.Compare(x.Name, y.Name) })
	return out
}

// answered takes why the gates of each node do not hold; empty: they do. A node that changed since is asked about again.
func (f *Fleet) answered(of gateQuestions, why []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.gates.toAsk[of.pool]
	if a == nil || a.question != of.question {
		return
	}
	for i, n := range of.nodes {
		at, unknown := a.nodes[n.Name]
		if _, ours := f.roster.Pool(of.pool).Node(n.Name); !ours || unknown && at > of.upTo {
			continue
		}
		delete(a.nodes, n.Name)
		f.gates.gate(n.Name, why[i])
	}
}
