package controller_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controller"
)

// reported is the report on node n0, a line a pod.
func (w *world) reported() string {
	w.t.Helper()
	r, err := v1alpha1.ParseDrainReport(w.node("n0").Annotations[v1alpha1.DrainReportAnnotation])
	if err != nil {
		w.t.Fatal(err)
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
func (w *world) anew(r *controller.Drain) *controller.Drain {
	return &controller.Drain{Client: w.through, Clients: r.Clients, Now: r.Now, Events: w.told}
}

// policy puts a RolloutPolicy for all pools onto the cluster.
func (w *world) policy(when v1alpha1.DrainAction, after time.Duration) {
	w.create(&v1alpha1.RolloutPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "all"},
		Spec:       v1alpha1.RolloutPolicySpec{Drain: &v1alpha1.DrainPolicy{WhenBlocked: when, After: metav1.Duration{Duration: after}}},
	})
}

const (
	etcdStays  = "shop/etcd Skipped: static pod, run by the node itself"
	proxyStays = "kube-system/proxy Skipped: DaemonSet kube-system/proxy would put it back at once"
	webBlocked = "shop/web Waiting: blocked by PodDisruptionBudget shop/web: 2 of 3 pods must stay healthy, and 2 are healthy"
)

// TestADrainExplainsItself is what the report on the node promises, a sentence each.
func TestADrainExplainsItself(t *testing.T) {
	for sentence, story := range map[string]func(t *testing.T, w *world, r *controller.Drain, s *podServer){
		"each pod that is not gone is told of, and nothing once the drain is done": func(t *testing.T, w *world, r *controller.Drain, s *podServer) {
			w.drain(r)
			equal(t, "the report", w.reported(), "shop/web Evicted: terminating (grace period 30s) (since 12:00:00)\n"+proxyStays+"\n"+etcdStays)
			s.end("web")
			w.now = w.now.Add(5 * time.Second)
			w.drain(r)
			equal(t, "the report", w.reported(), "")
		},
		"a budget in the way is told with the time since when, over a restart": func(t *testing.T, w *world, r *controller.Drain, s *podServer) {
			s.refusing["web"] = true
			w.drain(r)
			w.now = w.now.Add(20 * time.Minute)
			w.drain(w.anew(r))
			equal(t, "the report", w.reported(), webBlocked+" (since 12:00:00)\n"+proxyStays+"\n"+etcdStays)
		},
		"one event tells of the budget, over a restart and however often it refuses": func(t *testing.T, w *world, r *controller.Drain, s *podServer) {
			s.refusing["web"] = true
			for range 20 {
				w.drain(r)
				w.now = w.now.Add(6 * time.Second)
			}
			w.drain(w.anew(r))
			equal(t, "the events", strings.Join(w.told.lines, "\n"), "Normal Cordon: cordoned for v1\n"+
				"Warning DrainBlocked: shop/web: blocked by PodDisruptionBudget shop/web: 2 of 3 pods must stay healthy, and 2 are healthy")
		},
		"while nothing changes, nothing is written": func(t *testing.T, w *world, r *controller.Drain, s *podServer) {
			s.refusing["web"] = true
			w.drain(r)
			before := len(w.life.writes)
			for range 30 {
				w.now = w.now.Add(6 * time.Second)
				w.drain(r)
			}
			equal(t, "writes", len(w.life.writes)-before, 0)
		},
		"on the only node it is said that pods will be pending": func(t *testing.T, w *world, r *controller.Drain, s *podServer) {
			w.remove(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
			w.drain(r)
			has(t, "the report", w.reported(), "shop/web Evicted: terminating (grace period 30s); there is no other node: Pending until this one is back")
		},
		"a pod on a node whose kubelet is silent counts as gone": func(t *testing.T, w *world, r *controller.Drain, s *podServer) {
			n := w.node("n0")
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(noon)}}
			if err := w.admin.Status().Update(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			w.drain(r)
			s.pods[0].DeletionTimestamp, s.pods[0].DeletionGracePeriodSeconds = new(metav1.NewTime(noon.Add(30*time.Second))), new(int64(30))
			w.now = w.now.Add(58 * time.Second)
			equal(t, "when to look again", w.drain(r).RequeueAfter, 2*time.Second)
			w.now = w.now.Add(2 * time.Second)
			w.drain(r)
			has(t, "the node", w.shown(), "applied=drain-v1")
		},
		"a pod whose DaemonSet was deleted goes": func(t *testing.T, w *world, r *controller.Drain, s *podServer) {
			s.noSets = true
			w.drain(r)
			has(t, "evicted", strings.Join(s.evicted, " "), "proxy")
		},
		"a server that does not list pods is asked again, and the node says so": func(t *testing.T, w *world, r *controller.Drain, s *podServer) {
			s.deaf = true
			equal(t, "when to look again", w.drain(r).RequeueAfter, 5*time.Second)
			has(t, "the node", w.shown(), "cordoned=true", "listing the pods of node", "etcdserver: request timed out")
			s.deaf = false
			w.now = w.now.Add(5 * time.Second)
			w.drain(r)
			equal(t, "evicted", fmt.Sprint(s.evicted), "[web]")
		},
		"where the policy says so, what is left is deleted, loudly": func(t *testing.T, w *world, r *controller.Drain, s *podServer) {
			w.policy(v1alpha1.DrainDelete, 10*time.Minute)
			s.refusing["web"] = true
			w.drain(r)
			w.now = w.now.Add(9*time.Minute + 50*time.Second)
			equal(t, "when to look again", w.drain(r).RequeueAfter, 10*time.Second)
			equal(t, "deleted before its time", len(s.deleted), 0)
			w.now = w.now.Add(10 * time.Second)
			w.drain(r)
			equal(t, "deleted", fmt.Sprint(s.deleted), "[web]")
			has(t, "the report", w.reported(), "shop/web Deleted: terminating (grace period 30s) (since 12:10:00)")
			has(t, "the events", strings.Join(w.told.lines, "\n"), "Warning DrainDeleted: deleted past their budgets, as the pool's RolloutPolicy says after 10m0s: shop/web: blocked by PodDisruptionBudget shop/web")
			w.now = w.now.Add(5 * time.Minute)
			s.pods[0].DeletionTimestamp, s.pods[0].DeletionGracePeriodSeconds = new(metav1.NewTime(noon.Add(20*time.Minute))), new(int64(600))
			w.drain(w.anew(r))
			has(t, "the report after a restart", w.reported(), "shop/web Deleted: terminating, has until 2026-01-02T12:20:00Z (grace period 10m0s) (since 12:10:00)")
			equal(t, "deleted", len(s.deleted), 1)
		},
		"a policy that waits deletes nothing": func(t *testing.T, w *world, r *controller.Drain, s *podServer) {
			w.policy(v1alpha1.DrainWait, 10*time.Minute)
			s.refusing["web"] = true
			for range 100 {
				w.drain(r)
				w.now = w.now.Add(time.Minute)
			}
			equal(t, "deleted", len(s.deleted), 0)
		},
		"an hour of it is told to the metrics, and its end": func(t *testing.T, w *world, r *controller.Drain, s *podServer) {
			var said []string
			r.Stuck = func(node string, on bool) { said = append(said, fmt.Sprintf("%s %t", node, on)) }
			s.refusing["web"] = true
			w.drain(r)
			w.now = w.now.Add(time.Hour)
			w.drain(r)
			s.end("web")
			w.now = w.now.Add(time.Minute)
			w.drain(r)
			equal(t, "what the metrics hear", strings.Join(said, ", "), "n0 false, n0 true, n0 false")
		},
		"called off, nothing of it is left on the node": func(t *testing.T, w *world, r *controller.Drain, s *podServer) {
			s.refusing["web"] = true
			w.drain(r)
			w.ask("uncordon-v0")
			w.drain(r)
			equal(t, "the report", w.node("n0").Annotations[v1alpha1.DrainReportAnnotation], "")
		},
		"a drain for the next config goes on with the clocks of the one before": func(t *testing.T, w *world, r *controller.Drain, s *podServer) {
			s.refusing["web"] = true
			w.drain(r)
			w.now = w.now.Add(time.Minute)
			w.ask("drain-v2")
			w.drain(r)
			has(t, "the report", w.reported(), webBlocked+" (since 12:00:00)")
			has(t, "the node", w.shown(), `for="v2"`, `started="2026-01-02T12:00:00Z"`)
			has(t, "the annotation", w.node("n0").Annotations[v1alpha1.DrainReportAnnotation], `"for":"v2"`)
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w, r, s := drained(t, "drain-v1")
			story(t, w, r, s)
		})
	}
}
