package review

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/transpile"
)

// PolicyOf returns the disruption policy of a repository's cluster/ with its defaults. If cluster/ has no such policy,
// PolicyOf returns the defaults.
func PolicyOf(res transpile.Result) (disruption.Policy, error) {
	mc, at, err := Configuration(res)
	if err != nil || mc == nil {
		return disruption.Default(), err
	}
	p, err := disruption.FromSpec(mc.Spec.NodeDisruptionPolicy)
	if err != nil {
		return disruption.Policy{}, fmt.Errorf("%s: %w", at, err)
	}
	return p, nil
}

// PolicyKind is the kind of the object with the disruption policy.
const PolicyKind = "MachineConfiguration"

// Configuration returns the repository's MachineConfiguration and its position, or nil.
func Configuration(res transpile.Result) (mc *operatorv1.MachineConfiguration, at string, err error) {
	for _, o := range res.Cluster {
		if o.Object.GetKind() != PolicyKind {
			continue
		}
		at := fmt.Sprintf("%s:%d", o.File, o.Line)
		mc := &operatorv1.MachineConfiguration{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object.Object, mc); err != nil {
			return nil, at, fmt.Errorf("%s: reading MachineConfiguration: %w", at, err)
		}
		return mc, at, nil
	}
	return nil, "", nil
}

// comparePolicies names each rule that differs, in lexical order of paths and units.
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
