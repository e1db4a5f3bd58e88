package controller_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/status"
)

// TestRollingOut is what the rollout controller promises, a sentence each.
func TestRollingOut(t *testing.T) {
	for sentence, story := range map[string]func(t *testing.T, w *world, r *rolling){
		"one node at a time; those that wait are tainted until it is their turn": func(t *testing.T, w *world, r *rolling) {
			r.roll()
			equal(t, "after the first look", w.nodes(), "n0 v0>v1, n1 v0>v0 tainted, n2 v0>v0 tainted")
			r.roll()
			equal(t, "after another look", w.nodes(), "n0 v0>v1, n1 v0>v0 tainted, n2 v0>v0 tainted")
			w.finish("n0")
			r.roll()
			equal(t, "once the first is done", w.nodes(), "n0 v1>v1, n1 v0>v1, n2 v0>v0 tainted")
			w.finish("n1")
			r.roll()
			w.finish("n2")
			r.roll()
			equal(t, "in the end", w.nodes(), "n0 v1>v1, n1 v1>v1, n2 v1>v1")
		},
		"status and events follow": func(t *testing.T, w *world, r *rolling) {
			r.roll()
			r.roll()
			p := w.pool("worker")
			equal(t, "counts", fmt.Sprint(p.Status.MachineCount, p.Status.UpdatedMachineCount, p.Status.UnavailableMachineCount, p.Status.ObservedGeneration == p.Generation), "3 0 1 true")
			equal(t, "Updating", poolCondition(p, mcfgv1.MachineConfigPoolUpdating), "True|All nodes are updating to MachineConfig v1")
			for _, n := range []string{"n0", "n1", "n2"} {
				w.finish(n)
				r.roll()
			}
			p = w.pool("worker")
			equal(t, "Updated", poolCondition(p, mcfgv1.MachineConfigPoolUpdated), "True|All nodes are updated with MachineConfig v1")
			equal(t, "status.configuration", p.Status.Configuration.Name, "v1")
			want := []string{
				`Normal SetDesiredConfig: told node n0 to update to v1 (main@sha1:bbbbbbbb "say hello")`,
				`Normal Updating: pool worker is updating to v1 (main@sha1:bbbbbbbb "say hello")`,
				`Normal SetDesiredConfig: told node n1 to update to v1 (main@sha1:bbbbbbbb "say hello")`,
				`Normal SetDesiredConfig: told node n2 to update to v1 (main@sha1:bbbbbbbb "say hello")`,
				`Normal Completed: pool worker is updated to v1 (main@sha1:bbbbbbbb "say hello")`,
			}
			equal(t, "the events", strings.Join(w.told.lines, "\n"), strings.Join(want, "\n"))
		},
		"a pool that was created again with its record names what its nodes ran, and no rollout completed": func(t *testing.T, w *world, r *rolling) {
			change(w, w.pool("worker"), func(p *mcfgv1.MachineConfigPool) {
				p.Annotations[v1alpha1.RolloutAnnotation] = `{"config":"v1","began":"2026-01-02T11:50:00Z","healthy":"v0"}`
			})
			r.roll()
			equal(t, "status.configuration", w.pool("worker").Status.Configuration.Name, "v0")
			equal(t, "events of an end", w.events("Completed"), 0)
		},
		"a paused pool is told nothing": func(t *testing.T, w *world, r *rolling) {
			change(w, w.pool("worker"), func(p *mcfgv1.MachineConfigPool) { p.Spec.Paused = true })
			r.roll()
			equal(t, "the nodes", w.nodes(), "n0 v0>v0, n1 v0>v0, n2 v0>v0")
			has(t, "Updating", poolCondition(w.pool("worker"), mcfgv1.MachineConfigPoolUpdating), "False|Pool is paused")
		},
		"a target that is not there is told to nobody": func(t *testing.T, w *world, r *rolling) {
			w.remove(w.config("v1"))
			r.roll()
			equal(t, "the nodes", w.nodes(), "n0 v0>v0, n1 v0>v0, n2 v0>v0")
		},
		"a broken maxUnavailable stops the pool and is told once": func(t *testing.T, w *world, r *rolling) {
			change(w, w.pool("worker"), func(p *mcfgv1.MachineConfigPool) { p.Spec.MaxUnavailable = new(intstr.FromString("many")) })
			for range 3 {
				r.roll()
			}
			equal(t, "the nodes", w.nodes(), "n0 v0>v0, n1 v0>v0, n2 v0>v0")
			warnings := 0
			for _, line := range w.told.lines {
				if strings.HasPrefix(line, "Warning RolloutInvalid: ") {
					has(t, "the event", line, `"many"`, `"worker"`)
					warnings++
				}
			}
			equal(t, "warnings", warnings, 1)
		},
		"a node of another pool is left alone": func(t *testing.T, w *world, r *rolling) {
			change(w, w.node("n0"), func(n *corev1.Node) { n.Labels = map[string]string{"node-role.kubernetes.io/master": ""} })
			r.roll()
			has(t, "the nodes", w.nodes(), "n0 v0>v0, n1 v0>v1, n2 v0>v0 tainted")
		},
		"other people's taints stay": func(t *testing.T, w *world, r *rolling) {
			theirs := corev1.Taint{Key: "dedicated", Value: "gpu", Effect: corev1.TaintEffectNoSchedule}
			for _, n := range []string{"n0", "n1"} {
				change(w, w.node(n), func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{theirs} })
			}
			r.roll()
			w.finish("n0")
			r.roll()
			equal(t, "taints of n1", fmt.Sprint(w.node("n1").Spec.Taints), fmt.Sprint([]corev1.Taint{theirs}))
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w, r := fleet(t, 3)
			story(t, w, r)
		})
	}
}

