package drain

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pod is a pod on the node and all that is known of its way out.
type Pod struct {
	// Pod as read last.
	Pod *corev1.Pod
	// Filter is what k8s.io/kubectl/pkg/drain's filters said about it.
	Filter Filter
	// Answer is the server's answer to the last eviction; the zero value before the first.
	Answer Answer
}

// Filter is the result of kubectl's pod filters, PodDeleteStatus without its package.
type Filter struct {
	// Delete tells that the pod is to go.
	Delete bool
	// Message is the filters' text, such as why the pod stays.
	Message string
	// Fatal tells that the filters refuse the whole drain because of this pod.
	Fatal bool
}

// Action is what to do with a pod now.
type Action string

// Values of Action.
const (
	// Evict: ask the server to evict the pod.
	Evict Action = "Evict"
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
	// Why is the reason in words; empty for a first eviction. On a later one it says what refused the one before.
	Why string
}

// overdue is how long after the end of its grace period a pod that is still there is called overdue.
const overdue = 30 * time.Second

// judge says what to do with a pod. retry is how long after a refusal to ask again.
func judge(p Pod, retry time.Duration, now time.Time) Verdict {
	v := Verdict{Pod: p.Pod.Namespace + "/" + p.Pod.Name, UID: string(p.Pod.UID)}
	switch {
	case p.Answer.Kind == Gone:
		v.Do, v.Why = Skip, "gone"
	case p.Filter.Fatal:
		v.Do, v.Why = Wait, "kept back: "+p.Filter.Message
	case !p.Filter.Delete:
		v.Do, v.Why = Skip, stays(p)
	case p.Pod.DeletionTimestamp != nil:
		v.Do, v.Why = Wait, terminating(p.Pod, now)
	case p.Answer.Kind == Unasked:
		v.Do = Evict
	case p.Answer.Kind == Accepted:
		v.Do, v.Why = Wait, "evicted, about to terminate"
		if now.Sub(p.Answer.At) >= overdue { // the answer is older than any cache: ask again
			v.Do, v.Why = Evict, "evicted before, and still not terminating"
		}
	default:
		v.Do, v.Why = Wait, p.Answer.why(p.Pod.Namespace)
		if now.Sub(p.Answer.At) >= retry {
			v.Do = Evict
		}
	}
	return v
}

// stays says why a pod that the filters spare may stay.
func stays(p Pod) string {
	if _, mirror := p.Pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return "static pod, run by the node itself"
	}
	if owner := metav1.GetControllerOf(p.Pod); owner != nil && owner.Kind == "DaemonSet" {
		return fmt.Sprintf("DaemonSet %s/%s would put it back at once", p.Pod.Namespace, owner.Name)
	}
	if p.Filter.Message != "" {
		return strings.TrimSpace(p.Filter.Message)
	}
	return "spared by the drain's filters"
}

// terminating says how a pod is ending. It names moments, not durations, so that the text changes only when the matter does.
func terminating(p *corev1.Pod, now time.Time) string {
	end := p.DeletionTimestamp.Time // the API sets it to when the grace period ends
	grace := time.Duration(0)
	if p.DeletionGracePeriodSeconds != nil {
		grace = time.Duration(*p.DeletionGracePeriodSeconds) * time.Second
	}
	at := end.UTC().Format("15:04:05Z")
	switch {
	case now.Before(end.Add(overdue)):
		return fmt.Sprintf("terminating, has until %s (grace period %s)", at, grace)
	case len(p.Finalizers) > 0:
		return fmt.Sprintf("should have ended at %s, but waits for its finalizer %s", at, strings.Join(p.Finalizers, ", "))
	}
	return fmt.Sprintf("should have ended at %s (grace period %s); the node's kubelet has not confirmed it", at, grace)
}
