package butane

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/coreos/butane/translate"
	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/coreos/vcontext/report"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// machineConfig is the shape of what an `openshift` dialect gives, whatever its version.
type machineConfig struct {
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	Spec struct {
		Config          ign.Config
		KernelArguments []string
		Extensions      []string
		FIPS            bool
		KernelType      string
	}
}

const roleLabel = "machineconfiguration.openshift.io/role"

// output turns what Butane gave, in any Ignition version, into a config of 3.5.0.
func (t *translator) output(final reflect.Value, set translate.TranslationSet) Output {
	out := Output{Config: machineconfig.Config{HasIgnition: true}}
	steps := make(map[string]string, len(set.Set))
	if t.dialect.variant == "openshift" {
		var mc machineConfig
		convert(reflect.ValueOf(&mc.Metadata).Elem(), final.FieldByName("Metadata"))
		convert(reflect.ValueOf(&mc.Spec).Elem(), final.FieldByName("Spec"))
		out.Name, out.Role = mc.Metadata.Name, mc.Metadata.Labels[roleLabel]
		out.Config.Ignition, out.Config.KernelArguments = mc.Spec.Config, mc.Spec.KernelArguments
		out.Config.Extensions, out.Config.FIPS, out.Config.KernelType = mc.Spec.Extensions, mc.Spec.FIPS, mc.Spec.KernelType
		for to, step := range set.Set {
			if rest, ok := strings.CutPrefix(to, "$.spec.config"); ok {
				steps["$"+rest] = pathOf(step.From)
			} else if rest, ok := strings.CutPrefix(to, "$.spec."); ok {
				steps["spec."+rest] = pathOf(step.From)
			}
		}
	} else {
		convert(reflect.ValueOf(&out.Config.Ignition).Elem(), final)
		for to, step := range set.Set {
			steps[to] = pathOf(step.From)
		}
	}
	out.Config.Ignition.Ignition.Version = machineconfig.Version
	t.places(&out, steps)
	t.asNewest(out)
	if t.dialect.variant != "flatcar" { // a running Flatcar cannot change its arguments; its Ignition sets them at the first boot
		liftKernelArguments(&out)
	}
	return out
}

// asNewest refuses what Ignition 3.6 takes and 3.5 does not. The versions have the same fields. (Special mode bits are
// refused for every version, with all configs.)
func (t *translator) asNewest(out Output) {
	if t.dialect.method != "ToIgn3_6Unvalidated" {
		return
	}
	for _, e := range verdict(out.Config.Ignition, jsonTag).Entries {
		if e.Kind == report.Error {
			at, _ := out.Origin.Find(e.Context.String())
			t.findings = append(t.findings, origin.Finding{
				Rule: "ignition-version", At: at,
				Message: e.Message + ": Ignition 3.6 takes it, but nodes here speak 3.5; write the document as fcos 1.6.0 without it",
			})
		}
	}
}

// liftKernelArguments moves the arguments that should exist from the Ignition, which only a first boot reads, into the
// spec, where the node's daemon applies them too.
func liftKernelArguments(out *Output) {
	args := &out.Config.Ignition.KernelArguments
	n := len(out.Config.KernelArguments)
	for i, a := range args.ShouldExist {
		from := fmt.Sprintf("$.kernelArguments.shouldExist.%d", i)
		if p, ok := out.Origin.Find(from); ok {
			out.Origin.At[fmt.Sprintf("spec.kernelArguments.%d", n+i)] = p
		}
		out.Config.KernelArguments = append(out.Config.KernelArguments, string(a))
	}
	for to := range out.Origin.At {
		if strings.HasPrefix(to, "$.kernelArguments") {
			delete(out.Origin.At, to)
		}
	}
	args.ShouldExist, args.ShouldNotExist = nil, nil
}
