package histories

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"
	"github.com/bunsen-os/bunsen/reconcile/drain"
)

// drains plays the drain controller around the core, as reconcile does.
type drains struct{ *world }

// drain lets the drain controller look at a node, and do one write.
func (w drains) look(name string, hear int) {
	w.proc.hear(w.world, hear)
	n := w.proc.nodes[name]
	delete(w.proc.due, name)
	if n == nil {
		return
	}
	node, err := drain.ReadNode(n)
	if err != nil {
		return
	}
	switch node.Request.Verb {
	case v1alpha1.DrainVerb:
		w.empty(n, node)
	case v1alpha1.UncordonVerb:
		w.change(n, w.core.Uncordon(node.Cordoned), func(to drain.Cordoned, a map[string]string) {
			wipe(a)
			if done, ok := w.core.Acknowledge(node.Request, to, true); ok {
				a[v1alpha1.LastAppliedDrainAnnotation] = done
			}
		})
	default:
		w.change(n, w.core.Rest(node), func(_ drain.Cordoned, a map[string]string) { wipe(a) })
	}
}

// wipe removes what is written of a drain under way.
func wipe(a map[string]string) {
	delete(a, v1alpha1.DrainStartedAnnotation)
	delete(a, v1alpha1.DrainStatusAnnotation)
	delete(a, v1alpha1.DrainReportAnnotation)
}

// empty closes a node, evicts, and acknowledges in the write that records the progress.
func (w drains) empty(n *corev1.Node, node drain.Node) {
	change := w.core.Cordon(node.Cordoned, node.Request.Config)
	if change.Needed || node.Started.IsZero() {
		w.change(n, change, func(_ drain.Cordoned, a map[string]string) {
			if node.Started.IsZero() {
				a[v1alpha1.DrainStartedAnnotation] = w.now.Format(time.RFC3339)
			}
		})
		w.proc.due[n.Name] = w.elapsed
		return
	}
	f := drain.Facts{
		Config: node.Request.Config, Started: node.Started, Last: node.Last, NotReadySince: node.NotReadySince,
		Pace: w.pace(n), // never Alone: the rules about drained nodes then hold on a cluster of one node, too
	}
	for _, pod := range w.pods.on(n.Name) {
		f.Pods = append(f.Pods, drain.Pod{Pod: pod, Answer: w.proc.answers[string(pod.UID)]})
	}
	progress := w.core.Decide(f, w.now)
	if w.ask(n, progress, f.Pods) {
		for i := range f.Pods {
			f.Pods[i].Answer = w.proc.answers[string(f.Pods[i].Pod.UID)]
		}
		progress = w.core.Decide(f, w.now)
	}
	live := drain.Cordoned{Unschedulable: n.Spec.Unschedulable, For: n.Annotations[v1alpha1.CordonedAnnotation]}
	w.change(n, drain.Change{To: live}, func(to drain.Cordoned, a map[string]string) {
		a[v1alpha1.DrainStatusAnnotation], a[v1alpha1.DrainReportAnnotation] = progress.Status,
			drain.ReportText(progress.Report)
		if done, ok := w.core.Acknowledge(node.Request, to, progress.Done); ok {
			wipe(a)
			a[v1alpha1.LastAppliedDrainAnnotation] = done
		}
	})
	if !progress.Done {
		w.proc.due[n.Name] = w.elapsed + progress.Next
	}
}

// pace is what the policies of the node's pool say about its drain.
func (w drains) pace(n *corev1.Node) schedule.Drain {
	pool := w.proc.pools[w.proc.seen(n.Name).pool]
	if pool == nil || len(w.policies) == 0 {
		return schedule.Drain{}
	}
	return rollouts(w).says(pool, w.proc.said[pool.Name].size).Care.Pace.Drain
}

