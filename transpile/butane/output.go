package butane

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/coreos/butane/translate"
	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	ignvalidate "github.com/coreos/ignition/v2/config/validate"
	"github.com/coreos/vcontext/report"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// machineConfig has the fields that every `openshift` variant of Butane produces.
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

// output converts Butane's result, of any Ignition version, to a config of 3.5.0.
func (t *translator) output(final reflect.Value, set translate.TranslationSet) Output {
	out := Output{Config: machineconfig.Config{HasIgnition: true}, Variant: t.dialect.variant}
	steps := make(map[string]string, len(set.Set))
	if t.dialect.variant == "openshift" {
		var mc machineConfig
		convert(reflect.ValueOf(&mc.Metadata).Elem(), final.FieldByName("Metadata"))
		convert(reflect.ValueOf(&mc.Spec).Elem(), final.FieldByName("Spec"))
		out.Name, out.Role = mc.Metadata.Name, mc.Metadata.Labels[roleLabel]
		out.Config.Ignition, out.Config.KernelArguments = mc.Spec.Config, mc.Spec.KernelArguments
		out.Config.Extensions, out.Config.FIPS, out.Config.KernelType = mc.Spec.Extensions, mc.Spec.FIPS,
			mc.Spec.KernelType
		for to, step := range set.Set {
			if rest, ok := strings.CutPrefix(to, "$.spec.config"); ok {
				steps["$"+rest] = step.From.String()
			} else if rest, ok := strings.CutPrefix(to, "$.spec."); ok {
				steps["spec."+rest] = step.From.String()
			}
		}
	} else {
		convert(reflect.ValueOf(&out.Config.Ignition).Elem(), final)
		for to, step := range set.Set {
			steps[to] = step.From.String()
		}
	}
	out.Config.Ignition.Ignition.Version = machineconfig.Version
	withoutPlaceholders(t, &out, steps)
	t.setOrigins(&out, steps)
	t.secrets.place(&out, steps)
	t.checkVersion36(out)
	if t.dialect.variant != "flatcar" { // only the first boot of Flatcar can set kernel arguments
		liftKernelArguments(&out)
	}
	return out
}

// checkVersion36 refuses values that Ignition 3.6 accepts and Ignition 3.5 does not. The two versions have the same
// fields. (Another check refuses special mode bits in every version.)
func (t *translator) checkVersion36(out Output) {
	if t.dialect.method != "ToIgn3_6Unvalidated" {
		return
	}
	for _, e := range ignvalidate.ValidateWithContext(out.Config.Ignition, nil).Entries {
		if e.Kind == report.Error {
			at, _ := out.Origin.Find(e.Context.String())
			t.findings = append(t.findings, origin.Errorf(at, "ignition-version",
				"%s: Ignition 3.6 accepts it, but nodes here use 3.5; write the document as fcos 1.6.0 without it",
				e.Message))
		}
	}
}

// liftKernelArguments moves the kernel arguments under shouldExist from the Ignition config into the spec. Ignition
// reads kernel arguments only at the first boot; the daemon applies the arguments of the spec at every update.
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
