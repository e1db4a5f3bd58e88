package controller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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

// fleet is a pool with the target v1 and nodes n0, n1… that run v0.
func fleet(t *testing.T, size int) (*world, *controller.Rollout) {
	t.Helper()
	target := byHand("v1", "", "{}")
	target.Annotations = map[string]string{v1alpha1.RevisionAnnotation: "main@sha1:" + strings.Repeat("a", 40), v1alpha1.CommitSubjectAnnotation: "say hello"}
	objects := []client.Object{target}
	for i := range size {
		objects = append(objects, node(fmt.Sprintf("n%d", i), "v0", "v0"))
	}
	w := newWorld(t, objects...)
	change(w, w.pool("worker"), func(p *mcfgv1.MachineConfigPool) { p.Spec.Configuration.Name = "v1" })
	return w, w.rollout(w.through)
}

func (w *world) rollout(c client.Client) *controller.Rollout {
	return &controller.Rollout{Client: c, Now: func() time.Time { return w.now }, Events: w.told}
}

func (w *world) roll(r *controller.Rollout) {
	w.t.Helper()
	if _, err := r.Reconcile(w.t.Context(), request("worker")); err != nil {
		w.t.Fatalf("rolling out: %v", err)
	}
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
	})
}

// TestRollingOut is what the rollout controller promises, a sentence each.
func TestRollingOut(t *testing.T) {
	for sentence, story := range map[string]func(t *testing.T, w *world, r *controller.Rollout){
		"one node at a time; those that wait are tainted until it is their turn": func(t *testing.T, w *world, r *controller.Rollout) {
			w.roll(r)
			equal(t, "after the first look", w.nodes(), "n0 v0>v1, n1 v0>v0 tainted, n2 v0>v0 tainted")
			w.roll(r)
			equal(t, "after another look", w.nodes(), "n0 v0>v1, n1 v0>v0 tainted, n2 v0>v0 tainted")
			w.finish("n0")
			w.roll(r)
			equal(t, "once the first is done", w.nodes(), "n0 v1>v1, n1 v0>v1, n2 v0>v0 tainted")
			w.finish("n1")
			w.roll(r)
			w.finish("n2")
			w.roll(r)
			equal(t, "in the end", w.nodes(), "n0 v1>v1, n1 v1>v1, n2 v1>v1")
		},
		"status and events follow": func(t *testing.T, w *world, r *controller.Rollout) {
			w.roll(r)
			w.roll(r)
			p := w.pool("worker")
			equal(t, "counts", fmt.Sprint(p.Status.MachineCount, p.Status.UpdatedMachineCount, p.Status.UnavailableMachineCount, p.Status.ObservedGeneration == p.Generation), "3 0 1 true")
			equal(t, "Updating", poolCondition(p, mcfgv1.MachineConfigPoolUpdating), "True|All nodes are updating to MachineConfig v1")
			for _, n := range []string{"n0", "n1", "n2"} {
				w.finish(n)
				w.roll(r)
			}
			p = w.pool("worker")
			equal(t, "Updated", poolCondition(p, mcfgv1.MachineConfigPoolUpdated), "True|All nodes are updated with MachineConfig v1")
			equal(t, "status.configuration", p.Status.Configuration.Name, "v1")
			want := []string{
				`Normal SetDesiredConfig: node n0 takes v1 (main@sha1:aaaaaaaa "say hello")`,
				`Normal Updating: pool worker is updating to v1 (main@sha1:aaaaaaaa "say hello")`,
				`Normal SetDesiredConfig: node n1 takes v1 (main@sha1:aaaaaaaa "say hello")`,
				`Normal SetDesiredConfig: node n2 takes v1 (main@sha1:aaaaaaaa "say hello")`,
				`Normal Completed: pool worker is updated to v1 (main@sha1:aaaaaaaa "say hello")`,
			}
			equal(t, "the events", strings.Join(w.told.lines, "\n"), strings.Join(want, "\n"))
		},
		"a paused pool is told nothing": func(t *testing.T, w *world, r *controller.Rollout) {
			change(w, w.pool("worker"), func(p *mcfgv1.MachineConfigPool) { p.Spec.Paused = true })
			w.roll(r)
			equal(t, "the nodes", w.nodes(), "n0 v0>v0, n1 v0>v0, n2 v0>v0")
			has(t, "Updating", poolCondition(w.pool("worker"), mcfgv1.MachineConfigPoolUpdating), "False|Pool is paused")
		},
		"a target that is not there is told to nobody": func(t *testing.T, w *world, r *controller.Rollout) {
			w.remove(w.config("v1"))
			w.roll(r)
			equal(t, "the nodes", w.nodes(), "n0 v0>v0, n1 v0>v0, n2 v0>v0")
		},
		"a broken maxUnavailable stops the pool and is told once": func(t *testing.T, w *world, r *controller.Rollout) {
			change(w, w.pool("worker"), func(p *mcfgv1.MachineConfigPool) { p.Spec.MaxUnavailable = new(intstr.FromString("many")) })
			for range 3 {
				w.roll(r)
			}
			equal(t, "the nodes", w.nodes(), "n0 v0>v0, n1 v0>v0, n2 v0>v0")
			warnings := 0
			for _, line := range w.told.lines {
				if strings.HasPrefix(line, "Warning InvalidMaxUnavailable: ") {
					has(t, "the event", line, `"many"`, `"worker"`)
					warnings++
				}
			}
			equal(t, "warnings", warnings, 1)
		},
		"a node of another pool is left alone": func(t *testing.T, w *world, r *controller.Rollout) {
			change(w, w.node("n0"), func(n *corev1.Node) { n.Labels = map[string]string{"node-role.kubernetes.io/master": ""} })
			w.roll(r)
			has(t, "the nodes", w.nodes(), "n0 v0>v0, n1 v0>v1, n2 v0>v0 tainted")
		},
		"other people's taints stay": func(t *testing.T, w *world, r *controller.Rollout) {
			theirs := corev1.Taint{Key: "dedicated", Value: "gpu", Effect: corev1.TaintEffectNoSchedule}
			for _, n := range []string{"n0", "n1"} {
				change(w, w.node(n), func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{theirs} })
			}
			w.roll(r)
			w.finish("n0")
			w.roll(r)
			equal(t, "taints of n1", fmt.Sprint(w.node("n1").Spec.Taints), fmt.Sprint([]corev1.Taint{theirs}))
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w, r := fleet(t, 3)
			story(t, w, r)
		})
	}
}

