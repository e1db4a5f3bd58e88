package rollout_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
)

// rolloutState is everything of a rollout that may not depend on whether the controller died.
func (w *rolloutWorld) rolloutState() string {
	var b strings.Builder
	fmt.Fprintln(&b, w.nodes())
	for _, name := range []string{"worker", "infra"} {
		p := &mcfgv1.MachineConfigPool{}
		if err := w.Admin.Get(w.T.Context(), client.ObjectKey{Name: name}, p); err != nil {
			continue
		}
		fmt.Fprintf(&b, "%s %s %s %s\n", name, p.Annotations[v1alpha1.RolloutAnnotation],
			p.Annotations[v1alpha1.RolloutHistoryAnnotation], p.Status.Configuration.Name)
		for _, c := range p.Status.Conditions {
			fmt.Fprintf(&b, "  %s %s %s %s\n", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return b.String()
}

// mortalRolling lets the controller look until nothing moves any more. Where it dies, another one follows.
type mortalRolling struct {
	w    *rolloutWorld
	r    *rolloutsRolling
	died int
	// most is how many nodes may be at work at a time.
	most int
}

func (m *mortalRolling) settle(pools ...string) {
	m.w.T.Helper()
	before := ""
	for range 30 {
		for _, p := range pools {
			if _, err := m.r.look(p); errors.Is(err, controllertest.ErrCrash) {
				m.died++
				m.w.Writes.Left = -1
				m.r = m.w.rollout()
			} else if err != nil {
				m.w.T.Fatalf("rolling out pool %s: %v", p, err)
			}
			if busy := m.w.busy(); len(busy) > m.most {
				m.w.T.Fatalf("%d nodes at work, at most %d may be:\n%s", len(busy), m.most, m.w.nodes())
			}
		}
		after := m.w.rolloutState()
		if after == before {
			return
		}
		before = after
	}
	m.w.T.Fatalf("still moving:\n%s", before)
}

// busy are the nodes that want another config than they run, and did not fail it.
func (w *rolloutWorld) busy() []string {
	w.T.Helper()
	var list corev1.NodeList
	if err := w.Admin.List(w.T.Context(), &list); err != nil {
		w.T.Fatal(err)
	}
	var out []string
	for _, n := range list.Items {
		a := n.Annotations
		if a[v1alpha1.CurrentConfigAnnotation] != a[v1alpha1.DesiredConfigAnnotation] &&
			a[v1alpha1.StateAnnotation] != v1alpha1.StateDegraded {
			out = append(out, n.Name)
		}
	}
	return out
}

// finishAll lets all nodes at work end their update, but for one, which fails it.
func (w *rolloutWorld) finishAll(but string) {
	for _, name := range w.busy() {
		if name == but {
			w.fail(name, "no space")
		} else {
			w.finish(name)
		}
	}
}

// TestACrashBetweenAnyTwoWritesOfARollout kills the controller after each single write of whole rollouts: they end
// where they end without a crash, and never more nodes are at work than may be.
func TestACrashBetweenAnyTwoWritesOfARollout(t *testing.T) {
	two := func(s *v1alpha1.RolloutPolicySpec) { s.MaxUnavailable = new(intstr.FromInt32(2)) }
	type history struct {
		policies []client.Object
		pools    []string
		most     int
		story    func(w *rolloutWorld, settle func(pools ...string))
	}
	for sentence, h := range map[string]history{
		"a plain rollout": {nil, []string{"worker"}, 1, func(w *rolloutWorld, settle func(...string)) {
			for range 4 {
				w.finishAll("")
				settle("worker")
			}
		}},
		"one that is superseded": {
			[]client.Object{rolloutPolicy("p", two)},
			[]string{"worker"},
			2,
			func(w *rolloutWorld, settle func(...string)) {
				w.finishAll("")
				settle("worker")
				w.aim("worker", "v2")
				settle("worker")
				for range 4 {
					w.finishAll("")
					settle("worker")
				}
			},
		},
		"one that is halted, and tried again": {
			[]client.Object{rolloutPolicy("p", two)},
			[]string{"worker"},
			2,
			func(w *rolloutWorld, settle func(...string)) {
				w.later(time.Minute)
				w.finishAll("n1")
				settle("worker")
				w.later(time.Minute)
				w.retry("worker")
				settle("worker")
				controllertest.Modify(w.Cluster, w.Node("n1"), func(n *corev1.Node) {
					n.Annotations[v1alpha1.StateAnnotation] = v1alpha1.StateWorking
				})
				for range 4 {
					w.finishAll("")
					settle("worker")
				}
			},
		},
		"one that is reverted": {[]client.Object{rolloutPolicy("p", func(s *v1alpha1.RolloutPolicySpec) {
			two(s)
			s.Failures.Action = v1alpha1.FailureRevert
		})}, []string{"worker"}, 2, func(w *rolloutWorld, settle func(...string)) {
			w.later(time.Minute)
			w.finishAll("n1")
			settle("worker")
			for range 3 {
				w.finishAll("")
				settle("worker")
			}
		}},
		"one with a canary, a batch and soaks": {
			[]client.Object{rolloutPolicy("p", func(s *v1alpha1.RolloutPolicySpec) {
				two(s)
				s.Canary = &v1alpha1.RolloutCanary{
					Nodes: new(intstr.FromInt32(1)),
					Soak:  metav1.Duration{Duration: time.Minute},
				}
				s.Batches = []v1alpha1.RolloutBatch{{
					UpTo: intstr.FromInt32(2),
					Soak: metav1.Duration{Duration: time.Minute},
				}}
			})}, []string{"worker"}, 2, func(w *rolloutWorld, settle func(...string)) {
				for range 8 {
					w.finishAll("")
					settle("worker")
					w.later(90 * time.Second)
					settle("worker")
				}
			},
		},
		"two pools with one budget": {[]client.Object{rolloutPolicy("p", func(s *v1alpha1.RolloutPolicySpec) {
			s.Pools, s.MaxUnavailableTogether = []string{"worker", "infra"}, new(intstr.FromInt32(1))
		})}, []string{"worker", "infra"}, 1, func(w *rolloutWorld, settle func(...string)) {
			for range 6 {
				w.finishAll("")
				settle("infra", "worker")
			}
		}},
	} {
		t.Run(sentence, func(t *testing.T) {
			play := func(writes int) (*rolloutWorld, *mortalRolling) {
				w, r := rolloutsFleet(t, 3, h.policies...)
				w.aim("worker", "v0")
				if len(h.pools) > 1 {
					w.infra(1)
					w.aim("infra", "v0")
				}
				m := &mortalRolling{w: w, r: r, most: h.most}
				m.settle(h.pools...)
				for _, p := range h.pools {
					w.aim(p, "v1")
				}
				w.Writes.Left, w.Writes.Done = writes, nil
				m.settle(h.pools...)
				h.story(w, m.settle)
				return w, m
			}
			calm, _ := play(-1)
			want := calm.rolloutState()
			for k := 0; ; k++ {
				w, m := play(k)
				if m.died == 0 {
					if k < 8 {
						t.Fatalf("only %d writes: %v", k, w.Writes.Done)
					}
					return // lived through all of them
				}
				if diff := gocmp.Diff(want, w.rolloutState()); diff != "" {
					t.Fatalf("dead after %d writes (%s): another end (-want +got):\n%s", k,
						strings.Join(w.Writes.Done, ", "), diff)
				}
			}
		})
	}
}
