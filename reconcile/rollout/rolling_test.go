package rollout_test

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
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/reconcile/health"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

type rolloutWorld struct{ *controllertest.Cluster }

func newRolloutWorld(t *testing.T, objects ...client.Object) *rolloutWorld {
	t.Helper()
	return &rolloutWorld{controllertest.NewCluster(t, objects...)}
}

// rolloutsRolling is a rollout controller, and the informers that feed it.
type rolloutsRolling struct {
	*rollout.Controller
	w *rolloutWorld
	// late informers show nothing new.
	late  bool
	nodes map[string]*corev1.Node
	pools map[string]*mcfgv1.MachineConfigPool
}

// rollout starts a rollout controller that has seen nothing yet.
func (w *rolloutWorld) rollout() *rolloutsRolling {
	return &rolloutsRolling{
		w: w, nodes: map[string]*corev1.Node{}, pools: map[string]*mcfgv1.MachineConfigPool{},
		Controller: &rollout.Controller{
			Client: w.Client, Live: w.Admin, Fleet: rollout.NewFleet(&health.Heartbeats{}), Now: func() time.Time {
				return w.Now
			}, Events: w.Events, Writers: 1,
		},
	}
}

// feed does the informers' part, and returns the pools that have to be looked at, in order.
func (r *rolloutsRolling) feed() []string {
	r.w.T.Helper()
	var nodes corev1.NodeList
	var pools mcfgv1.MachineConfigPoolList
	for _, list := range []client.ObjectList{&nodes, &pools} {
		if err := r.w.Admin.List(r.w.T.Context(), list); err != nil {
			r.w.T.Fatal(err)
		}
	}
	asked := map[string]bool{}
	note := func(names []string) {
		for _, name := range names {
			asked[name] = true
		}
	}
	note(controllertest.SendChanges(r.pools, pointers(pools.Items), r.Fleet.PutPool, r.Fleet.DropPool))
	note(controllertest.SendChanges(r.nodes, pointers(nodes.Items), r.Fleet.PutNode, r.Fleet.DropNode))
	return slices.Sorted(maps.Keys(asked))
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}

// look feeds the controller, unless its informers are late, and lets it look at a pool once.
func (r *rolloutsRolling) look(pool string) (reconcile.Result, error) {
	r.w.T.Helper()
	if !r.late {
		r.feed()
	}
	return r.Reconcile(r.w.T.Context(), controllertest.Request(pool))
}

// roll lets the controller look at pools, worker where none is named.
func (r *rolloutsRolling) roll(pools ...string) reconcile.Result {
	r.w.T.Helper()
	if len(pools) == 0 {
		pools = []string{"worker"}
	}
	var result reconcile.Result
	for _, p := range pools {
		var err error
		if result, err = r.look(p); err != nil {
			r.w.T.Fatalf("rolling out pool %s: %v", p, err)
		}
	}
	return result
}

// rolloutsFleet is a pool with the target v1 and nodes n0, n1… that run v0.
func rolloutsFleet(t *testing.T, size int, objects ...client.Object) (*rolloutWorld, *rolloutsRolling) {
	t.Helper()
	objects = append(objects, targetConfig("v0", "a", "say nothing"), targetConfig("v1", "b", "say hello"),
		targetConfig("v2", "c", "say goodbye"))
	for i := range size {
		objects = append(objects, controllertest.Node(fmt.Sprintf("n%d", i), "v0", "v0"))
	}
	w := newRolloutWorld(t, objects...)
	w.aim("worker", "v1")
	return w, w.rollout()
}

// target is a rendered config of a commit whose hash consists of one digit.
func targetConfig(name, digit, subject string) *mcfgv1.MachineConfig {
	mc := controllertest.ManualConfig(name, "", "{}")
	mc.Annotations = map[string]string{
		v1alpha1.RevisionAnnotation:      "main@sha1:" + strings.Repeat(digit, 40),
		v1alpha1.CommitSubjectAnnotation: subject,
	}
	return mc
}

// aim points a pool at a rendered config, as the render controller does.
func (w *rolloutWorld) aim(pool, config string) {
	controllertest.Modify(w.Cluster, w.Pool(pool), func(p *mcfgv1.MachineConfigPool) {
		p.Spec.Configuration.Name = config
		revision := w.Config(config).Annotations[v1alpha1.RevisionAnnotation]
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.RevisionAnnotation, revision)
	})
}

// report writes an object's status, as its owner does.
func report[T client.Object](w *controllertest.Cluster, o T, edit func(T)) {
	w.T.Helper()
	edit(o)
	if err := w.Admin.Status().Update(w.T.Context(), o); err != nil {
		w.T.Fatal(err)
	}
}

// fail lets a node's daemon report that it could not.
func (w *rolloutWorld) fail(name, reason string) {
	controllertest.Modify(w.Cluster, w.Node(name), func(n *corev1.Node) {
		n.Annotations[v1alpha1.StateAnnotation] = v1alpha1.StateDegraded
		n.Annotations[v1alpha1.ReasonAnnotation] = reason
	})
}

// events counts the events of a reason.
func (w *rolloutWorld) countEvents(reason string) int {
	n := 0
	for _, line := range w.Events.Lines {
		if strings.Contains(line, " "+reason+": ") {
			n++
		}
	}
	return n
}

// nodes prints each node as `name current>desired`, with `tainted` where it is.
func (w *rolloutWorld) nodes() string {
	w.T.Helper()
	var list corev1.NodeList
	if err := w.Admin.List(w.T.Context(), &list); err != nil {
		w.T.Fatal(err)
	}
	var out []string
	for _, n := range list.Items {
		text := fmt.Sprintf("%s %s>%s", n.Name, n.Annotations[v1alpha1.CurrentConfigAnnotation],
			n.Annotations[v1alpha1.DesiredConfigAnnotation])
		if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
			return t.Key == v1alpha1.UpdateInProgressTaint
		}) {
			text += " tainted"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// finish lets a node's daemon end its update.
func (w *rolloutWorld) finish(name string) {
	controllertest.Modify(w.Cluster, w.Node(name), func(n *corev1.Node) {
		n.Annotations[v1alpha1.CurrentConfigAnnotation] = n.Annotations[v1alpha1.DesiredConfigAnnotation]
		n.Annotations[v1alpha1.StateAnnotation] = v1alpha1.StateDone
		delete(n.Annotations, v1alpha1.ReasonAnnotation)
	})
}
