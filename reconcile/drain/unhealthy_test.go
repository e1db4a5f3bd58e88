package drain_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/drain"
)

// least is a budget that requires a number of pods, so that its expected pods include those that terminate.
func least(desired, healthy, expected int32) *policyv1.PodDisruptionBudget {
	b := budget("web", 0)
	b.Spec.MinAvailable = new(intstr.FromInt32(desired))
	b.Status.DesiredHealthy, b.Status.CurrentHealthy, b.Status.ExpectedPods = desired, healthy, expected
	return b
}

func onNode(p *corev1.Pod) { p.Spec.NodeName = "n1" }

func ready(p *corev1.Pod) {
	onNode(p)
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}

func condition(of corev1.PodConditionType, reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: of, Status: corev1.ConditionFalse, Reason: reason, Message: message,
		})
	}
}

func waiting(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		onNode(p)
		condition(corev1.PodReady, "ContainersNotReady", "containers with unready status: [one]")(p)
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
		}}}
	}
}

// TestTheLastCause says which pod a budget waits for, in the words of whoever keeps that pod from being healthy.
func TestTheLastCause(t *testing.T) {
	const held = "blocked by PodDisruptionBudget default/web: "
	ending := ends(noon.Add(30*1e9), 30)
	lost := condition(corev1.PodScheduled, "Unschedulable", "0/3 nodes are available:\n\t3 node(s) didn't match")
	for sentence, tc := range map[string]struct {
		budget *policyv1.PodDisruptionBudget
		pods   []*corev1.Pod
		want   string
	}{
		"a replacement without a node has the scheduler's sentence, on one line": {
			least(1, 1, 2),
			[]*corev1.Pod{pod("a", ready), pod("b", lost)},
			held + "1 of 2 pods must stay healthy, and 1 is healthy; pod default/b is Pending: 0/3 nodes are " +
				"available: 3 node(s) didn't match",
		},
		"a pod that was evicted already is not counted": {
			least(1, 1, 3),
			[]*corev1.Pod{pod("a", ready), pod("b", lost), pod("c", ready, ending)},
			held + "1 pod must stay healthy, and 1 is healthy; pod default/b is Pending: 0/3 nodes are " +
				"available: 3 node(s) didn't match",
		},
		"nor one that has ended": {
			least(1, 1, 3),
			[]*corev1.Pod{pod("a", ready), pod("b", ready), pod("c", func(p *corev1.Pod) {
				p.Status.Phase = corev1.PodFailed
			})},
			held + "1 of 2 pods must stay healthy, and 1 is healthy",
		},
		"a share of the pods is of those that the owner wants": {
			budget("web", 0),
			[]*corev1.Pod{pod("a", ready), pod("b", ready)},
			held + "2 of 3 pods must stay healthy, and 2 are healthy",
		},
		"a pod that the scheduler has not seen is Pending": {
			least(1, 1, 2),
			[]*corev1.Pod{pod("a", ready), pod("b")},
			held + "1 of 2 pods must stay healthy, and 1 is healthy; pod default/b is Pending",
		},
		"an image that cannot be pulled is told by the kubelet": {
			least(1, 1, 2),
			[]*corev1.Pod{pod("a", ready), pod("b", waiting("ImagePullBackOff", "Back-off pulling x"))},
			held + "1 of 2 pods must stay healthy, and 1 is healthy; pod default/b is not Ready: ImagePullBackOff: " +
				"Back-off pulling x",
		},
		"a probe that fails has the reason of the condition": {
			least(1, 1, 2),
			[]*corev1.Pod{pod("a", ready), pod("b", onNode, condition(corev1.PodReady,
				"ContainersNotReady", "containers with unready status: [one]"))},
			held + "1 of 2 pods must stay healthy, and 1 is healthy; pod default/b is not Ready: " +
				"ContainersNotReady: containers with unready status: [one]",
		},
		"the pod that most needs a user comes first, and the others are counted": {
			least(2, 1, 4),
			[]*corev1.Pod{
				pod("a", onNode, condition(corev1.PodReady, "ContainersNotReady", "")), pod("b", waiting("Why", "")),
				pod("c", lost), pod("d", ready),
			},
			held + "2 of 4 pods must stay healthy, and 1 is healthy; pod default/c is Pending: 0/3 nodes are " +
				"available: 3 node(s) didn't match (and 2 more of its pods)",
		},
		"a budget that allows nothing has to be changed, whatever its pods do": {
			least(2, 2, 2),
			[]*corev1.Pod{pod("a", ready), pod("b", lost)},
			"PodDisruptionBudget default/web allows no evictions: all 2 pods must stay healthy",
		},
		"a text that hides something is shown with codes": {
			least(1, 1, 2),
			[]*corev1.Pod{pod("a", ready), pod("b", waiting("Odd\x1b[2J", "a\u202eb"))},
			held + `1 of 2 pods must stay healthy, and 1 is healthy; pod default/b is not Ready: Odd\x1b[2J: a\u202eb`,
		},
		"a long text is cut": {
			least(1, 1, 2),
			[]*corev1.Pod{pod("a", ready), pod("b", waiting("Why", strings.Repeat("x", 5000)))},
			held + "1 of 2 pods must stay healthy, and 1 is healthy; pod default/b is not Ready: Why: " +
				strings.Repeat("x", 199) + "…",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := refusal(fmt.Sprintf("The disruption budget web needs %d healthy pods and has %d currently",
				tc.budget.Status.DesiredHealthy, tc.budget.Status.CurrentHealthy))
			by := drain.Protection{Budgets: []*policyv1.PodDisruptionBudget{tc.budget}}
			if got := drain.Refusing(s, pod("web-0"), by.Budgets); got != tc.budget {
				t.Fatalf("refused by %v", got)
			}
			for _, p := range tc.pods {
				by.Pods = append(by.Pods, *p)
			}
			p := drain.Pod{Pod: pod("web-0", ready), Answer: drain.ReadAnswer(s, pod("web-0"), by, noon)}
			report := drain.Decide(drain.Facts{Started: noon, Pods: []drain.Pod{p}}, noon).Report
			if got := drain.PodText(report.Pods[0]); got != tc.want {
				t.Errorf("\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestAnEventForEachCause: an event follows when a budget forbids an eviction, and when nothing but a user can help the
// pod that it waits for; a pod that only starts is none.
func TestAnEventForEachCause(t *testing.T) {
	blocked := func(last v1alpha1.DrainReport, pods ...*corev1.Pod) drain.Progress {
		by := drain.Protection{Budgets: []*policyv1.PodDisruptionBudget{least(1, 1, 2)}}
		for _, p := range pods {
			by.Pods = append(by.Pods, *p)
		}
		p := drain.Pod{Pod: pod("web-0", ready), Answer: drain.ReadAnswer(refusal(needsTwo), pod("web-0"), by, noon)}
		return drain.Decide(drain.Facts{Started: noon, Pods: []drain.Pod{p}, Last: last}, noon)
	}
	first := blocked(v1alpha1.DrainReport{}, pod("a", ready))
	starts := blocked(first.Report, pod("b", waiting("ContainerCreating", "")))
	unseen := blocked(starts.Report, pod("b"))
	lost := blocked(unseen.Report, pod("b", condition(corev1.PodScheduled, "Unschedulable", "no node")))
	again := blocked(lost.Report, pod("b", condition(corev1.PodScheduled, "Unschedulable", "still no node")))
	runs := blocked(again.Report, pod("b", ready))
	for name, tc := range map[string]struct {
		got  drain.Progress
		want bool
	}{
		"the first refusal": {first, true}, "a pod that starts": {starts, false}, "a pod unseen": {unseen, false},
		"a pod without a node": {lost, true}, "the same in other words": {again, false}, "a healthy pod": {runs, false},
	} {
		if (tc.got.Blocked != "") != tc.want {
			t.Errorf("%s: event %q", name, tc.got.Blocked)
		}
	}
	if !strings.HasSuffix(lost.Blocked, "; pod default/b is Pending: no node") {
		t.Errorf("it says %s", lost.Blocked)
	}
}

// TestPodsOfTheOnlyNode: a drain that evicts no pod says so once, with the budgets that would have refused.
func TestPodsOfTheOnlyNode(t *testing.T) {
	roomy := budget("roomy", 2)
	other := budget("other", 0)
	other.Spec.Selector.MatchLabels["app"] = "other"
	f := drain.Facts{
		Config: "v1", Started: noon, Alone: true,
		Budgets: []*policyv1.PodDisruptionBudget{roomy, budget("web", 1), other, elsewhere()},
		Pods: []drain.Pod{
			{Pod: pod("web-0", ready)}, {Pod: pod("web-1", ready)}, {Pod: pod("cni", ownedBy("DaemonSet", "cni"))},
		},
	}
	first := drain.Decide(f, noon)
	const want = "2 pods are not evicted, because no other node can run them; they end if the node reboots, although " +
		"PodDisruptionBudgets forbid it: default/web"
	if got := first.Left.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !first.Done || !first.Report.Alone {
		t.Errorf("done %t, report %+v", first.Done, first.Report)
	}
	f.Last = first.Report
	if got := drain.Decide(f, noon).Left.String(); got != "" {
		t.Errorf("the next round says %s", got)
	}
	f.Last, f.Alone = v1alpha1.DrainReport{}, false
	if got := drain.Decide(f, noon).Left.String(); got != "" {
		t.Errorf("with another node it says %s", got)
	}
}
