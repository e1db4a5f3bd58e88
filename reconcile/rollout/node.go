package rollout

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Node is what a rollout needs to know of a corev1.Node; ReadNode makes it. The zero value is a Ready node from which
// no daemon has reported yet.
type Node struct {
	// Name of the node.
	Name string
	// Labels of the node; shared with the object that it was read from, so not to be written.
	Labels map[string]string
	// Zone is the node's topology zone, empty if it has none.
	Zone string
	// Created is when the node's object was made.
	Created time.Time
	// Config says what the node runs and what it was told to run.
	Config Configs
	// State is the daemon's word, one of v1alpha1.State*; empty before its first report.
	State string
	// Reason is the daemon's text for a state of Degraded or Unreconcilable.
	Reason string
	// Health is the kubelet's side.
	Health Health
	// Cordon says whether pods may be scheduled there, and who forbade it.
	Cordon Cordon
	// Step says where in an update the node is.
	Step Step
	// Tainted tells that the node has the UpdateInProgress taint.
	Tainted bool
}

// Configs are a node's names of rendered configs and, on layered nodes, of images.
type Configs struct {
	// Current is in force; Desired should be. Empty: not reported, not told.
	Current, Desired string
	// CurrentImage and DesiredImage exist on layered nodes only.
	CurrentImage, DesiredImage string
}

// Health is the kubelet's report on itself.
type Health struct {
	// Trouble says in words what is wrong, such as "not Ready (KubeletNotReady)"; empty if nothing is.
	Trouble string
	// Since is when the trouble began; zero if that is not known.
	Since time.Time
}

// Cordon is whether pods may be scheduled on a node.
type Cordon struct {
	// Unschedulable is true on a cordoned node.
	Unschedulable bool
	// For is the rendered config that Bunsen cordoned the node for; empty if Bunsen did not.
	For string
}

// ByAdministrator tells that the node is cordoned and that Bunsen did not do it.
func (c Cordon) ByAdministrator() bool { return c.Unschedulable && c.For == "" }

// Step is where in an update a node is, between being told and being done.
type Step struct {
	// Draining and Uncordoning: asked for and not done yet.
	Draining, Uncordoning bool
	// DrainStarted is when the drain under way began; zero if that is not known.
	DrainStarted time.Time
	// DrainStatus is one line on what the drain waits for.
	DrainStatus string
	// Rebooting: the daemon has asked for a reboot.
	Rebooting bool
}

// ReadNode reads what a rollout needs. It never fails: an annotation that says nothing sensible counts as absent.
func ReadNode(n *corev1.Node) Node {
	a := n.Annotations
	return Node{
		Name:    n.Name,
		Labels:  n.Labels,
		Zone:    n.Labels[corev1.LabelTopologyZone],
		Created: n.CreationTimestamp.Time,
		Config: Configs{
			Current:      a[v1alpha1.CurrentConfigAnnotation],
			Desired:      a[v1alpha1.DesiredConfigAnnotation],
			CurrentImage: a[v1alpha1.CurrentImageAnnotation],
			DesiredImage: a[v1alpha1.DesiredImageAnnotation],
		},
		State:   a[v1alpha1.StateAnnotation],
		Reason:  a[v1alpha1.ReasonAnnotation],
		Health:  readHealth(n.Status.Conditions),
		Cordon:  Cordon{Unschedulable: n.Spec.Unschedulable, For: a[v1alpha1.CordonedAnnotation]},
		Step:    readStep(a),
		Tainted: tainted(n.Spec.Taints),
	}
}

// readHealth finds the first condition that speaks against the node. A condition that is absent speaks for it.
func readHealth(conditions []corev1.NodeCondition) Health {
	for _, c := range conditions {
		var trouble string
		switch {
		case c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown:
			trouble = "not Ready (its kubelet has stopped reporting)"
		case c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue:
			trouble = "not Ready"
		case c.Type == corev1.NodeDiskPressure && c.Status != corev1.ConditionFalse:
			trouble = "short of disk space"
		case c.Type == corev1.NodeNetworkUnavailable && c.Status != corev1.ConditionFalse:
			trouble = "without a network"
		default:
			continue
		}
		if c.Reason != "" && c.Status != corev1.ConditionUnknown {
			trouble += " (" + c.Reason + ")"
		}
		return Health{Trouble: trouble, Since: c.LastTransitionTime.Time}
	}
	return Health{}
}

func readStep(a map[string]string) Step {
	s := Step{
		DrainStatus: a[v1alpha1.DrainStatusAnnotation],
		Rebooting:   a[v1alpha1.PostConfigActionAnnotation] == "Rebooting",
	}
	if t, err := time.Parse(time.RFC3339, a[v1alpha1.DrainStartedAnnotation]); err == nil {
		s.DrainStarted = t
	}
	if asked := a[v1alpha1.DesiredDrainAnnotation]; asked != a[v1alpha1.LastAppliedDrainAnnotation] {
		s.Draining = hasVerb(asked, v1alpha1.DrainVerb)
		s.Uncordoning = hasVerb(asked, v1alpha1.UncordonVerb)
	}
	return s
}

func hasVerb(request, verb string) bool {
	return len(request) > len(verb) && request[:len(verb)] == verb && request[len(verb)] == '-'
}

func tainted(taints []corev1.Taint) bool {
	for _, t := range taints {
		if t.Key == v1alpha1.UpdateInProgressTaint && t.Effect == corev1.TaintEffectPreferNoSchedule {
			return true
		}
	}
	return false
}
