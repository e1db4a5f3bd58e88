package membership

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reported: what a kubelet sets when it registers, except labels with the prefix topology.kubernetes.io/. The admission
// policy on labels of Nodes (config/rbac/nodes-labels-admission.yaml) has the same list.
var reported = []string{
	"kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os", "node.kubernetes.io/instance-type",
	"beta.kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/instance-type",
	"failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
}

// ReportedKeys returns the labels that a selector requires if kubelets report all of them, so that a node can choose to
// be selected; nil if it also requires another label, or none.
func ReportedKeys(s *metav1.LabelSelector) []string {
	if s == nil {
		return nil
	}
	var keys []string
	for key := range s.MatchLabels {
		keys = append(keys, key)
	}
	for _, e := range s.MatchExpressions {
		if e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpExists {
			keys = append(keys, e.Key)
		}
	}
	if slices.ContainsFunc(keys, func(k string) bool {
		return !strings.HasPrefix(k, "topology.kubernetes.io/") && !slices.Contains(reported, k)
	}) {
		return nil
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
