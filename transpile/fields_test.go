package transpile_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/transpile"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// unchanging are the ends of the fields that may be no change by themselves, each with the reason.
var unchanging = map[string]string{
	"Dropins.Name":      "a drop-in without contents is no file",
	"HTTPHeaders.Name":  "Ignition refuses headers for contents in the config, and Bunsen for addresses",
	"HTTPHeaders.Value": "as their names",
	"Verification.Hash": "every program verifies it; the contents that it belongs to are the change",
	"Overwrite":         "a node replaces what is there, and Ignition reads it at the first boot",
	"ShouldExist":       "true is the default; false is a change",
	"Ignition.Version":  "all versions become one",
}

// whyUnchanging returns the reason why a field may be no change by itself; empty if it must be one.
func whyUnchanging(name string) string {
	for end, why := range unchanging {
		if name == end || strings.HasSuffix(name, "."+end) {
			return why
		}
	}
	return ""
}

// TestAFieldCountsOrIsAWarning holds for all fields of the original's MachineConfig and of Ignition's config, also
// those of a later version: a value there is a change of a machine, or a warning at its line.
func TestAFieldCountsOrIsAWarning(t *testing.T) {
	spec := reflect.TypeFor[mcfgv1.MachineConfigSpec]()
	for i := range spec.NumField() {
		var from, to mcfgv1.MachineConfigSpec
		name := spec.Field(i).Name
		if name == "Config" { // The fields of Ignition's config follow.
			continue
		}
		fill(reflect.ValueOf(&to).Elem().Field(i), name)
		check(t, name, from, to)
	}
	for _, path := range lintLeaves(reflect.TypeFor[ign.Config](), nil) {
		var from, to ign.Config
		name := strings.Join(path, ".")
		set(reflect.ValueOf(&from).Elem(), path, false)
		set(reflect.ValueOf(&to).Elem(), path, true)
		check(t, name, specOf(t, from), specOf(t, to))
	}
}

// check compares two specs that differ by one field.
func check(t *testing.T, name string, from, to mcfgv1.MachineConfigSpec) {
	t.Helper()
	was, is := configOf(from), configOf(to)
	counts := len(disruption.Compare(was, is)) > 0
	warned := slices.ContainsFunc(transpile.Lint(fstest.MapFS{}, is, "", origin.Map{}), func(f origin.Finding) bool {
		return f.Rule == "ignored-field"
	})
	switch {
	case counts && warned:
		t.Errorf("%s has an effect, and a warning says that it has none", name)
	case !counts && !warned && whyUnchanging(name) == "":
		t.Errorf("%s is no change for any machine: warn of it, read it, or say here why it is none", name)
	}
}

// configOf reads a spec without Ignition's rules, because a single field may break them.
func configOf(spec mcfgv1.MachineConfigSpec) machineconfig.Config {
	raw := spec.Config.Raw
	spec.Config.Raw = nil
	c, err := machineconfig.Parse(spec)
	if err == nil && raw != nil {
		c.HasIgnition = true
		err = json.Unmarshal(raw, &c.Ignition)
	}
	if err != nil {
		panic(err)
	}
	return c
}

func specOf(t *testing.T, c ign.Config) mcfgv1.MachineConfigSpec {
	t.Helper()
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: raw}}
}

// lintLeaves returns the paths of all fields without fields of their own.
func lintLeaves(of reflect.Type, path []string) (all [][]string) {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice:
		return lintLeaves(of.Elem(), path)
	case reflect.Struct:
		for i := range of.NumField() {
			f := of.Field(i)
			if f.Anonymous {
				all = append(all, lintLeaves(f.Type, path)...)
			} else {
				all = append(all, lintLeaves(f.Type, append(slices.Clone(path), f.Name))...)
			}
		}
		return all
	}
	return [][]string{path}
}

// keys are the fields that name an item of a list.
var keys = []string{"Path", "Name", "Device", "Label"}

// set walks to a field and fills it, or only makes the items on the way. The items have their names, unless the field
// itself is the name.
func set(at reflect.Value, path []string, isFilled bool) {
	switch at.Kind() {
	case reflect.Pointer:
		if len(path) > 0 {
			at.Set(reflect.New(at.Type().Elem()))
			set(at.Elem(), path, isFilled)
			return
		}
	case reflect.Slice:
		if len(path) > 0 {
			if len(path) == 1 && slices.Contains(keys, path[0]) && !isFilled {
				return // Without its name, there is no item.
			}
			at.Set(reflect.MakeSlice(at.Type(), 1, 1))
			set(at.Index(0), path, isFilled)
			return
		}
	}
	if len(path) == 0 {
		if isFilled {
			fill(at, "value")
		}
		return
	}
	for _, key := range keys {
		if f := at.FieldByName(key); f.IsValid() && key != path[0] {
			fill(f, "/"+strings.ToLower(key))
		}
	}
	if f := at.FieldByName("Source"); f.IsValid() && path[0] != "Source" {
		fill(f, "data:,x")
	}
	set(at.FieldByName(path[0]), path[1:], isFilled)
}

// fill sets a value that is not the zero value.
func fill(at reflect.Value, text string) {
	switch at.Kind() {
	case reflect.Pointer:
		at.Set(reflect.New(at.Type().Elem()))
		fill(at.Elem(), text)
	case reflect.Slice:
		at.Set(reflect.MakeSlice(at.Type(), 1, 1))
		fill(at.Index(0), text)
	case reflect.String:
		at.SetString(text)
	case reflect.Bool:
		at.SetBool(true)
	case reflect.Int:
		at.SetInt(7)
	default:
		panic("no value for " + at.Type().String())
	}
}
