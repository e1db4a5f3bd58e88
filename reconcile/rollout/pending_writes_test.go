package rollout_test

import (
	"errors"
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

	"github.com/bunsen-os/bunsen/reconcile/controllertest"
)

// errLost is what a client sees of a connection that broke.
var errLost = errors.New("connection reset by peer")

func onNode(what, node string) bool { return strings.HasSuffix(what, " "+node) }

func (w *rolloutWorld) writesTo(node string) int {
	n := 0
	for _, what := range w.Writes.Done {
		if onNode(what, node) {
			n++
		}
	}
	return n
}

// TestWritesToNodes is how a decision is written, a sentence each.
func TestWritesToNodes(t *testing.T) {
	told := func(w *rolloutWorld) int { return strings.Count(w.nodes(), "v0>v1") }
	for sentence, story := range map[string]func(t *testing.T, w *rolloutWorld, r *rolloutsRolling){
		"an answer that is lost counts as a write until the informer tells": func(t *testing.T, w *rolloutWorld,
			r *rolloutsRolling,
		) {
			w.Writes.Fault = func(what string) (bool, error) {
				if onNode(what, "n0") {
					return true, errLost
				}
				return false, nil
			}
			if _, err := r.look("worker"); !errors.Is(err, errLost) {
				t.Errorf("the error is %v, want %v", err, errLost)
			}
			w.Writes.Fault = nil
			r.late = true
			for range 3 {
				w.later(4 * time.Second)
				r.roll()
				controllertest.Equal(t, "nodes told with late informers", told(w), 1)
			}
			r.late = false
			r.roll()
			controllertest.Equal(t, "nodes told", w.nodes(), "n0 v0>v1, n1 v0>v0 tainted, n2 v0>v0 tainted, n3 v0>v0 "+
				"tainted")
		},
		"a write that was never done is asked about after some seconds, and holds nobody up": func(t *testing.T,
			w *rolloutWorld, r *rolloutsRolling,
		) {
			w.Writes.Fault = func(what string) (bool, error) {
				if onNode(what, "n0") {
					return false, errLost
				}
				return false, nil
			}
			_, _ = r.look("worker") // the error is errLost, as above
			w.Writes.Fault = nil
			r.roll()
			controllertest.Equal(t, "nodes told at once", told(w), 0)
			w.later(6 * time.Second)
			r.roll()
			r.roll()
			controllertest.Equal(t, "nodes told after a question", told(w), 1)
		},
		"a record whose answer is lost is not decided upon again before it is shown": func(t *testing.T,
			w *rolloutWorld, r *rolloutsRolling,
		) {
			first := true
			w.Writes.Fault = func(what string) (bool, error) {
				if first && onNode(what, "worker") {
					first = false
					return true, errLost
				}
				return false, nil
			}
			if _, err := r.look("worker"); !errors.Is(err, errLost) {
				t.Errorf("the error is %v, want %v", err, errLost)
			}
			controllertest.Equal(t, "nodes told before the record is known to be there", told(w), 0)
			r.roll()
			controllertest.Equal(t, "nodes told", told(w), 1)
		},
		"a node that moved meanwhile does not stop the others": func(t *testing.T, w *rolloutWorld,
			r *rolloutsRolling,
		) {
			controllertest.Modify(w.Cluster, w.Pool("worker"), func(p *mcfgv1.MachineConfigPool) {
				p.Spec.MaxUnavailable = new(intstr.FromInt32(4))
			})
			r.feed()
			controllertest.Modify(w.Cluster, w.Node("n1"), func(n *corev1.Node) { n.Labels["touched"] = "yes" })
			r.late = true
			if _, err := r.look("worker"); !apierrors.IsConflict(err) {
				t.Errorf("the error is %v, want a conflict", err)
			}
			controllertest.Equal(t, "the nodes", w.nodes(), "n0 v0>v1, n1 v0>v0, n2 v0>v1, n3 v0>v1")
			r.late = false
			r.roll()
			controllertest.Equal(t, "the nodes then", w.nodes(), "n0 v0>v1, n1 v0>v1, n2 v0>v1, n3 v0>v1")
		},
		"a node that is gone is no error": func(t *testing.T, w *rolloutWorld, r *rolloutsRolling) {
			controllertest.Modify(w.Cluster, w.Pool("worker"), func(p *mcfgv1.MachineConfigPool) {
				p.Spec.MaxUnavailable = new(intstr.FromInt32(4))
			})
			r.feed()
			w.Remove(w.Node("n1"))
			r.late = true
			r.roll()
			controllertest.Equal(t, "the nodes", w.nodes(), "n0 v0>v1, n2 v0>v1, n3 v0>v1")
		},
		"what an API server refuses for good is not taken for a conflict": func(t *testing.T, w *rolloutWorld,
			r *rolloutsRolling,
		) {
			w.Writes.Fault = func(what string) (bool, error) {
				if onNode(what, "n1") {
					return false, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n1",
						errors.New("no"))
				}
				if onNode(what, "n2") {
					return false, apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n2",
						errors.New("moved"))
				}
				return false, nil
			}
			_, err := r.look("worker")
			if !apierrors.IsForbidden(err) || apierrors.IsConflict(err) {
				t.Errorf("the error is %v, want forbidden", err)
			}
			controllertest.Contains(t, "the error", fmt.Sprint(err), `tainting node "n1"`)
			controllertest.Contains(t, "the nodes", w.nodes(), "n0 v0>v1", "n3 v0>v0 tainted")
		},
		"an API server that is down is not asked for every node": func(t *testing.T, w *rolloutWorld,
			r *rolloutsRolling,
		) {
			for i := range 40 {
				w.Create(controllertest.Node(fmt.Sprintf("m%d", i), "v0", "v0"))
			}
			w.Writes.Fault = func(what string) (bool, error) {
				if onNode(what, "worker") {
					return false, nil
				}
				return false, errLost
			}
			if _, err := r.look("worker"); !errors.Is(err, errLost) {
				t.Errorf("the error is %v, want %v", err, errLost)
			}
			if n := len(w.Writes.Done); n > 12 {
				t.Errorf("%d writes were tried", n)
			}
		},
		"a whole rollout costs a node two writes at most, and one where it is told at once": func(t *testing.T,
			w *rolloutWorld, r *rolloutsRolling,
		) {
			for range 20 {
				r.roll()
				w.finishAll("")
			}
			controllertest.Equal(t, "in the end", w.nodes(), "n0 v1>v1, n1 v1>v1, n2 v1>v1, n3 v1>v1")
			controllertest.Equal(t, "writes to the nodes", fmt.Sprint(w.writesTo("n0"), w.writesTo("n1"),
				w.writesTo("n2"), w.writesTo("n3")), "1 2 2 2")
		},
		"many are written to at the same time": func(t *testing.T, w *rolloutWorld, r *rolloutsRolling) {
			for i := range 60 {
				w.Create(controllertest.Node(fmt.Sprintf("m%d", i), "v0", "v0"))
			}
			controllertest.Modify(w.Cluster, w.Pool("worker"), func(p *mcfgv1.MachineConfigPool) {
				p.Spec.MaxUnavailable = new(intstr.FromInt32(14))
			})
			r.Writers = 16
			r.roll()
			controllertest.Equal(t, "nodes told", told(w), 14)
			controllertest.Equal(t, "nodes tainted", strings.Count(w.nodes(), "tainted"), 50)
			controllertest.Equal(t, "events of these orders", w.countEvents("SetDesiredConfig"), 1)
			controllertest.Contains(t, "the event", strings.Join(w.Events.Lines, "\n"),
				`updating 14 nodes to v1 (main@sha1:bbbbbbbb "say hello"): m0, `, " and 4 more")
		},
		"a server that was restored from a backup holds nobody up": func(t *testing.T, w *rolloutWorld,
			r *rolloutsRolling,
		) {
			r.roll()
			n := w.Node("n0")
			old := n.DeepCopy()
			w.Remove(n)
			r.Fleet.PutNode(withVersion(old, "1"))
			r.late = true
			w.later(6 * time.Second)
			r.roll()
			r.late = false
			r.roll()
			controllertest.Contains(t, "the nodes", w.nodes(), "n1 v0>v1")
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w, r := rolloutsFleet(t, 4)
			story(t, w, r)
		})
	}
}

func withVersion(n *corev1.Node, version string) *corev1.Node {
	n.ObjectMeta = *n.ObjectMeta.DeepCopy()
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, "restored", "yes")
	n.ResourceVersion = version
	return n
}
