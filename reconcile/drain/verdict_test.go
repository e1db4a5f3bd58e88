package drain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"
	"github.com/bunsen-os/bunsen/reconcile/drain"
)

// case of a pod: what is known of it, and around it.
type podCase struct {
	pod   drain.Pod
	facts drain.Facts
	want  string
}

func phase(p corev1.PodPhase) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.Phase = p }
}

func grace(seconds int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = &seconds }
}

func emptyDir(pod *corev1.Pod) {
	pod.Spec.Volumes = []corev1.Volume{{
		Name:         "cache",
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	}}
}

func static(pod *corev1.Pod) {
	pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
}

// web is an ordinary pod, as a ReplicaSet makes it.
func web(answer drain.Answer, change ...func(*corev1.Pod)) drain.Pod {
	return drain.Pod{Pod: pod("web-0", append([]func(*corev1.Pod){replicated}, change...)...), Answer: answer}
}

// asked is an answer that came some seconds ago.
func asked(seconds int, s *metav1.Status, budgets ...*policyv1.PodDisruptionBudget) drain.Answer {
	return answered(time.Duration(seconds)*time.Second, s, budgets...)
}

func said(code int32, reason metav1.StatusReason, message string, causes ...metav1.StatusCause) *metav1.Status {
	return &metav1.Status{Code: code, Reason: reason, Message: message, Details: &metav1.StatusDetails{Causes: causes}}
}

// TestVerdicts says what becomes of a pod, one sentence per rule.
func TestVerdicts(t *testing.T) {
	testVerdicts(t, map[string]podCase{
		"an ordinary pod is evicted":                         {web(drain.Answer{}), drain.Facts{}, "Evict Waiting"},
		"a static pod stays":                                 {drain.Pod{Pod: pod("etcd", static)}, drain.Facts{}, "Skip Skipped: static pod, run by the node itself"},
		"a DaemonSet's pod stays":                            {drain.Pod{Pod: pod("cni", ownedBy("DaemonSet", "cni"))}, drain.Facts{}, "Skip Skipped: DaemonSet default/cni would put it back at once"},
		"a pod whose DaemonSet was deleted goes":             {drain.Pod{Pod: pod("cni", ownedBy("DaemonSet", "cni")), Orphan: true}, drain.Facts{}, "Evict Waiting"},
		"a finished pod stays: nobody is disturbed":          {web(drain.Answer{}, phase(corev1.PodSucceeded)), drain.Facts{}, "Skip Skipped: finished (Succeeded): nothing of it runs"},
		"a failed pod stays as well":                         {web(drain.Answer{}, phase(corev1.PodFailed)), drain.Facts{}, "Skip Skipped: finished (Failed): nothing of it runs"},
		"a finished pod that a finalizer keeps holds nobody": {web(drain.Answer{}, phase(corev1.PodSucceeded), ends(noon, 30, "batch.kubernetes.io/job-tracking")), drain.Facts{}, "Skip Skipped: finished (Succeeded): only its finalizer batch.kubernetes.io/job-tracking keeps the object"},
		"a pod that is gone needs nothing, and is in no report": {
			web(asked(0, said(404, metav1.StatusReasonNotFound, "pods \"web-0\" not found"))),
			drain.Facts{},
			"Skip: gone",
		},
		"a pod whose name another one has by now is gone": {
			web(asked(0, said(409, metav1.StatusReasonConflict, "the UID in the precondition (a) does not match the "+
				"UID in record (b)"))), drain.Facts{}, "Skip: gone",
		},
		"an evicted pod is given time to begin to end":              {web(asked(1, nil)), drain.Facts{}, "Wait Evicted: terminating (grace period 30s)"},
		"an eviction without effect is repeated":                    {web(asked(60, nil)), drain.Facts{}, "Evict Waiting: evicted before, and still not terminating"},
		"a pod that ends is waited for":                             {web(drain.Answer{}, ends(noon.Add(5*time.Second), 30)), drain.Facts{}, "Wait Evicted: terminating (grace period 30s)"},
		"a long grace period says until when":                       {web(drain.Answer{}, ends(noon.Add(5*time.Minute), 600)), drain.Facts{}, "Wait Evicted: terminating, has until 2026-01-02T12:05:00Z (grace period 10m0s)"},
		"a long grace period says so as soon as the pod is evicted": {web(asked(0, nil), grace(600)), drain.Facts{}, "Wait Evicted: terminating, has until 2026-01-02T12:10:00Z (grace period 10m0s)"},
		"a pod past its end names the kubelet": {
			web(drain.Answer{}, ends(noon.Add(-time.Minute), 30)),
			drain.Facts{},
			"Wait Evicted: should have ended at 2026-01-02T11:59:00Z (grace period 30s); the node's kubelet has not " +
				"confirmed it",
		},
		"a pod past its end with a finalizer names the finalizer": {
			web(drain.Answer{}, ends(noon.Add(-time.Minute), 30, "example.com/hold")),
			drain.Facts{},
			"Wait Evicted: should have ended at 2026-01-02T11:59:00Z, but waits for its finalizer example.com/hold",
		},
		"a pod with local storage is evicted, and it is said what is lost": {
			web(asked(0, nil), emptyDir), drain.Facts{}, "Wait Evicted: terminating (grace period 30s); what it kept " +
				"in emptyDir is lost",
		},
		"a pod that nobody puts back is evicted, and that is said": {
			drain.Pod{Pod: pod("web-0"), Answer: asked(0, nil)},
			drain.Facts{},
			"Wait Evicted: terminating (grace period 30s); no controller puts it back",
		},
		"on the only node a pod is not evicted": {
			web(drain.Answer{}), drain.Facts{Alone: true}, "Skip Skipped: no other node can run it",
		},
		"a pod that was evicted before its node was the only one leaves": {
			web(asked(0, nil)), drain.Facts{Alone: true}, "Wait Evicted: terminating (grace period 30s); there is no " +
				"other node: Pending until this one is back",
		},
	})
}

