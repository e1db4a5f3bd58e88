package review

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/transpile"
)

// PoolsOf reads the MachineConfigPools that a repository's cluster/ declares.
func PoolsOf(res transpile.Result) (out []mcfgv1.MachineConfigPool, err error) {
	for _, o := range res.Cluster {
		if o.Object.GetKind() != PoolKind {
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

// comparePools names the changes of MachineConfigPools that are in no rendered config: the nodes that a pool selects,
// and its maxUnavailable. A node that changes its pool gets another config. comparePools also reports whether nodes may
// change pools.
func comparePools(base, head []mcfgv1.MachineConfigPool) (out []string, movesNodes bool) {
	was, is := declared(base), declared(head)
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		_, had := was[name]
		_, has := is[name]
		if had != has && !IsStandard(name) {
			continue // The comparison reports a new or removed pool elsewhere.
		}
		if a, b := cmp.Or(was[name].takes, undeclared), cmp.Or(is[name].takes, undeclared); a != b {
			movesNodes = true
			out = append(out, fmt.Sprintf("%s: the nodes that it takes: %s → %s; a node that it gains or loses takes "+
				"another config, which may reboot it", name, a, b))
		}
		if a, b := cmp.Or(was[name].away, "1"), cmp.Or(is[name].away, "1"); a != b {
			out = append(out, fmt.Sprintf("%s: nodes away at once: %s → %s", name, a, b))
		}
	}
	return out, movesNodes
}

// undeclared is the text for a pool without an object in the repository. The standard pools have default selectors.
const undeclared = "not declared here"

// declaration says which nodes a pool selects, and how many of these nodes may be out of service at once. A field is ""
// if the repository does not declare its value.
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
