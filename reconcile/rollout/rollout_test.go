package rollout_test

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
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
)

// TestRollingOut is what the rollout controller promises, a sentence each.
func TestRollingOut(t *testing.T) {
	for sentence, story := range map[string]func(t *testing.T, w *rolloutWorld, r *rolloutsRolling){
		"one node at a time; those that wait are tainted until it is their turn": func(t *testing.T, w *rolloutWorld,
			r *rolloutsRolling,
		) {
			r.roll()
			controllertest.Equal(t, "after the first look", w.nodes(), "n0 v0>v1, n1 v0>v0 tainted, n2 v0>v0 tainted")
			r.roll()
			controllertest.Equal(t, "after another look", w.nodes(), "n0 v0>v1, n1 v0>v0 tainted, n2 v0>v0 tainted")
			w.finish("n0")
			r.roll()
			controllertest.Equal(t, "once the first is done", w.nodes(), "n0 v1>v1, n1 v0>v1, n2 v0>v0 tainted")
			w.finish("n1")
			r.roll()
			w.finish("n2")
			r.roll()
			controllertest.Equal(t, "in the end", w.nodes(), "n0 v1>v1, n1 v1>v1, n2 v1>v1")
		},
		"status and events follow": func(t *testing.T, w *rolloutWorld, r *rolloutsRolling) {
			r.roll()
			r.roll()
			p := w.Pool("worker")
			controllertest.Equal(t, "counts", fmt.Sprint(p.Status.MachineCount, p.Status.UpdatedMachineCount,
				p.Status.UnavailableMachineCount, p.Status.ObservedGeneration == p.Generation), "3 0 1 true")
			controllertest.Equal(t, "Updating", controllertest.PoolCondition(p, mcfgv1.MachineConfigPoolUpdating),
				"True|All nodes are updating to MachineConfig v1")
			for _, n := range []string{"n0", "n1", "n2"} {
				w.finish(n)
				r.roll()
			}
			p = w.Pool("worker")
			controllertest.Equal(t, "Updated", controllertest.PoolCondition(p, mcfgv1.MachineConfigPoolUpdated),
				"True|All nodes are updated with MachineConfig v1")
			controllertest.Equal(t, "status.configuration", p.Status.Configuration.Name, "v1")
			want := []string{
				`Normal SetDesiredConfig: updating node n0 to v1 (main@sha1:bbbbbbbb "say hello")`,
				`Normal Updating: pool worker is updating to v1 (main@sha1:bbbbbbbb "say hello")`,
				`Normal SetDesiredConfig: updating node n1 to v1 (main@sha1:bbbbbbbb "say hello")`,
				`Normal SetDesiredConfig: updating node n2 to v1 (main@sha1:bbbbbbbb "say hello")`,
				`Normal Completed: pool worker is updated to v1 (main@sha1:bbbbbbbb "say hello")`,
			}
			controllertest.Equal(t, "the events", strings.Join(w.Events.Lines, "\n"), strings.Join(want, "\n"))
		},
		"a pool that was created again with its record names what its nodes ran, and no rollout completed": func(
			t *testing.T, w *rolloutWorld, r *rolloutsRolling,
		) {
			controllertest.Modify(w.Cluster, w.Pool("worker"), func(p *mcfgv1.MachineConfigPool) {
				p.Annotations[v1alpha1.RolloutAnnotation] = `{"config":"v1","began":"2026-01-02T11:50:00Z","healthy":"v0"}`
			})
			r.roll()
			controllertest.Equal(t, "status.configuration", w.Pool("worker").Status.Configuration.Name, "v0")
			controllertest.Equal(t, "events of an end", w.countEvents("Completed"), 0)
		},
		"a pool that was created again while its nodes run the target has no rollout that completed": func(
			t *testing.T, w *rolloutWorld, r *rolloutsRolling,
		) {
			for _, n := range []string{"n0", "n1", "n2"} {
				controllertest.Modify(w.Cluster, w.Node(n), func(node *corev1.Node) {
					node.Annotations[v1alpha1.DesiredConfigAnnotation] = "v1"
				})
				w.finish(n)
			}
			r.roll()
			controllertest.Equal(t, "status.configuration", w.Pool("worker").Status.Configuration.Name, "v1")
			controllertest.Equal(t, "events of an end", w.countEvents("Completed"), 0)
		},
		"a pool that is paused until a time continues then": func(t *testing.T, w *rolloutWorld, r *rolloutsRolling) {
			controllertest.Modify(w.Cluster, w.Pool("worker"), func(p *mcfgv1.MachineConfigPool) {
				p.Spec.Paused = true
				metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.PausedByAnnotation, "ada: freeze")
				metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.PausedUntilAnnotation,
					w.Now.Add(time.Hour).Format(time.RFC3339))
			})
			r.roll()
			controllertest.Equal(t, "while it is paused", w.nodes(), "n0 v0>v0, n1 v0>v0, n2 v0>v0")
			w.Now = w.Now.Add(time.Hour)
			r.roll()
			r.roll()
			p := w.Pool("worker")
			controllertest.Equal(t, "afterwards", w.nodes(), "n0 v0>v1, n1 v0>v0 tainted, n2 v0>v0 tainted")
			controllertest.Equal(t, "the pause", fmt.Sprint(p.Spec.Paused, p.Annotations[v1alpha1.PausedByAnnotation],
				p.Annotations[v1alpha1.PausedUntilAnnotation]), "false")
			controllertest.Equal(t, "events", w.countEvents("Resumed"), 1)
		},
		"the end of a pause that a user ended early does not end the next pause": func(t *testing.T, w *rolloutWorld,
			r *rolloutsRolling,
		) {
			controllertest.Modify(w.Cluster, w.Pool("worker"), func(p *mcfgv1.MachineConfigPool) {
				metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.PausedUntilAnnotation,
					w.Now.Add(time.Hour).Format(time.RFC3339))
			})
			r.roll()
			controllertest.Modify(w.Cluster, w.Pool("worker"), func(p *mcfgv1.MachineConfigPool) {
				p.Spec.Paused = true
			})
			w.Now = w.Now.Add(2 * time.Hour)
			r.roll()
			controllertest.Equal(t, "paused", w.Pool("worker").Spec.Paused, true)
			controllertest.Equal(t, "events", w.countEvents("Resumed"), 0)
		},
		"a pool that is held until a time is released then": func(t *testing.T, w *rolloutWorld, r *rolloutsRolling) {
			controllertest.Modify(w.Cluster, w.Pool("worker"), func(p *mcfgv1.MachineConfigPool) {
				metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.HoldAnnotation, "v1")
				metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.HeldByAnnotation, "ada: wait")
				metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.HeldUntilAnnotation,
					w.Now.Add(time.Hour).Format(time.RFC3339))
			})
			r.roll()
			controllertest.Equal(t, "the rollout of the held config", w.nodes(),
				"n0 v0>v1, n1 v0>v0 tainted, n2 v0>v0 tainted")
			controllertest.Contains(t, "RolloutBlocked", controllertest.PoolCondition(w.Pool("worker"),
				"RolloutBlocked"), "True|pool worker is held at v1 by ada: wait, until ")
			w.Now = w.Now.Add(time.Hour)
			r.roll()
			r.roll()
			controllertest.Equal(t, "the hold", w.Pool("worker").Annotations[v1alpha1.HoldAnnotation]+
				w.Pool("worker").Annotations[v1alpha1.HeldUntilAnnotation], "")
			controllertest.Equal(t, "events", w.countEvents("Released"), 1)
			controllertest.Contains(t, "RolloutBlocked", controllertest.PoolCondition(w.Pool("worker"),
				"RolloutBlocked"), "False|")
		},
		"the end of a hold that a user ended early does not end the next hold": func(t *testing.T, w *rolloutWorld,
			r *rolloutsRolling,
		) {
			controllertest.Modify(w.Cluster, w.Pool("worker"), func(p *mcfgv1.MachineConfigPool) {
				metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.HeldUntilAnnotation,
					w.Now.Add(time.Hour).Format(time.RFC3339))
			})
			r.roll()
			controllertest.Modify(w.Cluster, w.Pool("worker"), func(p *mcfgv1.MachineConfigPool) {
				metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.HoldAnnotation, "v1")
			})
			w.Now = w.Now.Add(2 * time.Hour)
			r.roll()
			controllertest.Equal(t, "the hold", w.Pool("worker").Annotations[v1alpha1.HoldAnnotation], "v1")
			controllertest.Equal(t, "events", w.countEvents("Released"), 0)
		},
		"a paused pool is told nothing": func(t *testing.T, w *rolloutWorld, r *rolloutsRolling) {
			controllertest.Modify(w.Cluster, w.Pool("worker"), func(p *mcfgv1.MachineConfigPool) {
				p.Spec.Paused = true
			})
			r.roll()
			controllertest.Equal(t, "the nodes", w.nodes(), "n0 v0>v0, n1 v0>v0, n2 v0>v0")
			controllertest.Contains(t, "Updating", controllertest.PoolCondition(w.Pool("worker"),
				mcfgv1.MachineConfigPoolUpdating), "False|Pool is paused")
		},
		"a target that is not there is told to nobody": func(t *testing.T, w *rolloutWorld, r *rolloutsRolling) {
			w.Remove(w.Config("v1"))
			r.roll()
			controllertest.Equal(t, "the nodes", w.nodes(), "n0 v0>v0, n1 v0>v0, n2 v0>v0")
		},
		"a broken maxUnavailable stops the pool and is told once": func(t *testing.T, w *rolloutWorld,
			r *rolloutsRolling,
		) {
			controllertest.Modify(w.Cluster, w.Pool("worker"), func(p *mcfgv1.MachineConfigPool) {
				p.Spec.MaxUnavailable = new(intstr.FromString("many"))
			})
			for range 3 {
				r.roll()
			}
			controllertest.Equal(t, "the nodes", w.nodes(), "n0 v0>v0, n1 v0>v0, n2 v0>v0")
			warnings := 0
			for _, line := range w.Events.Lines {
				if strings.HasPrefix(line, "Warning RolloutInvalid: ") {
					controllertest.Contains(t, "the event", line, `"many"`, `"worker"`)
					warnings++
				}
			}
			controllertest.Equal(t, "warnings", warnings, 1)
		},
		"a node of another pool is left alone": func(t *testing.T, w *rolloutWorld, r *rolloutsRolling) {
			controllertest.Modify(w.Cluster, w.Node("n0"), func(n *corev1.Node) {
				n.Labels = map[string]string{"node-role.kubernetes.io/master": ""}
			})
			r.roll()
			controllertest.Contains(t, "the nodes", w.nodes(), "n0 v0>v0, n1 v0>v1, n2 v0>v0 tainted")
		},
		"other people's taints stay": func(t *testing.T, w *rolloutWorld, r *rolloutsRolling) {
			theirs := corev1.Taint{Key: "dedicated", Value: "gpu", Effect: corev1.TaintEffectNoSchedule}
			for _, n := range []string{"n0", "n1"} {
				controllertest.Modify(w.Cluster, w.Node(n), func(n *corev1.Node) {
					n.Spec.Taints = []corev1.Taint{theirs}
				})
			}
			r.roll()
			w.finish("n0")
			r.roll()
			controllertest.Equal(t, "taints of n1", fmt.Sprint(w.Node("n1").Spec.Taints),
				fmt.Sprint([]corev1.Taint{theirs}))
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w, r := rolloutsFleet(t, 3)
			story(t, w, r)
		})
	}
}