// TestAnUnreachableKubelet: nobody will ever report the end of a pod there, and the drain does not wait for ever.
func TestAnUnreachableKubelet(t *testing.T) {
	since := func(ago time.Duration) drain.Facts { return drain.Facts{NotReadySince: noon.Add(-ago)} }
	testVerdicts(t, map[string]podCase{
		"a pod there is evicted as any other": {web(drain.Answer{}), since(time.Hour), "Evict Waiting"},
		"a pod has its grace period there as well": {
			web(drain.Answer{}, ends(noon.Add(time.Second), 30)), since(time.Hour),
			"Wait Evicted: terminating (grace period 30s)",
		},
		"past its end it is said when it counts as gone": {
			web(drain.Answer{}, ends(noon.Add(-time.Minute), 600)), since(5 * time.Minute),
			"Wait Evicted: should have ended at 2026-01-02T11:59:00Z; the node is not Ready since " +
				"2026-01-02T11:55:00Z, and the pod counts as gone at 2026-01-02T12:05:30Z",
		},
		"a node that is not Ready for longer than the grace period cannot hold the drain up": {
			web(drain.Answer{}, ends(noon.Add(-time.Minute), 600)), since(11 * time.Minute),
			"Skip Skipped: counts as gone: the node has not been Ready since 2026-01-02T11:49:00Z, longer than the " +
				"grace period 10m0s of the pod, so no kubelet reports its end",
		},
		"even a finalizer there cannot": {
			web(drain.Answer{}, ends(noon.Add(-time.Hour), 30, "example.com/hold")), since(time.Hour),
			"Skip Skipped: counts as gone: the node has not been Ready since 2026-01-02T11:00:00Z, longer than the " +
				"grace period 30s of the pod, so no kubelet reports its end",
		},
	})
}

