package controller_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controller"
)

// node is a Ready node of pool worker that runs and wants a config.
func node(name, current, desired string) *corev1.Node {
	state := v1alpha1.StateDone
	if current != desired {
		state = v1alpha1.StateWorking
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"node-role.kubernetes.io/worker": ""}, Annotations: map[string]string{
			v1alpha1.CurrentConfigAnnotation: current, v1alpha1.DesiredConfigAnnotation: desired, v1alpha1.StateAnnotation: state,
		}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// rolling is a rollout controller, and the informers that feed it.
type rolling struct {
	*controller.Rollout
	w *world
	// late informers show nothing new.
	late  bool
	nodes map[string]*corev1.Node
	pools map[string]*mcfgv1.MachineConfigPool
}

// rollout starts a rollout controller that has seen nothing yet.
func (w *world) rollout() *rolling {
	return &rolling{w: w, nodes: map[string]*corev1.Node{}, pools: map[string]*mcfgv1.MachineConfigPool{}, Rollout: &controller.Rollout{
		Client: w.through, Live: w.admin, Fleet: controller.NewFleet(), Now: func() time.Time { return w.now }, Events: w.told, Writers: 1,
	}}
}

// feed does the informers' part, and returns the pools that have to be looked at, in order.
func (r *rolling) feed() []string {
	r.w.t.Helper()
	var nodes corev1.NodeList
	var pools mcfgv1.MachineConfigPoolList
	for _, list := range []client.ObjectList{&nodes, &pools} {
		if err := r.w.admin.List(r.w.t.Context(), list); err != nil {
			r.w.t.Fatal(err)
		}
	}
	asked := map[string]bool{}
	note := func(names []string) {
		for _, name := range names {
			asked[name] = true
		}
	}
	note(follow(r.pools, pointers(pools.Items), r.Fleet.PutPool, r.Fleet.DropPool))
	note(follow(r.nodes, pointers(nodes.Items), r.Fleet.PutNode, r.Fleet.DropNode))
	return slices.Sorted(maps.Keys(asked))
}

// follow hands over what differs between what was shown and what there is.
func follow[T client.Object](shown map[string]T, there []T, put, drop func(T) []string) (asked []string) {
	gone := maps.Clone(shown)
	for _, o := range there {
		old, was := shown[o.GetName()]
		delete(gone, o.GetName())
		if !was || old.GetResourceVersion() != o.GetResourceVersion() {
			asked = append(asked, put(o)...)
			shown[o.GetName()] = o
		}
	}
	for name, o := range gone {
		asked = append(asked, drop(o)...)
		delete(shown, name)
	}
	return asked
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}

// look feeds the controller, unless its informers are late, and lets it look at a pool once.
func (r *rolling) look(pool string) (reconcile.Result, error) {
	r.w.t.Helper()
	if !r.late {
		r.feed()
	}
	return r.Reconcile(r.w.t.Context(), request(pool))
}

// roll lets the controller look at pools, worker where none is named.
func (r *rolling) roll(pools ...string) reconcile.Result {
	r.w.t.Helper()
	if len(pools) == 0 {
		pools = []string{"worker"}
	}
	var result reconcile.Result
	for _, p := range pools {
		var err error
		if result, err = r.look(p); err != nil {
			r.w.t.Fatalf("rolling out pool %s: %v", p, err)
		}
	}
	return result
}

// fleet is a pool with the target v1 and nodes n0, n1… that run v0.
func fleet(t *testing.T, size int, objects ...client.Object) (*world, *rolling) {
	t.Helper()
	objects = append(objects, target("v0", "a", "say nothing"), target("v1", "b", "say hello"), target("v2", "c", "say goodbye"))
	for i := range size {
		objects = append(objects, node(fmt.Sprintf("n%d", i), "v0", "v0"))
	}
	w := newWorld(t, objects...)
	w.aim("worker", "v1")
	return w, w.rollout()
}

// target is a rendered config of a commit whose hash consists of one digit.
func target(name, digit, subject string) *mcfgv1.MachineConfig {
	mc := byHand(name, "", "{}")
	mc.Annotations = map[string]string{v1alpha1.RevisionAnnotation: "main@sha1:" + strings.Repeat(digit, 40), v1alpha1.CommitSubjectAnnotation: subject}
	return mc
}

// aim points a pool at a rendered config, as the render controller does.
func (w *world) aim(pool, config string) {
	change(w, w.pool(pool), func(p *mcfgv1.MachineConfigPool) {
		p.Spec.Configuration.Name = config
		revision := w.config(config).Annotations[v1alpha1.RevisionAnnotation]
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.RevisionAnnotation, revision)
	})
}

// report writes an object's status, as its owner does.
func report[T client.Object](w *world, o T, edit func(T)) {
	w.t.Helper()
	edit(o)
	if err := w.admin.Status().Update(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// fail lets a node's daemon report that it could not.
func (w *world) fail(name, reason string) {
	change(w, w.node(name), func(n *corev1.Node) {
		n.Annotations[v1alpha1.StateAnnotation] = v1alpha1.StateDegraded
		n.Annotations[v1alpha1.ReasonAnnotation] = reason
	})
}

// events counts the events of a reason.
func (w *world) events(reason string) int {
	n := 0
	for _, line := range w.told.lines {
		if strings.Contains(line, " "+reason+": ") {
			n++
		}
	}
	return n
}

func (w *world) node(name string) *corev1.Node { return get(w, name, &corev1.Node{}) }

// nodes prints each node as `name current>desired`, with `tainted` where it is.
func (w *world) nodes() string {
	w.t.Helper()
	var list corev1.NodeList
	if err := w.admin.List(w.t.Context(), &list); err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, n := range list.Items {
		text := fmt.Sprintf("%s %s>%s", n.Name, n.Annotations[v1alpha1.CurrentConfigAnnotation], n.Annotations[v1alpha1.DesiredConfigAnnotation])
		if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.UpdateInProgressTaint }) {
			text += " tainted"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// finish lets a node's daemon end its update.
func (w *world) finish(name string) {
	change(w, w.node(name), func(n *corev1.Node) {
		n.Annotations[v1alpha1.CurrentConfigAnnotation] = n.Annotations[v1alpha1.DesiredConfigAnnotation]
		n.Annotations[v1alpha1.StateAnnotation] = v1alpha1.StateDone
		delete(n.Annotations, v1alpha1.ReasonAnnotation)
	})
}
