package review

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/internal/disruption"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// ClusterChanges are the changes in the directory cluster/ that no rendered config has.
type ClusterChanges struct {
	// Policy names each rule that changes: `/etc/motd: None → Reboot`.
	Policy []string `json:"policy,omitempty"`
	// MachineConfigPools names changes that are in no rendered config: the nodes that a pool selects, and its
	// maxUnavailable.
	MachineConfigPools []string `json:"machineConfigPools,omitempty"`
	// ClusterObjects names other changes in the objects of cluster/, and added or removed ones: RolloutPolicies,
	// DriftPolicies, PinnedImageSets, MachineConfigPools and the MachineConfiguration.
	ClusterObjects []string `json:"clusterObjects,omitempty"`
	// MovesNodes reports whether nodes may change pools.
	MovesNodes bool `json:"-"`
}

// compareCluster returns what differs between the cluster/ directories of both sides.
func compareCluster(base, head Side) ClusterChanges {
	out := ClusterChanges{
		Policy:         comparePolicies(base.Policy, head.Policy),
		ClusterObjects: compareObjects(base.Objects, head.Objects),
	}
	out.MachineConfigPools, out.MovesNodes = comparePools(base.Declared, head.Declared)
	return out
}

// comparePools names the changes of MachineConfigPools that are in no rendered config: the nodes that a pool selects,
// and its maxUnavailable. movesNodes: nodes may change pools, and so get another config.
func comparePools(base, head []mcfgv1.MachineConfigPool) (out []string, movesNodes bool) {
	was, is := declared(base), declared(head)
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		_, had := was[name]
		_, has := is[name]
		if had != has && !isStandard(name) {
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

// comparePolicies is in lexical order of paths and units.
func comparePolicies(base, head disruption.Policy) []string {
	was, is := rules(base), rules(head)
	names := maps.Clone(was)
	maps.Copy(names, is)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if was[name] != is[name] {
			out = append(out, fmt.Sprintf("%s: %s → %s", name, cmp.Or(was[name], "no rule, so reboot"),
				cmp.Or(is[name], "no rule, so reboot")))
		}
	}
	return out
}

// rules returns the actions of each rule by the rule's name.
func rules(p disruption.Policy) map[string]string {
	words := func(actions []disruption.Action) string {
		text := make([]string, len(actions))
		for i, a := range actions {
			text[i] = a.String()
		}
		return strings.Join(text, ", ")
	}
	out := map[string]string{"SSH keys": words(p.SSHKey)}
	for _, list := range [][]disruption.Rule{p.Files, p.Units} {
		for _, r := range list {
			out[r.Name] = words(r.Actions)
		}
	}
	return out
}

// undeclared: the standard pools have default selectors.
const undeclared = "not declared here"

// declaration is which nodes a pool selects, and how many may be out of service at once; "" if the repository does not
// declare it.
type declaration struct{ takes, away string }
