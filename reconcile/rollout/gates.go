package rollout

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// evaluateNodesEvery is the maximum interval between two evaluations of a pool's node gates while one of them is
// closed.
const evaluateNodesEvery = 10 * time.Second

// gatesNotEvaluated is the reason for a node whose health gates have not been evaluated since the node changed.
const gatesNotEvaluated = "its health gates are not evaluated yet"

// nodeGates are the gates of each node of a pool. The zero value has no gates.
type nodeGates struct {
	// config is the config that a node has to run before its gates are evaluated.
	config string
	// key identifies the config and all gates.
	key string
	// own has the configs of single nodes.
	own poolstate.NodeConfigs
}

// nodeGatesAnswer is the stored answer of a node's gates: why they are closed, or "" if they are open.
type nodeGatesAnswer struct {
	key string
	// changes is the node's number of changes before the evaluation. If the node has changed again since then, the
	// answer is not used.
	changes int
	why     string
}

// newNodeGates returns the gates of the nodes of a pool. newNodeGates returns the zero value if no gate is about nodes,
// or if the rollout has ended.
func newNodeGates(f poolstate.Facts) nodeGates {
	g, r := nodeGates{config: f.Target, own: f.Care.NodeConfigs}, f.Care.Record
	if r.Target() == f.Target && r.Verdict == v1alpha1.RolloutReverted {
		g.config = r.ReturnsTo()
	}
	if f.Target == "" || r.Target() == f.Target && r.Ended != nil {
		return nodeGates{}
	}
	parts := []string{g.config}
	for i := range f.Care.Pace.Gates {
		for _, ds := range f.Care.Pace.Gates[i].DaemonSets {
			parts = append(parts, f.Care.Pace.Gates[i].Name+" "+ds.Namespace+"/"+ds.Name)
		}
	}
	if len(parts) == 1 {
		return nodeGates{}
	}
	g.key = strings.Join(parts, "\n")
	return g
}

// closed returns why the gates of a node are closed; empty if they are open.
func (g nodeGates) closed(n *fleetNode) string {
	switch {
	case g.key == "" || !g.isUpdated(n):
		return ""
	case n.gates.key != g.key || n.gates.changes != n.changes:
		return gatesNotEvaluated
	}
	return n.gates.why
}

// isUpdated reports whether a node runs its config of the pool's config.
func (g nodeGates) isUpdated(n *fleetNode) bool {
	return n.read.UpdatedTo(g.own.Own(g.config, n.read.Name))
}

// evaluateNodeGates evaluates the gates of all nodes of a pool that run its target. The function evaluate returns for
// each node why its gates are closed.
func (f *Fleet) evaluateNodeGates(facts poolstate.Facts, evaluate func([]*corev1.Node) []string) {
	gates := newNodeGates(facts)
	if gates.key == "" {
		return
	}
	f.mu.Lock()
	asked := slices.DeleteFunc(f.nodes.in(facts.Pool), func(n *fleetNode) bool { return !gates.isUpdated(n) })
	objects, answers := make([]*corev1.Node, len(asked)), make([]nodeGatesAnswer, len(asked))
	for i, n := range asked {
		objects[i], answers[i] = n.object, nodeGatesAnswer{key: gates.key, changes: n.changes}
	}
	f.mu.Unlock()
	why := evaluate(objects)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, n := range asked {
		answers[i].why = why[i]
		n.gates = answers[i]
	}
}
