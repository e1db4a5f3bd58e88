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

// NewCustoms are the custom pools among these whose labels the controller may set, by name.
func NewCustoms(pools []*mcfgv1.MachineConfigPool) []Custom {
	var out []Custom
	for _, p := range pools {
		if p.Name == masterPool || p.Name == workerPool || SelectsNothing(p.Spec.NodeSelector) {
			continue
		}
		labels := LabelsFor(p.Spec.NodeSelector)
		if slices.ContainsFunc(slices.Collect(maps.Keys(labels)), func(key string) bool { return !isSettable(key) }) {
			continue // an administrator labels its nodes
		}
		out = append(out, Custom{Pool: p.Name, Labels: labels})
	}
	slices.SortFunc(out, func(a, b Custom) int { return strings.Compare(a.Pool, b.Pool) })
	return out
}

// LabelsFor returns the labels that a selector asks for, as far as it leaves no choice.
func LabelsFor(s *metav1.LabelSelector) map[string]string {
	if s == nil {
		return nil
	}
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

// toCheck tells that a node says it booted for a custom pool, and that the server's records about it were not read yet.
func (m Marks) toCheck(customs []Custom) bool {
	return !m.Checked && find(customs, m.BootedPool()) != nil
}

// BootedPool is the pool of the config that the node says it first booted with: rendered-POOL-HASH. It is empty for none, and
// once the controller labelled the node.
func (m Marks) BootedPool() string {
	name, ok := strings.CutPrefix(m.Booted, "rendered-")
	hash := strings.LastIndexByte(name, '-')
	if !ok || hash < 0 {
		return ""
	}
	return name[:hash]
}

// toCustom is the custom pool for which the server let a node's machine in and for which it is to be labelled; nil for none.
func (m Marks) toCustom(customs []Custom) *Custom {
	if m.Booted == "" || m.Attested == "" {
		return nil
	}
	return find(customs, m.Attested)
}

func find(customs []Custom, pool string) *Custom {
	for i := range customs {
		if customs[i].Pool == pool {
			return &customs[i]
		}
	}
	return nil
}

// isSettable tells whether the controller may set a label of a Node: config/rbac lets it set no others, so that nobody who has
// its token makes a node of the control plane.
func isSettable(key string) bool {
	role, isRole := strings.CutPrefix(key, "node-role.kubernetes.io/")
	return strings.HasPrefix(key, "bunsen.dev/") || isRole && role != masterPool && role != "control-plane"
}
