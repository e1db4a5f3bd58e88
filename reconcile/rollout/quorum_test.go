package rollout_test

import (
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
)

// arbiterCluster has two masters and an arbiter, which are to run v1.
func arbiterCluster(t *testing.T) (*rolloutWorld, *rolloutsRolling) {
	w, r := rolloutsFleet(t, 0)
	w.Create(controllertest.Pool("arbiter"))
	for _, name := range []string{"arbiter", "master-0", "master-1"} {
		role, _, _ := strings.Cut(name, "-")
		n := controllertest.Node(name, "v0", "v0")
		n.Labels = map[string]string{"node-role.kubernetes.io/" + role: ""}
		w.Create(n)
	}
	w.aim("master", "v1")
	w.aim("arbiter", "v1")
	return w, r
}

// TestTheArbiterWaitsForTheMasters: whatever is the reason to assign it a config, and whatever a master lacks.
func TestTheArbiterWaitsForTheMasters(t *testing.T) {
	working := func(n *corev1.Node) { n.Annotations[v1alpha1.StateAnnotation] = v1alpha1.StateWorking }
	drift := func(n *corev1.Node) { n.Annotations[v1alpha1.StateAnnotation] = v1alpha1.StateDegraded }
	notReady := func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	well := func(*corev1.Node) {}
	pressure := func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue,
		})
	}
	edit := func(w *rolloutWorld, name string, change func(*corev1.Node)) {
		controllertest.Modify(w.Cluster, w.Node(name), func(n *corev1.Node) { change(n) })
		report(w.Cluster, w.Node(name), func(n *corev1.Node) { change(n) })
	}
	for sentence, tc := range map[string]struct{ master, arbiter func(*corev1.Node) }{
		"a master is at work, the arbiter has drifted":          {working, drift},
		"a master is at work, the arbiter is short of disk":     {working, pressure},
		"a master is not Ready, the arbiter has drifted":        {notReady, drift},
		"a master is not Ready, the arbiter is short of disk":   {notReady, pressure},
		"a master is not Ready, the arbiter is in service":      {notReady, well},
		"a master is cordoned, the arbiter has drifted":         {cordoned, drift},
		"a master is short of disk, the arbiter is in service":  {pressure, well},
		"a master is missing, the arbiter has drifted":          {nil, drift},
		"a master is missing, the arbiter is short of disk":     {nil, pressure},
		"a master is missing, the arbiter is else in service":   {nil, well},
		"a master is cordoned, the arbiter is short of disk":    {cordoned, pressure},
		"a master is short of disk, the arbiter is short of it": {pressure, pressure},
	} {
		t.Run(sentence, func(t *testing.T) {
			w, r := arbiterCluster(t)
			r.roll("master", "arbiter")
			if tc.master == nil {
				w.Remove(w.Node("master-0"))
			} else {
				edit(w, "master-0", tc.master)
			}
			edit(w, "arbiter", tc.arbiter)
			r.roll("master", "arbiter", "master", "arbiter")
			if strings.Contains(w.nodes(), "arbiter v0>v1") {
				t.Errorf("%s; the arbiter: %s", w.nodes(), w.blocked("arbiter"))
			}
			if !strings.HasPrefix(w.blocked("arbiter"), "True|AfterPool|") {
				t.Errorf("the arbiter: %s", w.blocked("arbiter"))
			}
		})
	}
	t.Run("a master dies after the masters' rollout, and the arbiter gets another config", func(t *testing.T) {
		w, r := arbiterCluster(t)
		for range 3 {
			r.roll("master", "arbiter")
			for _, name := range []string{"master-0", "master-1", "arbiter"} {
				if w.Node(name).Annotations[v1alpha1.DesiredConfigAnnotation] == "v1" {
					w.finish(name)
				}
			}
		}
		r.roll("master", "arbiter")
		edit(w, "master-0", notReady)
		w.aim("arbiter", "v2")
		r.roll("master", "arbiter", "master", "arbiter")
		if !strings.HasPrefix(w.nodes(), "arbiter v1>v1 ") {
			t.Errorf("the nodes: %s", w.nodes())
		}
	})
}

