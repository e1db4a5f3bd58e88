package rollout_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/reconcile/gate"
)

// TestWhatHappensWhileALookGathersCounts: nobody is told by a pool or a policy of before.
func TestWhatHappensWhileALookGathersCounts(t *testing.T) {
	for sentence, c := range map[string]struct {
		happens func(w *rolloutWorld)
		want    string
	}{
		"a pause is obeyed": {func(w *rolloutWorld) {
			controllertest.Modify(w.Cluster, w.Pool("worker"), func(p *mcfgv1.MachineConfigPool) {
				p.Spec.Paused = true
			})
		}, "n0 v1>v1, n1 v0>v0 tainted, n2 v0>v0 tainted"},
		"a new target supersedes": {func(w *rolloutWorld) { w.aim("worker", "v2") }, "n0 v1>v2, n1 v0>v0 tainted, n2 v0>v0 tainted"},
		"a new policy is obeyed": {func(w *rolloutWorld) {
			w.Create(rolloutPolicy("never", func(s *v1alpha1.RolloutPolicySpec) {
				s.MaxUnavailable = new(intstr.FromInt32(2))
			}))
		}, "n0 v1>v1, n1 v0>v1, n2 v0>v1"},
	} {
		t.Run(sentence, func(t *testing.T) {
			w, r := rolloutsFleet(t, 3)
			r.roll()
			w.finish("n0")
			r.feed()
			happened := false
			// what is read between the pool and the decision
			r.Client = interceptor.NewClient(w.Client,
				interceptor.Funcs{Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey,
					o client.Object, opts ...client.GetOption,
				) error {
					if _, config := o.(*mcfgv1.MachineConfig); config && !happened {
						happened = true
						c.happens(w)
						r.feed()
					}
					return inner.Get(ctx, key, o, opts...)
				}})
			res, err := r.look("worker")
			if err != nil || res.RequeueAfter <= 0 || res.RequeueAfter > time.Second {
				t.Errorf("the look ends with %v, %v; it has to come again at once", res, err)
			}
			controllertest.Equal(t, "the nodes then", w.nodes(), "n0 v1>v1, n1 v0>v0 tainted, n2 v0>v0 tainted")
			r.roll()
			r.roll()
			controllertest.Equal(t, "the nodes in the end", w.nodes(), c.want)
		})
	}
}

// TestEventsOfARolloutAreNotLost: where the status is refused, or the controller dies before it, people are told all
// the same.
func TestEventsOfARolloutAreNotLost(t *testing.T) {
	type ending func(w *rolloutWorld)
	conflict := func(w *rolloutWorld) {
		left := 1
		w.Writes.Fault = func(what string) (bool, error) {
			if strings.HasPrefix(what, "update status") && left > 0 {
				left--
				return false, apierrors.NewConflict(schema.GroupResource{Resource: "machineconfigpools"}, "worker", nil)
			}
			return false, nil
		}
	}
	// the record is stored, and the controller does not get to know
	unsaid := func(w *rolloutWorld) {
		w.Writes.Fault = func(what string) (bool, error) {
			w.Writes.Left = 0
			return true, controllertest.ErrCrash
		}
	}
	dies := func(writes int) ending { return func(w *rolloutWorld) { w.Writes.Left = writes } }
	halts := rolloutPolicy("careful", func(*v1alpha1.RolloutPolicySpec) {})
	for sentence, c := range map[string]struct {
		before func(w *rolloutWorld, r *rolloutsRolling)
		ends   ending
		events string
	}{
		"a halt, the status being refused": {func(w *rolloutWorld, _ *rolloutsRolling) { w.fail("n0", "no space") }, conflict, "RolloutHalted"},
		"a halt, dead before the status":   {func(w *rolloutWorld, _ *rolloutsRolling) { w.fail("n0", "no space") }, dies(1), "RolloutHalted"},
		"a halt, dead after its record":    {func(w *rolloutWorld, _ *rolloutsRolling) { w.fail("n0", "no space") }, unsaid, "RolloutHalted"},
		"a failure that is reverted at once, the status being refused": {func(w *rolloutWorld, r *rolloutsRolling) {
			controllertest.Modify(w.Cluster, halts.DeepCopy(), func(p *v1alpha1.RolloutPolicy) {
				p.Spec.Failures.Action = v1alpha1.FailureRevert
			})
			w.aim("worker", "v0")
			r.roll()
			w.aim("worker", "v1")
			r.roll()
			w.later(time.Minute)
			w.fail("n0", "no space")
		}, conflict, "NodeDegraded"},
		"an order, the status being refused": {func(w *rolloutWorld, _ *rolloutsRolling) {
			w.Events.Lines = nil
			w.finish("n0")
		}, conflict, "SetDesiredConfig"},
		"the end, dead before the status": {func(w *rolloutWorld, r *rolloutsRolling) {
			for _, n := range []string{"n0", "n1"} {
				w.finish(n)
				r.roll()
			}
			w.finish("n2")
		}, dies(1), "Completed"},
	} {
		t.Run(sentence, func(t *testing.T) {
			w, r := rolloutsFleet(t, 3, halts)
			r.roll()
			r.roll()
			c.before(w, r)
			c.ends(w)
			if _, err := r.look("worker"); err == nil {
				t.Fatal("nothing went wrong")
			}
			w.Writes.Left, w.Writes.Fault = -1, nil
			again := w.rollout()
			if c.events == "NodeDegraded" {
				w.finish("n0") // It is back in v0, and reports no failure any more.
			}
			for range 4 {
				again.roll()
			}
			if n := w.countEvents(c.events); n < 1 || n > 2 {
				t.Errorf("%d events %s, want it told once, or twice for want of knowing:\n%s", n, c.events,
					strings.Join(w.Events.Lines, "\n"))
			}
		})
	}
}

