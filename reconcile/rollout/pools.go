package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// The pools with a meaning of their own; every other one is a custom pool.
const (
	masterPool  = "master"
	workerPool  = "worker"
	arbiterPool = "arbiter"
)

// Pools answers which pool a node belongs to. Selectors are parsed once, in NewPools; the zero value has no pools.
type Pools struct {
	members []member
	broken  error
}

type member struct {
	name     string
	selector labels.Selector
}

// NewPools prepares the pools of a cluster. It does not fail: where a pool's selector cannot be read, For says so for
// every node, because a node that this pool might want must not be given to another.
func NewPools(pools []*mcfgv1.MachineConfigPool) Pools {
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

// SelectsNothing tells that a selector is absent or empty. In Kubernetes an empty selector matches everything, in a
// MachineConfigPool it matches nothing; a caller warns about one that is present and empty (event SelectingAll).
func SelectsNothing(s *metav1.LabelSelector) bool {
	return s == nil || len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}

// SelectingAll is the error of a pool whose selector of nodes or of MachineConfigs is {}: who wrote it meant everything, and
// it is nothing. The original has an event of that name.
func SelectingAll(pool *mcfgv1.MachineConfigPool) error {
	for _, s := range []struct {
		field    string
		selector *metav1.LabelSelector
	}{{"nodeSelector", pool.Spec.NodeSelector}, {"machineConfigSelector", pool.Spec.MachineConfigSelector}} {
		if s.selector != nil && SelectsNothing(s.selector) {
			return fmt.Errorf("spec.%s of MachineConfigPool %q is {}, which selects nothing here: write matchLabels or matchExpressions", s.field, pool.Name)
		}
	}
	return nil
}

// For finds the pools of a node. The primary counts it, targets it and serves it; all has the primary first and then
// the pool that it inherits from. An empty primary without an error is a node that nobody manages, as every Windows
// node is. An error means that nobody may touch the node until a person has decided.
func (p Pools) For(n Node) (primary string, all []string, err error) {
	if n.Labels[corev1.LabelOSStable] == "windows" {
		return "", nil, nil
	}
	if p.broken != nil {
		return "", nil, p.broken
	}
	var master, worker bool
	var custom []string
	for _, m := range p.members {
		if !m.selector.Matches(labels.Set(n.Labels)) {
			continue
		}
		switch m.name {
		case masterPool:
			master = true
		case workerPool:
			worker = true
		default:
			custom = append(custom, m.name)
		}
	}
	if len(custom) > 1 {
		return "", nil, fmt.Errorf("node %s belongs to %d custom pools (%s), and a node can follow only one: remove the labels of the others from it",
			n.Name, len(custom), strings.Join(custom, ", "))
	}
	all = inherit(master, worker, custom)
	if len(all) == 0 {
		return "", nil, nil
	}
	return all[0], all, nil
}

// inherit orders the pools that match: master before all others, a custom pool before the worker pool it extends.
func inherit(master, worker bool, custom []string) []string {
	switch {
	case master && worker && len(custom) > 0:
		return []string{masterPool, workerPool}
	case master:
		return []string{masterPool}
	case worker:
		return append(custom, workerPool)
	}
	return custom
}
