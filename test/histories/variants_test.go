package histories_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// rowed is a pool whose nodes have rows, its repository, and its machines.
type rowed struct {
	*rand.Rand
	t   *testing.T
	now time.Time
	// base and rows are what the newest commit says. pushed are all commits.
	base   int
	rows   map[string]int
	pushed []v1alpha1.NodeConfigs
	// configs are the configs of single nodes of each target.
	configs map[string]v1alpha1.NodeConfigs
	pool    *mcfgv1.MachineConfigPool
	nodes   []*corev1.Node
	most    int
	// assigned counts assignments, and crashed the decisions that were carried out in part.
	assigned, crashed int
	// kept are the secrets of the cluster; nil if no config refers to any.
	kept *keptSecrets
}

func newRowed(t *testing.T, r *rand.Rand, kept *keptSecrets) *rowed {
	w := &rowed{
		kept: kept, Rand: r, t: t, now: time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC), rows: map[string]int{},
		configs: map[string]v1alpha1.NodeConfigs{}, most: 1 + r.IntN(2),
	}
	w.pool = &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker", Annotations: map[string]string{}}}
	most := intstr.FromInt32(int32(w.most)) //nolint:gosec // one or two
	w.pool.Spec.MaxUnavailable = &most
	for i := range 5 {
		w.rows[fmt.Sprint("worker-", i)] = i
	}
	w.push()
	for node := range 6 { // The last one has no row at first.
		name := fmt.Sprint("worker-", node)
		own := w.configs[w.pool.Spec.Configuration.Name].Of(name) // without its secrets, as a machine that just joined
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name:              name,
			CreationTimestamp: metav1.NewTime(w.now.Add(-time.Hour)), Annotations: map[string]string{
				v1alpha1.CurrentConfigAnnotation: own, v1alpha1.DesiredConfigAnnotation: own,
				v1alpha1.StateAnnotation: v1alpha1.StateDone,
			},
		}}
		w.nodes = append(w.nodes, n)
		w.setReady(n, corev1.ConditionTrue)
	}
	return w
}

func (w *rowed) setReady(n *corev1.Node, ready corev1.ConditionStatus) {
	n.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: ready,
		LastTransitionTime: metav1.NewTime(w.now.Add(-time.Minute)),
	}}
}

// push renders the rows: equal rows give equal configs.
func (w *rowed) push() {
	of := v1alpha1.NodeConfigs{Base: fmt.Sprintf("rendered-worker-%032x", w.base), Secrets: w.kept != nil}
	for node, row := range w.rows {
		of.Set(node, fmt.Sprintf("rendered-worker-%032x", 1000+100*w.base+row))
	}
	w.target(of)
}

// target makes the configs of nodes those of the pool, which a revert does with earlier ones.
func (w *rowed) target(of v1alpha1.NodeConfigs) {
	name := of.Base
	if !of.IsZero() {
		name = machineconfig.TargetName(of)
	}
	w.configs[name], w.pushed = of, append(w.pushed, of)
	w.pool.Spec.Configuration.Name = name
}

// own is the config that a node runs for a config of the pool, with the present revision of its secrets.
func (w *rowed) own(config, node string) string {
	own := v1alpha1.ParseConfigVersion(config).Config
	if of := w.configs[own]; !of.IsZero() {
		own = of.Of(node)
	}
	return v1alpha1.NewConfigVersion(own, w.kept.revision(w, node, own)).String()
}

// out reports whether a node is out of service or in an update. A node that returns from a failed config before it left
// its own is in service.
func out(n *corev1.Node) bool {
	return current(n) != desired(n) || n.Status.Conditions[0].Status != corev1.ConditionTrue
}

// done reports whether each node runs its own config of the target.
func (w *rowed) done() bool {
	for _, n := range w.nodes {
		want := w.own(w.pool.Spec.Configuration.Name, n.Name)
		if current(n) != want || n.Annotations[v1alpha1.StateAnnotation] != v1alpha1.StateDone || out(n) {
			return false
		}
	}
	return true
}

func (w *rowed) out() (count int) {
	for _, n := range w.nodes {
		if out(n) {
			count++
		}
	}
	return count
}

// decide carries out a decision, or the first part of it before a crash, and checks it.
func (w *rowed) decide() {
	f := poolstate.Read(w.pool, nil, w.kept.published(w), len(w.nodes))
	f.SetNodeConfigs(func(config string) v1alpha1.NodeConfigs { return w.configs[config] })
	var nodes []poolstate.Node
	for _, n := range w.nodes {
		nodes = append(nodes, poolstate.ReadNode(n))
	}
	f.SetNodes(nodes)
	d := rollout.Next(f, w.now)
	updated := 0
	for _, n := range w.nodes {
		a, own := n.Annotations, w.own(d.Target.String(), n.Name)
		if current(n) == own && desired(n) == own && a[v1alpha1.StateAnnotation] == v1alpha1.StateDone {
			updated++
		}
	}
	if !d.Target.IsZero() && w.kept.isCurrent() && d.Counts.Updated != updated {
		w.t.Fatalf("%d nodes count as updated to %s, and %d run their own configs of it", d.Counts.Updated, d.Target,
			updated)
	}
	w.pool.Annotations[v1alpha1.RolloutAnnotation] = d.Record.String()
	before := w.out()
	for _, a := range d.Assign {
		if w.IntN(8) == 0 {
			w.crashed++
			return
		}
		if want := w.own(d.Target.String(), a.Node); a.Config.String() != want &&
			(w.kept.isCurrent() || !w.kept.ever[a.Config.String()]) {
			w.t.Fatalf("%s is assigned %s, and its own config of %s is %s", a.Node, a.Config, d.Target, want)
		}
		for _, n := range w.nodes {
			if n.Name == a.Node {
				if w.kept != nil && w.kept.quiet && desired(n) == w.own(d.Target.String(), n.Name) {
					w.t.Fatalf("%s has %s, and is assigned %s", n.Name, desired(n), a.Config)
				}
				setAt(n, v1alpha1.DesiredConfigAnnotation, v1alpha1.DesiredSecretsAnnotation, a.Config.String())
				w.assigned++
			}
		}
		if now := w.out(); now > max(before, w.most) {
			w.t.Fatalf("%d nodes are out after the assignment to %s; %d may be: %+v", now, a.Node, w.most, d.Assign)
		}
	}
}

