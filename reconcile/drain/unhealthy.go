package drain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// firstUnhealthy returns the pod that a user has to look at, of the pods of a budget: one without a node first, then
// one whose container waits. It returns nil if all pods are healthy. Like a budget, it does not count pods that
// terminate, because other pods replace them.
func firstUnhealthy(pods []corev1.Pod) *v1alpha1.UnhealthyPod {
	var found []v1alpha1.UnhealthyPod
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp == nil && !hasEnded(p) && !isReady(p) {
			found = append(found, unhealthy(p))
		}
	}
	if len(found) == 0 {
		return nil
	}
	rank := func(u v1alpha1.UnhealthyPod) int {
		switch {
		case u.Pending:
			return 0
		case u.Reason != reasonNotReady:
			return 1
		}
		return 2
	}
	first := slices.MinFunc(found, func(a, b v1alpha1.UnhealthyPod) int {
		if by := rank(a) - rank(b); by != 0 {
			return by
		}
		return strings.Compare(a.Pod, b.Pod)
	})
	first.More = len(found) - 1
	return &first
}

// reasonNotReady is the kubelet's reason for a pod that is not Ready because one of its containers is not.
const reasonNotReady = "ContainersNotReady"

// unhealthy describes a pod that is not Ready by the words of the scheduler or of the kubelet.
func unhealthy(p *corev1.Pod) v1alpha1.UnhealthyPod {
	u := v1alpha1.UnhealthyPod{Pod: p.Namespace + "/" + p.Name, Pending: p.Spec.NodeName == ""}
	say := func(reason, message string) v1alpha1.UnhealthyPod {
		u.Reason, u.Message = oneLine(reason, mostReason), oneLine(strings.TrimSuffix(message, "."), mostText)
		return u
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue {
			return say(c.Reason, c.Message)
		}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "PodInitializing" {
			return say(w.Reason, w.Message)
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return say(c.Reason, c.Message)
		}
	}
	return u
}

// mostReason limits a reason, which is one word.
const mostReason = 60

// oneLine makes a text of another program safe to show, on one line.
func oneLine(text string, most int) string {
	return safetext.Short(strings.Join(strings.Fields(text), " "), most)
}

// PodText returns a text that says why a drain waits for a pod, with the pod that its budget waits for.
func PodText(p v1alpha1.DrainedPod) string {
	return withUnhealthy(p.Why, p.Unhealthy)
}

// withUnhealthy adds a pod that is not healthy to the reason why a budget forbids an eviction.
func withUnhealthy(why string, u *v1alpha1.UnhealthyPod) string {
	if u == nil {
		return why
	}
	text := why + "; pod " + u.Pod + " is not Ready"
	if u.Pending {
		text = why + "; pod " + u.Pod + " is Pending"
	}
	words := []string{u.Reason, u.Message}
	if u.Pending && u.Message != "" { // The sentence of the scheduler says it all.
		words = words[1:]
	}
	for _, word := range words {
		if word != "" {
			text += ": " + word
		}
	}
	if u.More > 0 {
		text += fmt.Sprintf(" (and %d more of its pods)", u.More)
	}
	return text
}
