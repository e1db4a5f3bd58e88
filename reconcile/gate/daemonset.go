package gate

import (
	"fmt"
	"time"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	"github.com/go-logr/logr"

	appsv1 "k8s.io/api/apps/v1"

	corev1 "k8s.io/api/core/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

const (
	// for which a node has to be Ready before the status of its pods counts. It may be older than the node's restart,
	// unless the pods themselves prove that it is newer.
	settled = 2 * time.Minute
	// a pod may become ready so much earlier than its node, because those of the node's network have to be first; no
	// machine restarts in less time
	ahead = 10 * time.Second
)

// Pod is a pod of a DaemonSet.
type Pod struct {
	// the pod's namespace and name, and why it is not ready, or empty
	name, trouble string
	// when the kubelet last accepted the pod or found it ready
	since time.Time
}

// PodsByNode returns the pods that a DaemonSet controls, by node.
func PodsByNode(ds *appsv1.DaemonSet, pods []corev1.Pod) map[string][]Pod {
	out := make(map[string][]Pod, len(pods))
	for i := range pods {
		p := &pods[i]
		if owner := metav1.GetControllerOfNoCopy(p); owner == nil || owner.UID != ds.UID || p.DeletionTimestamp != nil {
			continue
		}
		out[p.Spec.NodeName] = append(out[p.Spec.NodeName], Pod{p.Namespace + "/" + p.Name, notReady(p), lastReport(p)})
	}
	return out
}

// NeedsPods reports whether the pods decide if a DaemonSet is ready on a node. They do not if it requires none there,
// or if all of its pods are ready and the node has been Ready for a long time.
func NeedsPods(ds *appsv1.DaemonSet, n *corev1.Node, now time.Time) bool {
	allReady := ds.Status.ObservedGeneration == ds.Generation &&
		ds.Status.NumberReady == ds.Status.DesiredNumberScheduled
	return !(allReady && readyFor(n, now) >= settled) && wantsPod(ds, n)
}

// DaemonSet returns why the pod of a DaemonSet is not ready on a node, of which pods has those of the DaemonSet; empty
// if it is.
func DaemonSet(ds *appsv1.DaemonSet, pods []Pod, n *corev1.Node, now time.Time) string {
	why := fmt.Sprintf("DaemonSet %s/%s has no pod on the node yet", ds.Namespace, ds.Name)
	for _, p := range pods {
		switch {
		case p.trouble != "":
			why = fmt.Sprintf("pod %s is not ready: %s", p.name, p.trouble)
		case readyFor(n, now) < settled && p.since.Before(readySince(n).Add(-ahead)):
			why = fmt.Sprintf("pod %s was ready before the node went away, and has not said so since", p.name)
		default:
			return ""
		}
	}
	return why
}

// lastReport returns when a kubelet last accepted a pod, or found it ready.
func lastReport(p *corev1.Pod) time.Time {
	var last time.Time
	if p.Status.StartTime != nil {
		last = p.Status.StartTime.Time
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.LastTransitionTime.After(last) {
			last = c.LastTransitionTime.Time
		}
	}
	return last
}

// readyFor is 0 if the node is not Ready.
func readyFor(n *corev1.Node, now time.Time) time.Duration {
	if since := readySince(n); !since.IsZero() {
		return now.Sub(since)
	}
	return 0
}

// readySince is zero if the node is not Ready, or if the time is unknown.
func readySince(n *corev1.Node) time.Time {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// daemonTolerations: the DaemonSet controller adds these to each pod.
var daemonTolerations = []corev1.Toleration{
	{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeDiskPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodePIDPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
}

// wantsPod has the rules of the DaemonSet controller.
func wantsPod(ds *appsv1.DaemonSet, n *corev1.Node) bool {
	spec := &ds.Spec.Template.Spec
	if spec.NodeName != "" && spec.NodeName != n.Name {
		return false
	}
	if matches, err := nodeaffinity.NewRequiredNodeAffinity(spec.NodeSelector, spec.Affinity).Match(n); err != nil ||
		!matches {
		return false // For an invalid affinity, the DaemonSet controller creates no pod either.
	}
	tolerations := append(daemonTolerations[:len(daemonTolerations):len(daemonTolerations)], spec.Tolerations...)
	if spec.HostNetwork {
		tolerations = append(tolerations, corev1.Toleration{
			Key:      corev1.TaintNodeNetworkUnavailable,
			Operator: corev1.TolerationOpExists,
		})
	}
	repels := func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }
	_, repelled := schedulingv1.FindMatchingUntoleratedTaint(logr.Discard(), n.Spec.Taints, tolerations, repels, false)
	return !repelled
}

// notReady returns the most specific reason; empty if the pod is ready.
func notReady(p *corev1.Pod) string {
	conditions := map[corev1.PodConditionType]corev1.PodCondition{}
	for _, c := range p.Status.Conditions {
		conditions[c.Type] = c
	}
	if conditions[corev1.PodReady].Status == corev1.ConditionTrue {
		return ""
	}
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, c := range list {
			switch {
			case c.State.Waiting != nil && c.State.Waiting.Reason != "" && c.State.Waiting.Reason != "PodInitializing":
				return poolstate.ShortLine("container " + c.Name + ": " + c.State.Waiting.Reason +
					prefixed(": ", c.State.Waiting.Message))
			case c.State.Terminated != nil && c.State.Terminated.ExitCode != 0:
				return fmt.Sprintf("container %s ended with code %d", c.Name, c.State.Terminated.ExitCode)
			}
		}
	}
	if c := conditions[corev1.PodScheduled]; c.Status == corev1.ConditionFalse {
		return poolstate.ShortLine(c.Reason + prefixed(": ", c.Message))
	}
	for _, c := range p.Status.ContainerStatuses {
		if !c.Ready {
			return "container " + c.Name + " is not ready yet"
		}
	}
	return poolstate.ShortLine(string(p.Status.Phase) + prefixed(": ", p.Status.Message))
}
