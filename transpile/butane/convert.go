package butane

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/coreos/butane/translate"
	ignvalidate "github.com/coreos/ignition/v2/config/validate"
	"github.com/coreos/vcontext/report"
)

// convert copies a value into the matching type of another Ignition version. convert matches fields by name, converts
// between a value and a pointer to it, and turns an empty list into nil. The versions of Ignition's types differ in
// nothing else. (Ignition translates 3.4 to 3.5 itself, but drops the advertisement of a Tang server.) convert panics
// if a field is set that the other version lacks.
func convert(to, from reflect.Value) {
	switch {
	case from.Kind() == reflect.Pointer:
		if !from.IsNil() {
			convert(to, from.Elem())
		}
	case to.Kind() == reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		convert(to.Elem(), from)
	case from.Kind() == reflect.Slice:
		if from.Len() == 0 {
			return
		}
		to.Set(reflect.MakeSlice(to.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			convert(to.Index(i), from.Index(i))
		}
	case from.Kind() == reflect.Struct:
		convertFields(to, from)
	default:
		to.Set(from.Convert(to.Type()))
	}
}

func convertFields(to, from reflect.Value) {
	same := to.Type() == from.Type()
	for i := range from.NumField() {
		f := from.Field(i)
		switch {
		case same:
			convert(to.Field(i), f)
		case f.Kind() == reflect.Pointer && f.IsNil():
		default:
			name := from.Type().Field(i).Name
			t := to.FieldByName(name)
			if !t.IsValid() {
				if f.IsZero() {
					continue
				}
				panic(fmt.Sprintf("%s has no %s", to.Type(), name))
			}
			convert(t, f)
		}
	}
}

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
	t.withoutPlaceholders(&out, steps)
	t.setOrigins(&out, steps)
	t.secrets.place(&out, steps)
	t.checkVersion36(out)
	if t.dialect.variant != "flatcar" { // only the first boot of Flatcar can set kernel arguments
		out.liftKernelArguments()
	}
	return out
}

// withoutPlaceholders replaces the paths of placeholders in the steps of a translation by those of the large files, and
// puts the names in the content store into the output.
func (t *translator) withoutPlaceholders(out *Output, steps map[string]string) {
	for _, to := range slices.Sorted(maps.Keys(steps)) {
		from := steps[to]
		input, output := contentsOf.FindStringSubmatch(from), contentsOf.FindStringSubmatch(to)
		if input == nil || input[2] != "inline" {
			continue
		}
		i, _ := strconv.Atoi(input[1])
		large, ok := t.large[i]
		if !ok {
			continue
		}
		steps[to] = strings.TrimSuffix(from, "inline") + "local"
		if output == nil {
			continue
		}
		k, _ := strconv.Atoi(output[1])
		if k >= len(out.Config.Ignition.Storage.Files) {
			continue
		}
		f := &out.Config.Ignition.Storage.Files[k]
		f.Contents = machineconfig.ContentResource(large.Hash)
		large.Path, large.FS = f.Path, t.in.FS
		out.Contents = append(out.Contents, large.LargeFile)
	}
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
func (out *Output) liftKernelArguments() {
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
