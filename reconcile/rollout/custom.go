package rollout

import (
	"maps"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Custom is a custom pool into which a machine may have booted.
type Custom struct {
	// Pool by name.
	Pool string
	// Labels that put a node into it.
	Labels map[string]string
}

// NewCustoms are the custom pools among these, by name.
func NewCustoms(pools []*mcfgv1.MachineConfigPool) []Custom {
	var out []Custom
	for _, p := range pools {
		if p.Name == masterPool || p.Name == workerPool || SelectsNothing(p.Spec.NodeSelector) {
			continue
		}
		out = append(out, Custom{Pool: p.Name, Labels: labelsFor(p.Spec.NodeSelector)})
	}
	slices.SortFunc(out, func(a, b Custom) int { return strings.Compare(a.Pool, b.Pool) })
	return out
}

// labelsFor are the labels that a selector asks for, as far as it leaves no choice.
func labelsFor(s *metav1.LabelSelector) map[string]string {
	out := maps.Clone(s.MatchLabels)
	if out == nil {
		out = map[string]string{}
	}
	for _, e := range s.MatchExpressions {
		switch {
		case e.Operator == metav1.LabelSelectorOpIn && len(e.Values) == 1:
			out[e.Key] = e.Values[0]
		case e.Operator == metav1.LabelSelectorOpExists:
			if _, has := out[e.Key]; !has {
				out[e.Key] = ""
			}
		}
	}
	return out
}

// custom is the pool that a rendered config was made for, if it is one of these. The name says so, also once the config
// itself is gone: rendered-<pool>-<hash>.
func custom(customs []Custom, rendered string) *Custom {
	if len(customs) == 0 || rendered == "" {
		return nil
	}
	name, ok := strings.CutPrefix(rendered, "rendered-")
	hash := strings.LastIndexByte(name, '-')
	if !ok || hash < 0 {
		return nil
	}
	for i := range customs {
		if customs[i].Pool == name[:hash] {
			return &customs[i]
		}
	}
	return nil
}
