package drain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/reconcile/drain"
)

// reported is the report on node n0, a line a pod.
func (w *drainWorld) reported() string {
	w.T.Helper()
	r, err := v1alpha1.ParseDrainReport(w.Node("n0").Annotations[v1alpha1.DrainReportAnnotation])
	if err != nil {
		w.T.Fatal(err)
	}
	var lines []string
	for _, p := range r.Pods {
		line := fmt.Sprintf("%s %s: %s", p.Pod, p.State, p.Why)
		if p.Since != nil {
			line += p.Since.UTC().Format(" (since 15:04:05)")
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// anew is the controller after a restart.
func (w *drainWorld) anew(r *drain.Controller) *drain.Controller {
	return &drain.Controller{Client: w.Client, Live: w.Client, Clients: r.Clients, Now: r.Now, Events: w.Events}
}

// policy puts a RolloutPolicy for all pools onto the cluster.
func (w *drainWorld) policy(when v1alpha1.DrainAction, after time.Duration) {
	w.Create(&v1alpha1.RolloutPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "all"},
		Spec: v1alpha1.RolloutPolicySpec{Drain: &v1alpha1.DrainPolicy{
			WhenBlocked: when,
			After:       metav1.Duration{Duration: after},
		}},
	})
}

const (
	etcdStays  = "shop/etcd Skipped: static pod, run by the node itself"
	proxyStays = "kube-system/proxy Skipped: DaemonSet kube-system/proxy would put it back at once"
	webBlocked = "shop/web Waiting: blocked by PodDisruptionBudget shop/web: 2 of 3 pods must stay healthy, and 2 " +
		"are healthy"
)

// TestADrainExplainsItself is what the report on the node promises, a sentence each.
func TestADrainExplainsItself(t *testing.T) {
	for sentence, story := range map[string]func(t *testing.T, w *drainWorld, r *drain.Controller, s *podServer){
		"each pod that is not gone is told of, and nothing once the drain is done": func(t *testing.T, w *drainWorld,
			r *drain.Controller, s *podServer,
		) {
			w.drain(r)
			controllertest.Equal(t, "the report", w.reported(), "shop/web Evicted: terminating (grace period 30s) "+
				"(since 12:00:00)\n"+proxyStays+"\n"+etcdStays)
			s.end("web")
			w.Now = w.Now.Add(5 * time.Second)
			w.drain(r)
			controllertest.Equal(t, "the report", w.reported(), "")
		},
		"the pod that a budget waits for is told, and in an event once nothing but a user can help it": func(
			t *testing.T, w *drainWorld, r *drain.Controller, s *podServer,
		) {
			s.refusing["web"] = true
			w.drain(r)
			if got := w.LastEvent(); !strings.HasSuffix(got, "and 2 are healthy") {
				t.Errorf("the first event: %s", got)
			}
			s.elsewhere = []corev1.Pod{newPod("web-2", func(p *corev1.Pod) {
				p.Labels, p.Spec.NodeName, p.Status.Phase = map[string]string{"app": "web"}, "", corev1.PodPending
				p.Status.Conditions = []corev1.PodCondition{{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable",
					Message: "0/2 nodes are available:\n2 node(s) didn't match Pod's node affinity/selector.",
				}}
			})}
			for range 2 {
				w.Now = w.Now.Add(5 * time.Second)
				w.drain(r)
			}
			const says = "; pod shop/web-2 is Pending: 0/2 nodes are available: 2 node(s) didn't match Pod's node " +
				"affinity/selector"
			if got := w.LastEvent(); !strings.HasSuffix(got, says) {
				t.Errorf("the second event: %s", got)
			}
			n := w.Node("n0")
			if got := n.Annotations[v1alpha1.DrainStatusAnnotation]; !strings.HasSuffix(got, says) {
				t.Errorf("the status: %s", got)
			}
			report, err := v1alpha1.ParseDrainReport(n.Annotations[v1alpha1.DrainReportAnnotation])
			if err != nil || len(report.Pods) == 0 || report.Pods[0].Unhealthy == nil {
				t.Fatalf("%v: %+v", err, report)
			}
			u := report.Pods[0].Unhealthy
			controllertest.Equal(t, "the pod", fmt.Sprint(u.Pod, u.Pending, u.Reason), "shop/web-2trueUnschedulable")
			s.elsewhere[0].Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodReady, Status: corev1.ConditionTrue,
			}}
			w.Now = w.Now.Add(5 * time.Second)
			w.drain(r)
			controllertest.Equal(t, "the report", w.reported(), webBlocked+" (since 12:00:00)\n"+proxyStays+"\n"+
				etcdStays)
		},
		"the only worker keeps its pods, and an event says so with the budgets": func(t *testing.T, w *drainWorld,
			r *drain.Controller, s *podServer,
		) {
			n := w.Node("n1")
			n.Spec.Taints = []corev1.Taint{{
				Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule,
			}}
			if err := w.Client.Update(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			b := s.budgets[0]
			w.Create(&b)
			w.drain(r)
			controllertest.Equal(t, "evicted", len(s.evicted), 0)
			controllertest.Equal(t, "the event", w.LastEvent(), "Warning PodsNotEvicted: 1 pod is not evicted, "+
				"because no other node can run it; it ends if the node reboots, although PodDisruptionBudgets "+
				"forbid it: shop/web")
			events := len(w.Events.Lines)
			w.Now = w.Now.Add(5 * time.Second)
			w.drain(r)
			controllertest.Equal(t, "events of the next look", len(w.Events.Lines), events)
		},
		"a budget in the way is told with the time since when, over a restart": func(t *testing.T, w *drainWorld,
			r *drain.Controller, s *podServer,
		) {
			s.refusing["web"] = true
			w.drain(r)
			w.Now = w.Now.Add(20 * time.Minute)
			w.drain(w.anew(r))
			controllertest.Equal(t, "the report", w.reported(), webBlocked+" (since 12:00:00)\n"+proxyStays+"\n"+
				etcdStays)
		},
		"one event tells of the budget, over a restart and however often it refuses": func(t *testing.T, w *drainWorld,
			r *drain.Controller, s *podServer,
		) {
			s.refusing["web"] = true
			for range 20 {
				w.drain(r)
				w.Now = w.Now.Add(6 * time.Second)
			}
			w.drain(w.anew(r))
			controllertest.Equal(t, "the events", strings.Join(w.Events.Lines, "\n"),
				"Normal Cordon: cordoned for v1\n"+
					"Warning DrainBlocked: shop/web: blocked by PodDisruptionBudget shop/web: 2 of 3 pods must stay "+
					"healthy, and 2 are healthy")
		},
		"while nothing changes, nothing is written": func(t *testing.T, w *drainWorld, r *drain.Controller,
			s *podServer,
		) {
			s.refusing["web"] = true
			w.drain(r)
			before := len(w.Writes.Done)
			for range 30 {
				w.Now = w.Now.Add(6 * time.Second)
				w.drain(r)
			}
			controllertest.Equal(t, "writes", len(w.Writes.Done)-before, 0)
		},
		"on the only node no pod is evicted": func(t *testing.T, w *drainWorld, r *drain.Controller, s *podServer) {
			w.Remove(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
			w.drain(r)
			controllertest.Equal(t, "evicted", fmt.Sprint(s.evicted), "[]")
			controllertest.Contains(t, "the node", w.shown(), "applied=drain-v1")
		},
		"a pod on a node whose kubelet is silent counts as gone": func(t *testing.T, w *drainWorld,
			r *drain.Controller, s *podServer,
		) {
			n := w.Node("n0")
			n.Status.Conditions = []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionUnknown,
				LastTransitionTime: metav1.NewTime(controllertest.Noon),
			}}
			if err := w.Admin.Status().Update(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			w.drain(r)
			s.pods[0].DeletionTimestamp,
				s.pods[0].DeletionGracePeriodSeconds = new(metav1.NewTime(controllertest.Noon.Add(30*time.Second))),
				new(int64(30))
			w.Now = w.Now.Add(58 * time.Second)
			controllertest.Equal(t, "when to look again", w.drain(r).RequeueAfter, 2*time.Second)
			w.Now = w.Now.Add(2 * time.Second)
			w.drain(r)
			controllertest.Contains(t, "the node", w.shown(), "applied=drain-v1")
		},
		"a pod whose DaemonSet was deleted goes": func(t *testing.T, w *drainWorld, r *drain.Controller,
			s *podServer,
		) {
			s.noSets = true
			w.drain(r)
			controllertest.Contains(t, "evicted", strings.Join(s.evicted, " "), "proxy")
		},
		"a server that does not list pods is asked again, and the node says so": func(t *testing.T, w *drainWorld,
			r *drain.Controller, s *podServer,
		) {
			s.deaf = true
			controllertest.Equal(t, "when to look again", w.drain(r).RequeueAfter, time.Second)
			controllertest.Contains(t, "the node", w.shown(), "cordoned=true", "listing the pods of node",
				"etcdserver: request timed out")
			s.deaf = false
			w.Now = w.Now.Add(5 * time.Second)
			w.drain(r)
			controllertest.Equal(t, "evicted", fmt.Sprint(s.evicted), "[web]")
		},
		"where the policy says so, what is left is deleted, loudly": func(t *testing.T, w *drainWorld,
			r *drain.Controller, s *podServer,
		) {
			w.policy(v1alpha1.DrainDelete, 10*time.Minute)
			s.refusing["web"] = true
			w.drain(r)
			w.Now = w.Now.Add(9*time.Minute + 50*time.Second)
			controllertest.Equal(t, "when to look again", w.drain(r).RequeueAfter, 10*time.Second)
			controllertest.Equal(t, "deleted before its time", len(s.deleted), 0)
			w.Now = w.Now.Add(10 * time.Second)
			w.drain(r)
			controllertest.Equal(t, "deleted", fmt.Sprint(s.deleted), "[web]")
			controllertest.Contains(t, "the report", w.reported(), "shop/web Deleted: terminating (grace period 30s) "+
				"(since 12:10:00)")
			controllertest.Contains(t, "the events", strings.Join(w.Events.Lines, "\n"), "Warning DrainDeleted: "+
				"deleted past their budgets, as the pool's RolloutPolicy says after 10m0s: shop/web: blocked by "+
				"PodDisruptionBudget shop/web")
			w.Now = w.Now.Add(5 * time.Minute)
			s.pods[0].DeletionTimestamp,
				s.pods[0].DeletionGracePeriodSeconds = new(metav1.NewTime(controllertest.Noon.Add(20*time.Minute))),
				new(int64(600))
			w.drain(w.anew(r))
			controllertest.Contains(t, "the report after a restart", w.reported(),
				"shop/web Deleted: terminating, has until 2026-01-02T12:20:00Z (grace period 10m0s) (since 12:10:00)")
			controllertest.Equal(t, "deleted", len(s.deleted), 1)
		},
		"a policy that waits deletes nothing": func(t *testing.T, w *drainWorld, r *drain.Controller, s *podServer) {
			w.policy(v1alpha1.DrainWait, 10*time.Minute)
			s.refusing["web"] = true
			for range 100 {
				w.drain(r)
				w.Now = w.Now.Add(time.Minute)
			}
			controllertest.Equal(t, "deleted", len(s.deleted), 0)
		},
		"an hour of it is told to the metrics, and its end": func(t *testing.T, w *drainWorld, r *drain.Controller,
			s *podServer,
		) {
			var said []string
			r.ReportStuck = func(node string, on bool) { said = append(said, fmt.Sprintf("%s %t", node, on)) }
			s.refusing["web"] = true
			w.drain(r)
			w.Now = w.Now.Add(time.Hour)
			w.drain(r)
			s.end("web")
			w.Now = w.Now.Add(time.Minute)
			w.drain(r)
			controllertest.Equal(t, "what the metrics hear", strings.Join(said, ", "), "n0 false, n0 true, n0 false")
		},
		"called off, nothing of it is left on the node": func(t *testing.T, w *drainWorld, r *drain.Controller,
			s *podServer,
		) {
			s.refusing["web"] = true
			w.drain(r)
			w.ask("uncordon-v0")
			w.drain(r)
			controllertest.Equal(t, "the report", w.Node("n0").Annotations[v1alpha1.DrainReportAnnotation], "")
		},
		"a drain for the next config goes on with the clocks of the one before": func(t *testing.T, w *drainWorld,
			r *drain.Controller, s *podServer,
		) {
			s.refusing["web"] = true
			w.drain(r)
			w.Now = w.Now.Add(time.Minute)
			w.ask("drain-v2")
			w.drain(r)
			controllertest.Contains(t, "the report", w.reported(), webBlocked+" (since 12:00:00)")
			controllertest.Contains(t, "the node", w.shown(), `for="v2"`, `started="2026-01-02T12:00:00Z"`)
			controllertest.Contains(t, "the annotation", w.Node("n0").Annotations[v1alpha1.DrainReportAnnotation],
				`"for":"v2"`)
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w, r, s := newDrain(t, "drain-v1")
			story(t, w, r, s)
		})
	}
}