// TestRefusals says what is in the way of an eviction.
func TestRefusals(t *testing.T) {
	testVerdicts(t, map[string]podCase{
		"a refusal names the budget and its numbers": {
			web(asked(1, refusal(needsTwo), budget("web", 0))),
			drain.Facts{},
			"Wait Waiting default/web: blocked by PodDisruptionBudget default/web: 2 of 3 pods must stay healthy, " +
				"and 2 are healthy",
		},
		"a refusal by a budget that was not read has the server's numbers": {
			web(asked(1, refusal(needsTwo))), drain.Facts{}, "Wait Waiting default/web: blocked by " +
				"PodDisruptionBudget default/web: it requires 2 healthy pods, and 2 are healthy",
		},
		"a refusal without a name is laid to the budget without room": {
			web(asked(1, refusal(""), budget("roomy", 1), budget("tight", 0))),
			drain.Facts{},
			"Wait Waiting default/tight: blocked by PodDisruptionBudget default/tight: 2 of 3 pods must stay " +
				"healthy, and 2 are healthy",
		},
		"a budget that the cluster has not counted yet says who does that": {
			web(asked(1, refusal("The disruption budget web is still being processed by the server."),
				budget("web", 0))),
			drain.Facts{},
			"Wait Waiting default/web: blocked by PodDisruptionBudget default/web: kube-controller-manager has not " +
				"counted its pods yet",
		},
		"a budget that cannot be counted says why": {
			web(asked(1, refusal("The disruption budget web does not allow evicting pods currently because it failed "+
				"sync: found no controllers for pod \"web-0\""), budget("web", 0))),
			drain.Facts{},
			`Wait Waiting default/web: blocked by PodDisruptionBudget default/web: The disruption budget web does not allow evicting pods currently because it failed sync: found no controllers for pod "web-0"`,
		},
		"two budgets on one pod are both named, as the server never evicts it": {
			web(asked(1, said(500, "", "This pod has more than one PodDisruptionBudget, which the eviction "+
				"subresource does not support."), budget("web", 1), budget("all", 1), elsewhere())),
			drain.Facts{},
			"Wait Waiting default/all: more than one PodDisruptionBudget selects it (default/all, default/web), so " +
				"that it can never be evicted: change or delete all but one of them",
		},
		"after a pause a refused eviction is asked for again, and still says why": {
			web(asked(5, refusal(needsTwo))), drain.Facts{}, "Evict Waiting default/web: blocked by " +
				"PodDisruptionBudget default/web: it requires 2 healthy pods, and 2 are healthy",
		},
		"a pod of a namespace that is being deleted goes with it": {
			web(asked(1, said(403, metav1.StatusReasonForbidden, "pods \"web-0\" is forbidden",
				metav1.StatusCause{Type: corev1.NamespaceTerminatingCause, Message: "namespace default is being " +
					"terminated"}))),
			drain.Facts{},
			"Wait Waiting: its namespace default is being deleted, and the pod with it",
		},
		"a server short of breath is not a budget": {
			web(asked(1, said(429, metav1.StatusReasonTooManyRequests, "too many requests"))),
			drain.Facts{},
			"Wait Waiting: evicting it: too many requests",
		},
		"a server that does not answer is asked again later": {
			web(asked(1, &metav1.Status{Message: "context deadline exceeded"})),
			drain.Facts{},
			"Wait Waiting: evicting it: context deadline exceeded",
		},
		"a clock that was set back does not put off the next try": {
			web(asked(-7200, refusal(needsTwo))), drain.Facts{}, "Evict Waiting default/web: blocked by " +
				"PodDisruptionBudget default/web: it requires 2 healthy pods, and 2 are healthy",
		},
		"a controller that has just begun knows from the report what a pod waits for": {
			web(drain.Answer{}), drain.Facts{Last: v1alpha1.DrainReport{Pods: []v1alpha1.DrainedPod{{
				Pod: "default/web-0", State: v1alpha1.PodWaiting, Why: "blocked by PodDisruptionBudget default/web",
				Budget: "default/web", Since: new(metav1.NewTime(noon)),
			}}}}, "Evict Waiting default/web: blocked by PodDisruptionBudget default/web",
		},
	})
}

func elsewhere() *policyv1.PodDisruptionBudget {
	b := budget("other", 0)
	b.Namespace = "elsewhere"
	return b
}