// TestEtcdKeepsItsQuorum: two of three members live, and the master with one of them is left alone, whatever the reason
// to assign it a config.
func TestEtcdKeepsItsQuorum(t *testing.T) {
	failed := func(n *corev1.Node) {
		n.Annotations[v1alpha1.StateAnnotation], n.Annotations[v1alpha1.ReasonAnnotation] = v1alpha1.StateDegraded, "so"
		n.Annotations[v1alpha1.DesiredConfigAnnotation], n.Annotations[v1alpha1.CordonedAnnotation] = "v2", "v2"
		n.Spec.Unschedulable = true
	}
	working := func(n *corev1.Node) {
		n.Annotations[v1alpha1.StateAnnotation], n.Annotations[v1alpha1.DesiredConfigAnnotation] = v1alpha1.StateWorking, "v2"
	}
	drift := func(n *corev1.Node) { n.Annotations[v1alpha1.StateAnnotation] = v1alpha1.StateDegraded }
	since := func(w *rolloutWorld) metav1.Time { return metav1.NewTime(w.Now.Add(-30 * time.Minute)) }
	pressure := func(w *rolloutWorld) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
				Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue, LastTransitionTime: since(w),
			})
		}
	}
	away := func(w *rolloutWorld) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime = corev1.ConditionUnknown, since(w)
		}
	}
	deads := map[string]func(w *rolloutWorld){
		"not Ready": func(w *rolloutWorld) { report(w.Cluster, w.Node("master-2"), away(w)) },
		"cordoned": func(w *rolloutWorld) {
			report(w.Cluster, w.Node("master-2"), away(w))
			controllertest.Modify(w.Cluster, w.Node("master-2"), func(n *corev1.Node) { n.Spec.Unschedulable = true })
		},
		"gone": func(w *rolloutWorld) { w.Remove(w.Node("master-2")) },
	}
	reasons := map[string]func(w *rolloutWorld){
		"in service":    func(*rolloutWorld) {},
		"short of disk": func(w *rolloutWorld) { report(w.Cluster, w.Node("master-1"), pressure(w)) },
		"failed":        func(w *rolloutWorld) { controllertest.Modify(w.Cluster, w.Node("master-1"), failed) },
		"drifted":       func(w *rolloutWorld) { controllertest.Modify(w.Cluster, w.Node("master-1"), drift) },
		"at work":       func(w *rolloutWorld) { controllertest.Modify(w.Cluster, w.Node("master-1"), working) },
		"not Ready":     func(w *rolloutWorld) { report(w.Cluster, w.Node("master-1"), away(w)) },
	}
	for dead, die := range deads {
		for reason, spoil := range reasons {
			t.Run("one master is "+dead+", another is "+reason, func(t *testing.T) {
				w, r := rolloutsFleet(t, 0)
				w.later(2 * time.Hour)
				for _, name := range []string{"master-0", "master-1", "master-2"} {
					n := controllertest.Node(name, "v0", "v0")
					n.Labels = map[string]string{"node-role.kubernetes.io/master": ""}
					w.Create(n)
					report := v1alpha1.DaemonReport{
						Seen: metav1.NewTime(w.Now), Etcd: &v1alpha1.EtcdReport{Members: 3, Healthy: 2},
					}
					if name == "master-2" {
						report.Seen = metav1.NewTime(w.Now.Add(-time.Hour))
					}
					w.Create(&mcfgv1.MachineConfigNode{ObjectMeta: metav1.ObjectMeta{
						Name: name, Annotations: map[string]string{v1alpha1.DaemonAnnotation: report.String()},
					}})
				}
				die(w)
				spoil(w)
				w.aim("master", "v1")
				r.roll("master", "master")
				if n := w.Node("master-1"); n.Annotations[v1alpha1.DesiredConfigAnnotation] == "v1" {
					t.Errorf("%s; the masters: %s", w.nodes(), w.blocked("master"))
				}
				if told := strings.Contains(w.nodes(), "master-2 v0>v1"); told != (dead == "not Ready") && reason != "at work" {
					t.Errorf("the dead master: %s", w.nodes())
				}
			})
		}
	}
}
