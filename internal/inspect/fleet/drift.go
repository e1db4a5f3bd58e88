package fleet

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// ShortDrift is the largest drift report that a screen uses, in bytes: it has a few items.
const ShortDrift = 2 << 10

// Drifted reports whether a node is degraded because somebody changed it, and since when: the first report of it. The
// daemon's failure says so, or its drift report if there is no failure of the config that it should run.
func Drifted(n *corev1.Node) (since time.Time, is bool) {
	failure, err := v1alpha1.ParseFailure(n.Annotations[v1alpha1.FailureAnnotation])
	if err == nil && failure.Cause != "" && failure.Version() == v1alpha1.AssignedConfig(n.Annotations) {
		if failure.Cause != v1alpha1.FailureDrift {
			return time.Time{}, false
		}
		since, is = failure.Since.Time, true
	}
	report, err := v1alpha1.ParseDrift(n.Annotations[v1alpha1.DriftAnnotation])
	if err != nil {
		return since, is
	}
	for _, it := range report.Items {
		if it.Action == v1alpha1.DriftDegrade && (!is || it.Since.Time.Before(since)) {
			since, is = it.Since.Time, true
		}
	}
	return since, is
}

// Undecided stands behind what somebody changed on a node that should be updated.
const Undecided = ": the update does not begin before that is decided"

// driftText is what somebody changed on a node, in the words of its daemon; "" if its drift is more than a screen has
// room for.
func driftText(n *corev1.Node) string {
	raw := n.Annotations[v1alpha1.DriftAnnotation]
	report, err := v1alpha1.ParseDrift(raw)
	if err != nil || len(raw) > ShortDrift {
		return ""
	}
	return report.ByHand()
}
