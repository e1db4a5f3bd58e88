package drain

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DaemonSetOf returns the name of the DaemonSet that owns a pod; empty if no DaemonSet does. The caller checks whether
// this DaemonSet still exists.
func DaemonSetOf(pod *corev1.Pod) string {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "DaemonSet" || owner.APIVersion != appsv1.SchemeGroupVersion.String() {
		return ""
	}
	return owner.Name
}

// stays returns why a pod may stay on a drained node; if it is empty, the pod has to leave. The rules are kubectl's
// with --force, --ignore-daemonsets and --delete-emptydir-data, except that finished pods stay. A test compares these
// rules with kubectl's.
func stays(p Pod) string {
	if isStatic(p.Pod) {
		return "static pod, run by the node itself"
	}
	if set := DaemonSetOf(p.Pod); set != "" && !p.Orphan {
		return fmt.Sprintf("DaemonSet %s/%s would put it back at once", p.Pod.Namespace, set)
	}
	if hasEnded(p.Pod) && p.Pod.DeletionTimestamp == nil {
		return fmt.Sprintf("finished (%s): nothing of it runs", p.Pod.Status.Phase)
	}
	if hasEnded(p.Pod) && len(p.Pod.Finalizers) > 0 {
		return fmt.Sprintf("finished (%s): only its finalizer %s keeps the object", p.Pod.Status.Phase,
			strings.Join(p.Pod.Finalizers, ", "))
	}
	return ""
}

func isStatic(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror
}

// hasEnded reports whether no container of a pod runs or will run again.
func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// isReady reports whether a disruption budget counts the pod as healthy.
func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// loses describes the data that is lost when a pod leaves its node, as a text to append; empty if no data is lost.
func loses(pod *corev1.Pod, alone bool) string {
	text := ""
	switch {
	case metav1.GetControllerOf(pod) == nil:
		text = "; no controller puts it back"
	case alone:
		text = "; there is no other node: Pending until this one is back"
	}
	for _, v := range pod.Spec.Volumes {
		if v.EmptyDir != nil {
			return text + "; what it kept in emptyDir is lost"
		}
	}
	return text
}
