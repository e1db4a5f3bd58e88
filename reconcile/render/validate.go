package render

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/transpile/kinds"
)

// judge parses and validates the spec of a MachineConfig.
func judge(spec mcfgv1.MachineConfigSpec) (machineconfig.Config, []error) {
	var bad []error
	spec, err := kinds.UpgradeSpec(spec)
	if err != nil {
		return machineconfig.Config{}, flatten(err)
	}
	c, err := machineconfig.Parse(spec)
	if err != nil {
		bad = append(bad, flatten(err)...)
	}
	bad = append(bad, machineconfig.Check(c)...)
	bad = append(bad, machineconfig.CheckSystem(spec.KernelType, spec.Extensions)...)
	return c, bad
}

func kernelDevel(extensions []string) bool { return slices.Contains(extensions, "kernel-devel") }

func defaultKernel(kernelType string) bool { return kernelType == "" || kernelType == "default" }

// blame joins the problems of one MachineConfig, each with its name; nil if there are none.
func blame(name string, bad []error) error {
	named := make([]error, 0, len(bad))
	for _, b := range bad {
		named = append(named, fmt.Errorf("MachineConfig %s: %w", name, b))
	}
	return errors.Join(named...)
}

// flatten splits joined errors, so that a message can have each error in a line of its own.
func flatten(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// validateMerged validates the parts of a merged config that may be invalid although all inputs are valid: items that
// several inputs set, fields outside the lists, rules between entries, and parts that every node would refuse.
func validateMerged(c machineconfig.Config, set setBy, b *book) (bad []error) {
	contested := set.contested(c)
	found := map[string]bool{}
	for _, err := range slices.Concat(machineconfig.Validate(contested), machineconfig.Check(contested),
		validateBetween(c), validateNested(c)) {
		found[b.explain(err)] = true // found is a set, because several checks may return the same error.
	}
	if len(found) == 0 {
		for _, r := range disruption.Invalid(c) {
			found[b.refused(r)] = true
		}
	}
	for _, text := range slices.Sorted(maps.Keys(found)) {
		bad = append(bad, errors.New(text))
	}
	if kernelDevel(c.Extensions) && !defaultKernel(c.KernelType) {
		bad = append(bad, fmt.Errorf("extension kernel-devel (of MachineConfig %s) needs the default kernel, not %s "+
			"(of MachineConfig %s): remove one of them",
			b.last(entry{disruption.KindExtensions, "kernel-devel"}), c.KernelType,
			b.last(entry{disruption.KindKernelType, ""})))
	}
	return bad
}

// validateNested validates the merge of the nested configs with all other configs.
func validateNested(c machineconfig.Config) []error {
	if names := c.Ignition.Ignition.Config; names.Replace.Source == nil && len(names.Merge) == 0 {
		return nil
	}
	return machineconfig.Check(c)
}

// validateBetween checks Ignition's rules between entries. validateBetween skips the check if no rule can be violated,
// because the check compares every path with every link.
func validateBetween(c machineconfig.Config) []error {
	st := c.Ignition.Storage
	if len(st.Links) == 0 {
		return nil
	}
	links := make(map[string]bool, len(st.Links))
	for _, l := range st.Links {
		if l.Target == nil || *l.Target == "" || l.Hard != nil && *l.Hard {
			return machineconfig.ValidateBetween(c)
		}
		links[l.Path] = true
	}
	for _, paths := range [][]string{keys(nil, st.Files), keys(nil, st.Directories), keys(nil, st.Links)} {
		for _, p := range paths {
			for i := range len(p) {
				if p[i] == '/' && links[p[:i]] {
					return machineconfig.ValidateBetween(c)
				}
			}
		}
	}
	return nil
}
