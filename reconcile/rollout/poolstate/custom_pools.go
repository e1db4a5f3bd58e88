package poolstate

import (
	"maps"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/membership"
)

// Custom is a custom pool into which a machine may have booted.
type Custom struct {
	// Pool is the name of the pool.
	Pool string
	// Labels are the labels that put a node into the pool.
	Labels map[string]string
}

// NewCustoms returns the custom pools whose labels the controller may set, sorted by name.
func NewCustoms(pools []*mcfgv1.MachineConfigPool) []Custom {
	var out []Custom
	for _, p := range pools {
		if p.Name == membership.Master || p.Name == membership.Worker ||
			membership.SelectsNothing(p.Spec.NodeSelector) {
			continue
		}
		labels := LabelsFor(p.Spec.NodeSelector)
		if slices.ContainsFunc(slices.Collect(maps.Keys(labels)), func(key string) bool { return !isSettable(key) }) {
			continue // Only an administrator labels nodes of such a pool.
		}
		out = append(out, Custom{Pool: p.Name, Labels: labels})
	}
	slices.SortFunc(out, func(a, b Custom) int { return strings.Compare(a.Pool, b.Pool) })
	return out
}

// LabelsFor returns the labels that every object needs to match a selector.
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

// NeedsPoolCheck reports whether a node claims that it booted for a custom pool, and the controller has not read the
// server's records yet.
func (m NodeMarks) NeedsPoolCheck(customs []Custom) bool {
	return !m.Checked && find(customs, m.BootedPool()) != nil
}

// needsLabels reports whether the controller has to find out for which pool the server admitted the node, or has to set
// the labels of that pool.
func (m NodeMarks) needsLabels(customs []Custom) bool {
	return m.NeedsPoolCheck(customs) || m.AdmittedPool(customs) != nil
}

// BootedPool returns the pool in the name rendered-POOL-HASH of the config with which the node claims to have first
// booted. BootedPool returns "" if the name has no pool, and after the controller has labelled the node.
func (m NodeMarks) BootedPool() string { return v1alpha1.RenderedPool(m.Booted) }

// AdmittedPool returns the custom pool for which the server admitted the machine; nil for none. The node gets the
// labels of this pool.
func (m NodeMarks) AdmittedPool(customs []Custom) *Custom {
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

// isSettable reports whether the controller may set a label of a Node. The rights in config/rbac allow only such
// labels, so that a stolen token of the controller cannot turn a node into a control plane node.
func isSettable(key string) bool {
	role, isRole := strings.CutPrefix(key, "node-role.kubernetes.io/")
	return strings.HasPrefix(key, "bunsen.dev/") || isRole && role != membership.Master && role != "control-plane"
}
