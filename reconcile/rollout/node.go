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
	// Gate says in words why a health gate of the node does not hold yet; empty: it holds. It is not read off the node.
	Gate string
	// Marks are further annotations.
	Marks
}

// Marks are what the controller, the daemon, and the server when the machine booted, left on a node.
type Marks struct {
	// Failure is the daemon's structured reason beside Reason; zero where there is none.
	Failure v1alpha1.Failure
	// Tainted tells that the node has the UpdateInProgress taint.
	Tainted bool
	// Postponed tells that a drain of the node was given up.
	Postponed Postponed
	// Drains tells how often the node was drained for one config before, without success.
	Drains Drains
	// Booted is the rendered config that the machine says it first booted with; empty once the labels of its pool were put on the
	// node. Nothing is decided by it but that the records of the server are read.
	Booted string
	// Checked tells that the records of the server were read, and Attested is the pool that they name; empty for none.
	Checked  bool
	Attested string
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
	// Silence says in words that the kubelet does not report, so that nothing else is known of the node; empty if it reports.
	Silence string
	// Since is when the trouble began; zero if that is not known.
	Since time.Time
	// ReadySince is since when the kubelet calls the node Ready; zero if it does not, or if that is not known.
	ReadySince time.Time
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
	// HeldUpSince is since when a PodDisruptionBudget forbids to evict one of the node's pods; zero: none does.
	HeldUpSince time.Time
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
		State:  a[v1alpha1.StateAnnotation],
		Reason: a[v1alpha1.ReasonAnnotation],
		Health: readHealth(n.Status.Conditions),
		Cordon: Cordon{Unschedulable: n.Spec.Unschedulable, For: a[v1alpha1.CordonedAnnotation]},
		Step:   readStep(a),
		Marks:  readMarks(n),
	}
}

// Text says what is wrong; duration is words such as " for 6m".
func (h Health) Text(duration string) string {
	if h.Silence == "" {
		return h.Trouble + duration
	}
	return h.Trouble + duration + ": " + h.Silence
}

// readHealth reads the kubelet's conditions. Ready decides first: once a kubelet is silent, the node controller sets all of its
// conditions to Unknown, in the order in which the kubelet listed them, and Ready is the last. The others count only while they
// are True. A condition that is absent says nothing.
func readHealth(conditions []corev1.NodeCondition) Health {
	var h Health
	var other *corev1.NodeCondition
	for i := range conditions {
		switch c := &conditions[i]; {
		case c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue:
			h.ReadySince = c.LastTransitionTime.Time
		case c.Type == corev1.NodeReady:
			return notReady(c)
		case other == nil && c.Status == corev1.ConditionTrue && pressures[c.Type] != "":
			other = c
		}
	}
	if other != nil {
		h.Trouble, h.Since = pressures[other.Type]+because(other), other.LastTransitionTime.Time
	}
	return h
}

// pressures are the conditions that take a Ready node out of service, in words.
var pressures = map[corev1.NodeConditionType]string{
	corev1.NodeDiskPressure:       "short of disk space",
	corev1.NodeNetworkUnavailable: "without a network",
}

func notReady(c *corev1.NodeCondition) Health {
	h := Health{Trouble: "not Ready", Since: c.LastTransitionTime.Time}
	switch {
	case c.Status != corev1.ConditionUnknown:
		h.Trouble += because(c)
	case c.Reason == "NodeStatusNeverUpdated":
		h.Silence = "its kubelet has never reported"
	default:
		h.Silence = "its kubelet stopped reporting"
	}
	return h
}

func because(c *corev1.NodeCondition) string {
	if c.Reason == "" {
		return ""
	}
	return " (" + c.Reason + ")"
}

func readStep(a map[string]string) Step {
	s := Step{
		DrainStatus: a[v1alpha1.DrainStatusAnnotation],
		Rebooting:   a[v1alpha1.PostConfigActionAnnotation] == "Rebooting",
	}
	s.DrainStarted = readTime(a[v1alpha1.DrainStartedAnnotation])
	if asked := a[v1alpha1.DesiredDrainAnnotation]; asked != a[v1alpha1.LastAppliedDrainAnnotation] {
		s.Draining = hasVerb(asked, v1alpha1.DrainVerb)
		s.Uncordoning = hasVerb(asked, v1alpha1.UncordonVerb)
	}
	if s.Draining {
		s.HeldUpSince = heldUp(a[v1alpha1.DrainReportAnnotation], s.DrainStarted)
	}
	return s
}

// heldUp is since when the first pod of a report waits for a budget; a report that says nothing sensible counts as absent.
func heldUp(report string, began time.Time) time.Time {
	r, err := v1alpha1.ParseDrainReport(report)
	if err != nil {
		return time.Time{}
	}
	for _, p := range r.Pods {
		switch {
		case p.State != v1alpha1.PodWaiting || p.Budget == "":
		case p.Since != nil:
			return p.Since.Time
		default:
			return began
		}
	}
	return time.Time{}
}

func hasVerb(request, verb string) bool {
	return len(request) > len(verb) && request[:len(verb)] == verb && request[len(verb)] == '-'
}

func readMarks(n *corev1.Node) Marks {
	m := Marks{Tainted: tainted(n.Spec.Taints), Postponed: readPostponed(n.Annotations[v1alpha1.PostponedAnnotation]), Drains: readDrains(n.Annotations[v1alpha1.DrainsAnnotation])}
	if f, err := v1alpha1.ParseFailure(n.Annotations[v1alpha1.FailureAnnotation]); err == nil {
		m.Failure = f
	}
	if _, labelled := n.Annotations[v1alpha1.CustomPoolLabelsAppliedAnnotation]; !labelled {
		m.Booted = n.Annotations[v1alpha1.FirstPivotConfigAnnotation]
		m.Attested, m.Checked = n.Annotations[v1alpha1.AttestedPoolAnnotation]
	}
	return m
}

func tainted(taints []corev1.Taint) bool {
	for _, t := range taints {
		if t.Key == v1alpha1.UpdateInProgressTaint && t.Effect == corev1.TaintEffectPreferNoSchedule {
			return true
		}
	}
	return false
}