// stale is a cache that shows Nodes as they were when it was frozen.
type stale struct{ nodes *corev1.NodeList }

func (s *stale) client(w *world) client.Client {
	return interceptor.NewClient(w.through, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if nodes, ok := list.(*corev1.NodeList); ok && s.nodes != nil {
				s.nodes.DeepCopyInto(nodes)
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	})
}

func (s *stale) freeze(w *world) {
	w.t.Helper()
	s.nodes = &corev1.NodeList{}
	if err := w.admin.List(w.t.Context(), s.nodes); err != nil {
		w.t.Fatal(err)
	}
}

// TestAStaleCacheDoesNotBreakTheBudget: what was written counts, even where the cache does not show it yet.
func TestAStaleCacheDoesNotBreakTheBudget(t *testing.T) {
	w, _ := fleet(t, 5)
	cache := &stale{}
	r := w.rollout(cache.client(w))
	cache.freeze(w)
	told := func() int { return strings.Count(w.nodes(), "v0>v1") }
	w.roll(r)
	equal(t, "nodes told", told(), 1)
	for range 5 {
		w.roll(r)
		equal(t, "nodes told while the cache is stale", told(), 1)
	}
	cache.freeze(w)
	w.roll(r)
	equal(t, "nodes told once it is fresh", told(), 1)
	w.finish("n0")
	cache.freeze(w)
	w.roll(r)
	equal(t, "nodes told after the first is done", w.nodes(), "n0 v1>v1, n1 v0>v1, n2 v0>v0 tainted, n3 v0>v0 tainted, n4 v0>v0 tainted")
}

// TestACrashInTheMiddleOfAWave: a controller that dies after any write is followed by one that keeps to the budget.
func TestACrashInTheMiddleOfAWave(t *testing.T) {
	for k := range 6 {
		w, r := fleet(t, 4)
		change(w, w.pool("worker"), func(p *mcfgv1.MachineConfigPool) { p.Spec.MaxUnavailable = new(intstr.FromInt32(2)) })
		w.life.left = k
		if _, err := r.Reconcile(t.Context(), request("worker")); k < 4 && !errors.Is(err, errCrash) {
			t.Errorf("dead after %d writes: %v, want %v", k, err, errCrash)
		}
		w.restart()
		w.roll(w.rollout(w.through))
		equal(t, fmt.Sprintf("after a death at write %d", k), w.nodes(), "n0 v0>v1, n1 v0>v1, n2 v0>v0 tainted, n3 v0>v0 tainted")
	}
}