// TestAStaleCacheDoesNotBreakTheBudget: what was written counts, even where the cache does not show it yet.
func TestAStaleCacheDoesNotBreakTheBudget(t *testing.T) {
	w, r := rolloutsFleet(t, 5)
	told := func() int { return strings.Count(w.nodes(), "v0>v1") }
	r.roll()
	controllertest.Equal(t, "nodes told", told(), 1)
	r.late = true
	for range 5 {
		if again := r.roll(); again.RequeueAfter == 0 {
			t.Error("a look at a stale cache does not come again by itself")
		}
		controllertest.Equal(t, "nodes told while the cache is stale", told(), 1)
	}
	r.late = false
	r.roll()
	controllertest.Equal(t, "nodes told once it is fresh", told(), 1)
	w.finish("n0")
	r.roll()
	controllertest.Equal(t, "nodes told after the first is done", w.nodes(), "n0 v1>v1, n1 v0>v1, n2 v0>v0 tainted, "+
		"n3 v0>v0 tainted, n4 v0>v0 tainted")
}

// TestACrashInTheMiddleOfAWave: a controller that dies after any write is followed by one that keeps to the budget.
func TestACrashInTheMiddleOfAWave(t *testing.T) {
	for k := range 6 {
		w, r := rolloutsFleet(t, 4)
		controllertest.Modify(w.Cluster, w.Pool("worker"), func(p *mcfgv1.MachineConfigPool) {
			p.Spec.MaxUnavailable = new(intstr.FromInt32(2))
		})
		w.Writes.Left = k
		if _, err := r.look("worker"); k < 4 && !errors.Is(err, controllertest.ErrCrash) {
			t.Errorf("dead after %d writes: %v, want %v", k, err, controllertest.ErrCrash)
		}
		w.Writes.Left = -1
		w.rollout().roll()
		controllertest.Equal(t, fmt.Sprintf("after a death at write %d", k), w.nodes(),
			"n0 v0>v1, n1 v0>v1, n2 v0>v0 tainted, n3 v0>v0 tainted")
	}
}

