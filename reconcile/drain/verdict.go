package drain

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Pod is a pod on the node and all that is known of its way out.
type Pod struct {
	// Pod as read last.
	Pod *corev1.Pod
	// Orphan: the DaemonSet that owns it does not exist any more.
	Orphan bool
	// Answer is the server's answer to the last eviction; the zero value before the first.
	Answer Answer
}

// Action is what to do with a pod now.
type Action string

// Values of Action.
const (
	// Evict: ask the server to evict the pod.
	Evict Action = "Evict"
	// Delete: delete the pod, past its disruption budgets.
	Delete Action = "Delete"
	// Skip: the pod may stay, or is gone.
	Skip Action = "Skip"
	// Wait: the pod has to go, and there is nothing to do about it now.
	Wait Action = "Wait"
)

// Verdict is what to do with one pod, and why.
type Verdict struct {
	// Pod is `namespace/name`; UID tells it from a later pod of that name.
	Pod, UID string
	// Do is what to do now.
	Do Action
	// State is where the pod is on its way out, for the report; empty for one that is gone.
	State v1alpha1.DrainedPodState
	// Why is the reason in words; empty for a first eviction. On a later one it says what refused the one before.
	Why string
	// Budget is namespace/name of the disruption budget in the way; of several the first.
	Budget string
	// Never: that budget allows no eviction at all.
	Never bool
	// Since is since when it is so; zero where that does not matter.
	Since time.Time
}

const (
	// overdue is how long after the end of its grace period a pod that is still there is called overdue.
	overdue = 30 * time.Second
	// longGrace is a grace period whose end is worth telling beforehand.
	longGrace = time.Minute
	// defaultGrace is the grace period of a pod that sets none.
	defaultGrace = 30 * time.Second
)

// judge says what to do with a pod. retry is how long after an answer to ask again; force: budgets have been waited for
// long enough.
func (f Facts) judge(p Pod, retry time.Duration, force bool, now time.Time) Verdict {
	v := Verdict{Pod: p.Pod.Namespace + "/" + p.Pod.Name, UID: string(p.Pod.UID), State: v1alpha1.PodWaiting}
	stay := stays(p)
	asked := p.Answer.At
	switch {
	case p.Answer.Kind == Gone:
		v.Do, v.State, v.Why = Skip, "", "gone"
	case stay != "":
		v.Do, v.State, v.Why = Skip, v1alpha1.PodSkipped, stay
	case p.Pod.DeletionTimestamp != nil:
		f.ending(&v, p.Pod, now)
	case p.Answer.Kind == Accepted && p.Answer.age(now) < overdue:
		v.Do, v.State, v.Since = Wait, v1alpha1.PodEvicted, asked
		v.Why = inGrace(graceOf(p.Pod), asked) + loses(p.Pod, f.Alone)
	case force && p.Answer.Kind != Unasked: // every pod is asked for kindly once
		v.Do, v.Why = Delete, p.Answer.Why
		if p.Answer.Past && p.Answer.age(now) < retry {
			v.Do = Wait
		}
	case p.Answer.Kind == Unasked:
		v.Do = Evict
	case p.Answer.Kind == Accepted: // the answer is older than any cache: ask again
		v.Do, v.Why, v.Since = Evict, "evicted before, and still not terminating", asked
	default:
		v.Do, v.Why = Wait, p.Answer.Why
		if p.Answer.age(now) >= retry {
			v.Do = Evict
		}
	}
	if v.Do != Skip && v.Since.IsZero() {
		v.Since = p.Answer.Since
	}
	if v.State == v1alpha1.PodEvicted && p.Answer.Past {
		v.State = v1alpha1.PodDeleted
	}
	if v.State == v1alpha1.PodWaiting && len(p.Answer.Budgets) > 0 {
		v.Budget, v.Never = p.Answer.Budgets[0], p.Answer.Never
	}
	return v
}

// ending is the verdict on a pod that terminates. Its words name moments, not durations, so that they change only when the
// matter does.
func (f Facts) ending(v *Verdict, pod *corev1.Pod, now time.Time) {
	end, grace := pod.DeletionTimestamp.Time, graceOf(pod) // the API sets it to when the grace period ends
	v.Do, v.State, v.Since = Wait, v1alpha1.PodEvicted, end.Add(-grace)
	lost, counts := f.lostAt(pod)
	switch {
	case counts && !now.Before(lost):
		v.Do, v.State, v.Since = Skip, v1alpha1.PodSkipped, time.Time{}
		v.Why = fmt.Sprintf("counts as gone: the node is not Ready since %s, longer than the pod's grace period of %s, so that nobody will report its end",
			moment(f.NotReadySince), grace)
	case now.Before(end.Add(overdue)):
		v.Why = inGrace(grace, end.Add(-grace)) + loses(pod, f.Alone)
	case len(pod.Finalizers) > 0:
		v.Why = fmt.Sprintf("should have ended at %s, but waits for its finalizer %s", moment(end), strings.Join(pod.Finalizers, ", "))
	case counts:
		v.Why = fmt.Sprintf("should have ended at %s; the node is not Ready since %s, and the pod counts as gone at %s", moment(end), moment(f.NotReadySince), moment(lost))
	default:
		v.Why = fmt.Sprintf("should have ended at %s (grace period %s); the node's kubelet has not confirmed it", moment(end), grace)
	}
}

// lostAt is when a terminating pod counts as gone because its kubelet cannot be heard: it has had its grace period, and
// the node has been not Ready for longer than that. False on a node that is Ready.
func (f Facts) lostAt(pod *corev1.Pod) (time.Time, bool) {
	if f.NotReadySince.IsZero() {
		return time.Time{}, false
	}
	at := f.NotReadySince.Add(graceOf(pod))
	if end := pod.DeletionTimestamp.Time; end.After(at) {
		at = end
	}
	return at.Add(overdue), true
}

// inGrace says how long a pod that ends may take. Only a long time is told by its end: the eviction is answered before
// the API's own figure is known, which is a second off, and every other text is another write.
func inGrace(grace time.Duration, from time.Time) string {
	if grace <= longGrace {
		return fmt.Sprintf("terminating (grace period %s)", grace)
	}
	return fmt.Sprintf("terminating, has until %s (grace period %s)", moment(from.Add(grace)), grace)
}

// graceOf is the grace period that a pod ends with, or would.
func graceOf(pod *corev1.Pod) time.Duration {
	switch {
	case pod.DeletionGracePeriodSeconds != nil:
		return time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		return time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
	}
	return defaultGrace
}

// moment is a time as texts have it.
func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }
