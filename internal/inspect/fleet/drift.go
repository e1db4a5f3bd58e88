package fleet

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// ShortDrift is the largest drift report that a screen uses, in bytes: it has a few items.
const ShortDrift = 2 << 10

// Drifted reports whether a node is degraded because somebody changed it, and since when. The daemon's failure says so,
// or its drift report if there is no failure of the config that it should run.
func Drifted(n *corev1.Node) (since time.Time, is bool) {
	failure, err := v1alpha1.ParseFailure(n.Annotations[v1alpha1.FailureAnnotation])
	if err == nil && failure.Cause != "" && failure.Version() == v1alpha1.AssignedConfig(n.Annotations) {
		return failure.Since.Time, failure.Cause == v1alpha1.FailureDrift
	}
	report, err := v1alpha1.ParseDrift(n.Annotations[v1alpha1.DriftAnnotation])
	if err != nil {
		return time.Time{}, false
	}
	for _, it := range report.Items {
		if it.Action == v1alpha1.DriftDegrade && (!is || it.Since.Time.Before(since)) {
			since, is = it.Since.Time, true
		}
	}
	return since, is
}

// driftText says which items somebody changed on a node, in fewer words than its daemon; "" if the daemon has more to
// say, because the kind of an item does not tell how it differs, or because it needs advice of its own.
func driftText(n *corev1.Node) string {
	const mostNamed = 3
	raw := n.Annotations[v1alpha1.DriftAnnotation]
	report, err := v1alpha1.ParseDrift(raw)
	if err != nil || report.More > 0 || len(raw) > ShortDrift {
		return ""
	}
	var names []string
	how := ""
	for _, it := range report.Items {
		if it.Action != v1alpha1.DriftDegrade {
			continue
		}
		switch it.Kind {
		case v1alpha1.DriftContent, v1alpha1.DriftMode, v1alpha1.DriftOwner, v1alpha1.DriftTarget,
			v1alpha1.DriftMissing:
		default:
			return ""
		}
		if it.Why != "" {
			return ""
		}
		names, how = append(names, it.Name), string(it.Kind)
		if it.Modified != nil && it.Kind == v1alpha1.DriftContent {
			how += ", modified " + it.Modified.UTC().Format("2006-01-02 15:04:05 UTC")
		}
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		if how == string(v1alpha1.DriftMissing) {
			return names[0] + " was removed by hand (by whom is not recorded)"
		}
		return fmt.Sprintf("%s was changed by hand (%s; by whom is not recorded)", names[0], how)
	}
	return Names(names, mostNamed) + " were changed by hand (by whom is not recorded)"
}