// gatedPolicy asks for the DaemonSet kube-system/cni on each node.
func gatedPolicy() *v1alpha1.RolloutPolicy {
	return rolloutPolicy("careful", func(s *v1alpha1.RolloutPolicySpec) {
		s.Gates = []v1alpha1.HealthGate{{
			Name:       "network",
			DaemonSets: []v1alpha1.ObjectName{{Namespace: "kube-system", Name: "cni"}},
		}}
	})
}

// TestDaemonSetGatesOfALargePool: slow answers do not keep a pool from deciding, and asking costs little.
func TestDaemonSetGatesOfALargePool(t *testing.T) {
	const size = 100
	objects := []client.Object{gatedPolicy(), controllertest.DaemonSet(size-1, size, nil)}
	for i := range size {
		objects = append(objects, controllertest.GatePod(fmt.Sprintf("cni-%d", i), fmt.Sprintf("n%d", i),
			controllertest.Ready))
	}
	w, r := rolloutsFleet(t, size, objects...)
	lists := 0
	live := interceptor.NewClient(w.Admin, interceptor.Funcs{List: func(ctx context.Context, inner client.WithWatch,
		l client.ObjectList, o ...client.ListOption,
	) error {
		if _, is := l.(*corev1.PodList); is {
			lists++
			w.later(7 * time.Second)
		}
		return inner.List(ctx, l, o...)
	}})
	r.Gates = &gate.Evaluator{Live: live, Client: w.Client, Now: r.Now, Events: w.Events}
	const looks = 20
	for range looks {
		for _, name := range w.busy() {
			w.finish(name)
		}
		w.later(r.roll().RequeueAfter)
	}
	if done := strings.Count(w.nodes(), "v1>v1"); done < looks-2 {
		t.Errorf("%d nodes are done after %d looks: %s", done, looks, w.blocked("worker"))
	}
	if lists > looks {
		t.Errorf("%d lists of pods in %d looks", lists, looks)
	}
}