// ask evicts and deletes what is due, and tells whether any answer is new.
func (w drains) ask(n *corev1.Node, p drain.Progress, pods []drain.Pod) bool {
	deleting := map[string]bool{}
	for _, v := range p.Verdicts {
		deleting[v.UID] = v.Do == drain.Delete
	}
	queues := drain.Queues(p.Verdicts, pods)
	for _, queue := range queues {
		for i, pod := range queue {
			uid := string(pod.Pod.UID)
			if deleting[uid] {
				if w.pace(n).WhenBlocked != v1alpha1.DrainDelete {
					w.breaks(PodBudget, "pod %s of %s is deleted", pod.Pod.Name, n.Name)
				}
				w.pods.remove(w.world, uid)
				w.proc.answers[uid] = drain.ReadDeletion(nil, pod.Pod, w.now).Following(pod.Answer)
				continue
			}
			answer := w.evict(pod.Pod).Following(pod.Answer)
			w.proc.answers[uid] = answer
			if answer.Kind == drain.Refused {
				for _, other := range queue[i+1:] {
					w.proc.answers[string(other.Pod.UID)] = answer.Shared(other.Answer)
				}
				break
			}
		}
	}
	return len(queues) > 0
}

// evict asks the server, which answers as kube-apiserver does.
func (w drains) evict(pod *corev1.Pod) drain.Answer {
	if w.pods.evict(w.world, string(pod.UID)) {
		return drain.ReadAnswer(nil, pod, drain.Protection{}, w.now)
	}
	return drain.ReadAnswer(&metav1.Status{
		Reason: metav1.StatusReasonTooManyRequests, Message: "Cannot evict pod as it would violate the pod's " +
			"disruption budget.",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{
			Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget " + pod.Labels["app"] +
				" needs 2 healthy pods and has 2 currently",
		}}},
	}, pod, drain.Protection{}, w.now)
}

// change writes cordon and annotations of a node together, on the node as it was read.
func (w drains) change(read *corev1.Node, c drain.Change, annotate func(drain.Cordoned, map[string]string)) {
	was := w.api.nodes[read.Name]
	changed, err := w.api.patchNode(read, func(n *corev1.Node) {
		c.To.Set(n)
		annotate(c.To, n.Annotations)
	})
	if err != nil {
		w.proc.due[read.Name] = w.elapsed // again soon
		return
	}
	if !changed {
		return
	}
	watcher(w).checkDoor(was, w.api.nodes[read.Name])
}

// checkDoor checks what the drain controller wrote, and tells of it.
func (w watcher) checkDoor(was, is *corev1.Node) {
	name := is.Name
	switch {
	case was.Spec.Unschedulable && !is.Spec.Unschedulable:
		w.tell("the controller opens %s", name)
		if w.ledger.cordons[name] {
			w.breaks(AdminCordon, "%s was cordoned by an administrator, and the controller opens it", name)
		}
	case !was.Spec.Unschedulable && is.Spec.Unschedulable:
		w.tell("the controller closes %s for %s", name, is.Annotations[v1alpha1.CordonedAnnotation])
		delete(w.ledger.opened, name)
	}
	applied := is.Annotations[v1alpha1.LastAppliedDrainAnnotation]
	if applied == was.Annotations[v1alpha1.LastAppliedDrainAnnotation] {
		w.tale.stirs++
		return
	}
	w.tell("the controller acknowledges %s on %s", applied, name)
	if !strings.HasPrefix(applied, v1alpha1.DrainVerb+"-") {
		return
	}
	// nobody confirms the end of a pod on a node that is not heard
	left := slices.DeleteFunc(w.pods.on(name), func(p *corev1.Pod) bool {
		return p.DeletionTimestamp != nil && was.Status.Conditions[0].Status != corev1.ConditionTrue
	})
	if !is.Spec.Unschedulable || len(left) > 0 {
		w.breaks(DrainedNode, "%s is said to be drained: closed %t, %d pods left", name, is.Spec.Unschedulable,
			len(left))
	}
}