// TestAStaleCacheDoesNotBreakTheBudget: what was written counts, even where the cache does not show it yet.
func TestAStaleCacheDoesNotBreakTheBudget(t *testing.T) {
	w, r := fleet(t, 5)
	told := func() int { return strings.Count(w.nodes(), "v0>v1") }
	r.roll()
	equal(t, "nodes told", told(), 1)
	r.late = true
	for range 5 {
		if again := r.roll(); again.RequeueAfter == 0 {
			t.Error("a look at a stale cache does not come again by itself")
		}
		equal(t, "nodes told while the cache is stale", told(), 1)
	}
	r.late = false
	r.roll()
	equal(t, "nodes told once it is fresh", told(), 1)
	w.finish("n0")
	r.roll()
	equal(t, "nodes told after the first is done", w.nodes(), "n0 v1>v1, n1 v0>v1, n2 v0>v0 tainted, n3 v0>v0 tainted, n4 v0>v0 tainted")
}

// TestACrashInTheMiddleOfAWave: a controller that dies after any write is followed by one that keeps to the budget.
func TestACrashInTheMiddleOfAWave(t *testing.T) {
	for k := range 6 {
		w, r := fleet(t, 4)
		change(w, w.pool("worker"), func(p *mcfgv1.MachineConfigPool) { p.Spec.MaxUnavailable = new(intstr.FromInt32(2)) })
		w.life.left = k
		if _, err := r.look("worker"); k < 4 && !errors.Is(err, errCrash) {
			t.Errorf("dead after %d writes: %v, want %v", k, err, errCrash)
		}
		w.restart()
		w.rollout().roll()
		equal(t, fmt.Sprintf("after a death at write %d", k), w.nodes(), "n0 v0>v1, n1 v0>v1, n2 v0>v0 tainted, n3 v0>v0 tainted")
	}
}

// TestASilentDaemonIsSeen: no event tells that a heartbeat is missing, so the pool looks again each minute.
func TestASilentDaemonIsSeen(t *testing.T) {
	w := newWorld(t)
	w.create(byHand("rendered-worker-1", "none", "{}"))
	change(w, w.pool("worker"), func(p *mcfgv1.MachineConfigPool) { p.Spec.Configuration.Name = "rendered-worker-1" })
	w.create(node("n1", "rendered-worker-1", "rendered-worker-1"))
	heard := &mcfgv1.MachineConfigNode{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{
		v1alpha1.DaemonAnnotation: v1alpha1.DaemonReport{Seen: metav1.NewTime(w.now)}.String(),
	}}}
	w.create(heard)
	r := w.rollout()
	look := func() reconcile.Result {
		t.Helper()
		r.feed()
		again, err := r.Reconcile(t.Context(), request("worker"))
		if err != nil {
			t.Fatal(err)
		}
		return again
	}
	look()
	if again := look(); again.RequeueAfter != time.Minute {
		t.Errorf("it looks again after %s", again.RequeueAfter)
	}
	has(t, "Updated", poolCondition(w.pool("worker"), mcfgv1.MachineConfigPoolUpdated), "True|")
	w.now = w.now.Add(12 * time.Minute)
	look()
	has(t, "Updated", poolCondition(w.pool("worker"), mcfgv1.MachineConfigPoolUpdated), "False|")
	has(t, "RolloutBlocked", poolCondition(w.pool("worker"), status.RolloutBlocked), "True|", "no heartbeat of the machine-config-daemon of n1")
}