// daemon lets one machine do its next step. It fails some updates, and goes back.
func (w *rowed) daemon(mayFail bool) {
	n := w.nodes[w.IntN(len(w.nodes))]
	a := n.Annotations
	switch {
	case a[v1alpha1.StateAnnotation] == v1alpha1.StateDegraded:
		if !mayFail || w.IntN(3) == 0 {
			a[v1alpha1.StateAnnotation] = v1alpha1.StateWorking
			delete(a, v1alpha1.FailureAnnotation)
		}
	case a[v1alpha1.StateAnnotation] == v1alpha1.StateWorking && !w.kept.canGet(w, n): // It waits for its secrets.
	case a[v1alpha1.StateAnnotation] == v1alpha1.StateWorking &&
		n.Status.Conditions[0].Status == corev1.ConditionTrue && current(n) != desired(n):
		w.setReady(n, corev1.ConditionFalse)
	case a[v1alpha1.StateAnnotation] == v1alpha1.StateWorking && mayFail && w.IntN(6) == 0:
		w.setReady(n, corev1.ConditionTrue)
		a[v1alpha1.StateAnnotation] = v1alpha1.StateDegraded
		a[v1alpha1.FailureAnnotation] = v1alpha1.Failure{
			Config:  a[v1alpha1.DesiredConfigAnnotation],
			Secrets: a[v1alpha1.DesiredSecretsAnnotation], Cause: v1alpha1.FailureApply,
		}.String()
	case a[v1alpha1.StateAnnotation] == v1alpha1.StateWorking:
		w.setReady(n, corev1.ConditionTrue)
		setAt(n, v1alpha1.CurrentConfigAnnotation, v1alpha1.CurrentSecretsAnnotation, desired(n))
		a[v1alpha1.StateAnnotation] = v1alpha1.StateDone
	case current(n) != desired(n):
		a[v1alpha1.StateAnnotation] = v1alpha1.StateWorking
	}
}

// change pushes a commit: a row, a row less or more, a document of the whole pool, or a revert.
func (w *rowed) change() {
	node := fmt.Sprint("worker-", w.IntN(6))
	switch w.IntN(6) {
	case 0:
		w.base++
	case 1:
		delete(w.rows, node)
	case 2:
		w.target(w.pushed[w.IntN(len(w.pushed))])
		return
	default:
		w.rows[node] = w.IntN(8)
	}
	w.rows = maps.Clone(w.rows)
	w.push()
}

// TestNodesWithRowsRunTheirOwnConfigs plays random histories of rows, secrets, failures and crashes: a node is assigned
// only its own config of the one target, within the budget of the pool, and counts as updated if and only if it runs
// it. A changed secret is another target only for the nodes whose own config refers to it. In the end each node runs
// its own config.
func TestNodesWithRowsRunTheirOwnConfigs(t *testing.T) {
	assigned, crashed, rotated := 0, 0, 0
	for seed := range uint64(180) {
		var kept *keptSecrets
		if seed >= 120 {
			kept = newKeptSecrets()
		}
		w := newRowed(t, rand.New(rand.NewPCG(seed, 7)), kept)
		for range 150 {
			w.now = w.now.Add(time.Duration(w.IntN(20)) * time.Second)
			switch w.IntN(12) {
			case 0:
				w.change()
			case 1, 2, 3, 4:
				w.decide()
			case 5:
				w.kept.change(w)
			default:
				w.daemon(true)
			}
		}
		w.kept.settle(w)
		for range 800 {
			if w.done() {
				break
			}
			w.now = w.now.Add(10 * time.Second)
			w.decide()
			w.daemon(false)
		}
		if !w.done() {
			for _, n := range w.nodes {
				t.Logf("%s: %v, its own is %s", n.Name, n.Annotations, w.own(w.pool.Spec.Configuration.Name, n.Name))
			}
			t.Fatalf("seed %d: not each node runs its own config in the end; the record is %s", seed,
				w.pool.Annotations[v1alpha1.RolloutAnnotation])
		}
		if kept != nil {
			rotated += kept.touchesOnlyItsNodes(w)
		}
		assigned, crashed = assigned+w.assigned, crashed+w.crashed
	}
	if t.Logf("%d assignments, %d crashes, %d nodes moved by one secret", assigned, crashed,
		rotated); assigned < 1000 || crashed < 100 || rotated < 50 {
		t.Error("the test has lost its subject")
	}
}
