package membership

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	// Master is the pool of the control plane. Its nodes belong to no custom pool.
	Master = "master"
	// Worker is the pool that custom pools inherit from.
	Worker = "worker"
)

// Pools finds the pools of a node. New parses all selectors; the zero value has no pools.
type Pools struct {
	members []member
	broken  error
}

type member struct {
	name     string
	selector labels.Selector
}

// New parses the selectors of all pools. It does not fail: if a selector is invalid, For returns an error for every
// node, because each may belong to that pool.
func New(pools []*mcfgv1.MachineConfigPool) Pools {
	var p Pools
	var errs []error
	for _, pool := range pools {
		if SelectsNothing(pool.Spec.NodeSelector) {
			continue
		}
		s, err := metav1.LabelSelectorAsSelector(pool.Spec.NodeSelector)
		if err != nil {
			errs = append(errs, fmt.Errorf("reading nodeSelector of MachineConfigPool %q: %w", pool.Name, err))
			continue
		}
		p.members = append(p.members, member{pool.Name, s})
	}
	slices.SortFunc(p.members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	p.broken = errors.Join(errs...)
	return p
}

// SelectsNothing reports whether a selector is absent or empty. In Kubernetes an empty one matches everything, but in a
// MachineConfigPool nothing. Callers warn about it (event SelectingAll).
func SelectsNothing(s *metav1.LabelSelector) bool {
	return s == nil || len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}

// For returns the pools of a node. The primary one counts the node and decides its config; all has also the one from
// which it inherits. If the primary is empty without an error, no pool manages the node, such as a Windows node. After
// an error, no component may change the node until a user has fixed the pools.
func (p Pools) For(node string, nodeLabels map[string]string) (primary string, all []string, err error) {
	if nodeLabels[corev1.LabelOSStable] == "windows" {
		return "", nil, nil
	}
	if p.broken != nil {
		return "", nil, p.broken
	}
	var master, worker bool
	var custom []string
	for _, m := range p.members {
		if !m.selector.Matches(labels.Set(nodeLabels)) {
			continue
		}
		switch m.name {
		case Master:
			master = true
		case Worker:
			worker = true
		default:
			custom = append(custom, m.name)
		}
	}
	if len(custom) > 1 {
		return "", nil, fmt.Errorf("node %s belongs to %d custom pools (%s), and a node can follow only one: remove "+
			"the labels of the others from it",
			node, len(custom), strings.Join(custom, ", "))
	}
	all = inherit(master, worker, custom)
	if len(all) == 0 {
		return "", nil, nil
	}
	return all[0], all, nil
}

// inherit puts master first, and a custom pool before worker, which it extends.
func inherit(master, worker bool, custom []string) []string {
	switch {
	case master && worker && len(custom) > 0:
		return []string{Master, Worker}
	case master:
		return []string{Master}
	case worker:
		return append(custom, Worker)
	}
	return custom
}