// TestANodeThatNobodyAskedAboutIsHeld: not for a moment does a node that has just changed count as well.
func TestANodeThatNobodyAskedAboutIsHeld(t *testing.T) {
	w, r := rolloutsFleet(t, 3, gatedPolicy(), controllertest.DaemonSet(2, 3, nil),
		controllertest.GatePod("cni-0", "n0",
			controllertest.Ready))
	r.Gates = &gate.Evaluator{
		Live: interceptor.NewClient(w.Admin, interceptor.Funcs{}), Client: w.Client, Now: r.Now,
		Events: w.Events,
	}
	r.roll()
	happened := false
	r.Gates.Live = interceptor.NewClient(w.Admin,
		interceptor.Funcs{List: func(ctx context.Context, inner client.WithWatch, l client.ObjectList,
			o ...client.ListOption,
		) error {
			if _, is := l.(*corev1.PodList); is && !happened {
				happened = true
				report(w.Cluster, w.Node("n0"), func(n *corev1.Node) {
					n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(w.Now)
				})
				r.feed()
			}
			return inner.List(ctx, l, o...)
		}})
	w.finish("n0")
	res, err := r.look("worker")
	if err != nil || res.RequeueAfter <= 0 || res.RequeueAfter > time.Second {
		t.Errorf("the look ends with %v, %v; it has to come again soon", res, err)
	}
	controllertest.Equal(t, "the nodes, while the answer is of before", w.nodes(),
		"n0 v1>v1, n1 v0>v0 tainted, n2 v0>v0 tainted")
	controllertest.Contains(t, "RolloutBlocked", w.blocked("worker"), "n0", "not evaluated yet")
	w.later(time.Minute)
	r.roll()
	r.roll()
	controllertest.Equal(t, "the nodes then", w.nodes(), "n0 v1>v1, n1 v0>v1, n2 v0>v0 tainted")
}

// TestAGateThatOpensWakesThePoolsThatShareABudget: no event of the API server's says that there is room now.
func TestAGateThatOpensWakesThePoolsThatShareABudget(t *testing.T) {
	for sentence, shared := range map[string]v1alpha1.HealthGate{
		"a DaemonSet's pod gets ready":      {Name: "network", DaemonSets: []v1alpha1.ObjectName{{Namespace: "kube-system", Name: "cni"}}},
		"a node has been Ready for a while": {Name: "settled", Ready: &v1alpha1.ReadyGate{For: metav1.Duration{Duration: 50 * time.Second}}},
	} {
		t.Run(sentence, func(t *testing.T) {
			pod := controllertest.GatePod("cni-0", "n0", controllertest.Crashing)
			w, r := rolloutsFleet(t, 1, controllertest.DaemonSet(0, 2, nil), pod,
				rolloutPolicy("together", func(s *v1alpha1.RolloutPolicySpec) {
					s.Pools, s.MaxUnavailableTogether = []string{"worker", "infra"}, new(intstr.FromInt32(1))
					s.Gates = []v1alpha1.HealthGate{shared}
				}))
			w.infra(1)
			w.aim("infra", "v1")
			r.Gates = &gate.Evaluator{Live: w.Admin, Client: w.Client, Now: r.Now, Events: w.Events}
			var woken []string
			r.Wake = func(pool string) { woken = append(woken, pool) }
			r.roll("worker", "infra")
			w.finish("n0")
			report(w.Cluster, w.Node("n0"), func(n *corev1.Node) {
				n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(w.Now)
			})
			r.roll("worker", "infra")
			controllertest.Equal(t, "the nodes while the gate of n0 is shut", w.nodes(), "i0 v0>v0 tainted, n0 v1>v1")
			woken = nil
			report(w.Cluster, pod, controllertest.Ready)
			w.later(time.Minute)
			r.roll("worker")
			controllertest.Equal(t, "the pools woken once it opens", fmt.Sprint(woken), "[infra]")
			r.roll("infra")
			controllertest.Equal(t, "the nodes then", w.nodes(), "i0 v0>v1, n0 v1>v1")
		})
	}
}

// TestManyDoubtfulWrites: the API server is asked about a few at a time, those that wait longest first.
func TestManyDoubtfulWrites(t *testing.T) {
	const size = 40
	w, r := rolloutsFleet(t, size)
	r.roll()
	r.late = true
	w.later(time.Minute)
	asked := 0
	r.Live = interceptor.NewClient(w.Admin, interceptor.Funcs{Get: func(ctx context.Context, inner client.WithWatch,
		key client.ObjectKey, o client.Object, opts ...client.GetOption,
	) error {
		asked++
		return inner.Get(ctx, key, o, opts...)
	}})
	for range 3 {
		before := asked
		if _, err := r.look("worker"); err != nil {
			t.Fatal(err)
		}
		if n := asked - before; n == 0 || n > 16 {
			t.Errorf("%d requests in one look, want some and at most 16", n)
		}
	}
	r.late = false
	w.finish("n0")
	r.roll()
	controllertest.Contains(t, "the nodes in the end", w.nodes(), "n0 v1>v1", "v0>v1")
}