// TestASilentDaemonIsSeen: no event tells that a heartbeat is missing, so the pool looks again each minute.
func TestASilentDaemonIsSeen(t *testing.T) {
	w := newRolloutWorld(t)
	w.Create(controllertest.ManualConfig("rendered-worker-1", "none", "{}"))
	controllertest.Modify(w.Cluster, w.Pool("worker"), func(p *mcfgv1.MachineConfigPool) {
		p.Spec.Configuration.Name = "rendered-worker-1"
	})
	w.Create(controllertest.Node("n1", "rendered-worker-1", "rendered-worker-1"))
	heard := &mcfgv1.MachineConfigNode{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{
		v1alpha1.DaemonAnnotation: v1alpha1.DaemonReport{Seen: metav1.NewTime(w.Now)}.String(),
	}}}
	w.Create(heard)
	r := w.rollout()
	look := func() reconcile.Result {
		t.Helper()
		r.feed()
		again, err := r.Reconcile(t.Context(), controllertest.Request("worker"))
		if err != nil {
			t.Fatal(err)
		}
		return again
	}
	look()
	if again := look(); again.RequeueAfter != time.Minute {
		t.Errorf("it looks again after %s", again.RequeueAfter)
	}
	controllertest.Contains(t, "Updated", controllertest.PoolCondition(w.Pool("worker"),
		mcfgv1.MachineConfigPoolUpdated), "True|")
	w.Now = w.Now.Add(12 * time.Minute)
	look()
	controllertest.Contains(t, "Updated", controllertest.PoolCondition(w.Pool("worker"),
		mcfgv1.MachineConfigPoolUpdated), "False|")
	controllertest.Contains(t, "RolloutBlocked", controllertest.PoolCondition(w.Pool("worker"),
		v1alpha1.RolloutBlockedCondition), "True|", "no heartbeat of the machine-config-daemon of n1")
}