// TestDeletePastBudgets: where the pool's policy says so, and only then.
func TestDeletePastBudgets(t *testing.T) {
	after := func(what v1alpha1.DrainAction, age time.Duration) drain.Facts {
		return drain.Facts{Started: noon.Add(-age), Pace: schedule.Drain{WhenBlocked: what, After: 30 * time.Minute}}
	}
	blocked := asked(1, refusal(needsTwo))
	past := asked(1, nil)
	past.Past = true
	refused := drain.ReadDeletion(said(403, metav1.StatusReasonForbidden, "pods \"web-0\" is forbidden"), pod("web-0"),
		noon.Add(-time.Second))
	testVerdicts(t, map[string]podCase{
		"before its time is over nothing is deleted":                          {web(blocked), after(v1alpha1.DrainDelete, 29*time.Minute), "Wait Waiting default/web: blocked by PodDisruptionBudget default/web: it requires 2 healthy pods, and 2 are healthy"},
		"then what is left is deleted, whatever forbids it":                   {web(blocked), after(v1alpha1.DrainDelete, 30*time.Minute), "Delete Waiting default/web: blocked by PodDisruptionBudget default/web: it requires 2 healthy pods, and 2 are healthy"},
		"a pod that was never asked is asked first":                           {web(drain.Answer{}), after(v1alpha1.DrainDelete, time.Hour), "Evict Waiting"},
		"a deleted pod has its grace period, and is told from an evicted one": {web(past), after(v1alpha1.DrainDelete, time.Hour), "Wait Deleted: terminating (grace period 30s)"},
		"a deletion that fails is tried again after a pause":                  {web(refused), after(v1alpha1.DrainDelete, time.Hour), `Wait Waiting: deleting it: pods "web-0" is forbidden`},
		"a pod that ends already is not deleted again":                        {web(blocked, ends(noon.Add(time.Hour), 7200)), after(v1alpha1.DrainDelete, time.Hour), "Wait Evicted: terminating, has until 2026-01-02T13:00:00Z (grace period 2h0m0s)"},
		"a DaemonSet's pod is never deleted":                                  {drain.Pod{Pod: pod("cni", ownedBy("DaemonSet", "cni")), Answer: blocked}, after(v1alpha1.DrainDelete, time.Hour), "Skip Skipped: DaemonSet default/cni would put it back at once"},
		"a policy that waits never deletes":                                   {web(blocked), after(v1alpha1.DrainWait, 24*time.Hour), "Wait Waiting default/web: blocked by PodDisruptionBudget default/web: it requires 2 healthy pods, and 2 are healthy"},
		"a policy that moves on never deletes":                                {web(blocked), after(v1alpha1.DrainMoveOn, 24*time.Hour), "Wait Waiting default/web: blocked by PodDisruptionBudget default/web: it requires 2 healthy pods, and 2 are healthy"},
	})
	p := drain.Decide(drain.Facts{
		Started: noon.Add(-30*time.Minute + 7*time.Second), Pods: []drain.Pod{web(blocked)},
		Pace: schedule.Drain{WhenBlocked: v1alpha1.DrainDelete, After: 30 * time.Minute},
	}, noon)
	if p.Next != 7*time.Second {
		t.Errorf("it looks again after %s, not when the time is over, in 7 s", p.Next)
	}
}

func testVerdicts(t *testing.T, cases map[string]podCase) {
	t.Helper()
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			f := tc.facts
			f.Pods = []drain.Pod{tc.pod}
			if f.Started.IsZero() { // later than the first seconds, in which the controller retries each second
				f.Started = noon.Add(-time.Minute)
			}
			p := drain.Decide(f, noon)
			v := p.Verdicts[0]
			got := strings.Join(strings.Fields(fmt.Sprintf("%s %s %s", v.Do, v.State, v.Budget)), " ")
			if v.Why != "" {
				got += ": " + v.Why
			}
			if got != tc.want {
				t.Errorf("\n got %s\nwant %s", got, tc.want)
			}
			if (v.Do == drain.Skip) != p.Done {
				t.Errorf("%s, and done is %t", v.Do, p.Done)
			}
		})
	}
}
