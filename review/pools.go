package review

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/transpile"
)

// PoolsOf reads the MachineConfigPools that a repository's cluster/ declares.
func PoolsOf(res transpile.Result) (out []mcfgv1.MachineConfigPool, err error) {
	for _, o := range res.Cluster {
		if o.Object.GetKind() != poolKind {
			continue
		}
		var p mcfgv1.MachineConfigPool
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object.Object, &p); err != nil {
			return nil, fmt.Errorf("%s:%d: reading MachineConfigPool: %w", o.File, o.Line, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// ComparePools names what differs in MachineConfigPools and is in no rendered config: which nodes a pool takes, for a node
// that changes pools takes another config, and how many of them are away at once.
func ComparePools(base, head []mcfgv1.MachineConfigPool) (out []string) {
	was, is := declared(base), declared(head)
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		_, had := was[name]
		_, has := is[name]
		if had != has && !isStandard(name) {
			continue // the pool comes or goes, which the comparison tells
		}
		if a, b := cmp.Or(was[name].takes, undeclared), cmp.Or(is[name].takes, undeclared); a != b {
			out = append(out, fmt.Sprintf("%s"+takes+"%s → %s; a node that it gains or loses takes another config, which may reboot it", name, a, b))
		}
		if a, b := cmp.Or(was[name].away, "1"), cmp.Or(is[name].away, "1"); a != b {
			out = append(out, fmt.Sprintf("%s: nodes away at once: %s → %s", name, a, b))
		}
	}
	return out
}

// takes is in what ComparePools says where nodes may come or go.
const takes = ": the nodes that it takes: "

// moves tells whether nodes may change pools.
func moves(c Comparison) bool {
	return slices.ContainsFunc(c.MachineConfigPools, func(line string) bool { return strings.Contains(line, takes) })
}

// undeclared is what a pool has of which there is no object: the standard pools have selectors of their own.
const undeclared = "not declared here"

// declaration is which nodes a pool takes, and how many are away at once; "" where that is not said.
type declaration struct{ takes, away string }

func declared(pools []mcfgv1.MachineConfigPool) map[string]declaration {
	out := map[string]declaration{}
	for i := range pools {
		var d declaration
		if s := pools[i].Spec.NodeSelector; s != nil {
			d.takes = metav1.FormatLabelSelector(s)
		}
		if most := pools[i].Spec.MaxUnavailable; most != nil {
			d.away = most.String()
		}
		out[pools[i].Name] = d
	}
	return out
}
