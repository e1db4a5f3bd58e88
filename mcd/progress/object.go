package progress

import (
	"slices"
	"strings"
	"unicode"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// NotYetSet stands where the API wants a name and there is none.
const NotYetSet = "not-yet-set"

// What the API takes of irreconcilable changes.
const (
	mostChanges   = 32
	longestField  = 70
	longestChange = 4096
)

// Owners are the object's: its Node, with which it goes. There is none while nobody knows the Node's UID.
func (p Place) Owners() []metav1.OwnerReference {
	if p.Told.UID == "" {
		return nil
	}
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: p.Node, UID: types.UID(p.Told.UID)}}
}

// Spec is the object's: which node, of which pool, is to be in which config.
func (p Place) Spec() mcfgv1.MachineConfigNodeSpec {
	var spec mcfgv1.MachineConfigNodeSpec
	spec.Node.Name = p.Node
	spec.Pool.Name = named(Pool(p.Told.Desired))
	spec.ConfigVersion.Desired = named(p.Told.Desired)
	return spec
}

// Status is the object's. Before is the one that it has, the zero value for none, and is kept where nothing changed; generation
// is the object's. The desired config of a status is one that the node can take: before that is known, it is NotYetSet. A
// current config that nobody knows is "", which the API does not take: it is to be left out.
func (p Place) Status(before mcfgv1.MachineConfigNodeStatus, generation int64, now metav1.Time) mcfgv1.MachineConfigNodeStatus {
	version := mcfgv1.MachineConfigNodeStatusMachineConfigVersion{Desired: NotYetSet}
	if p.planned() || p.updated() {
		version.Desired = named(p.Told.Desired)
	}
	if current := named(p.Told.Current); current != NotYetSet {
		version.Current = current
	}
	return mcfgv1.MachineConfigNodeStatus{
		Conditions: p.conditions(before.Conditions, now), ObservedGeneration: max(before.ObservedGeneration, generation),
		ConfigVersion: &version, IrreconcilableChanges: p.irreconcilable(),
	}
}

// Same tells that a status says all that another one should, in whatever order; what others added does not count.
func Same(is, should mcfgv1.MachineConfigNodeStatus) bool {
	for _, c := range should.Conditions {
		if !slices.Contains(is.Conditions, c) {
			return false
		}
	}
	return is.ConfigVersion != nil && should.ConfigVersion != nil && *is.ConfigVersion == *should.ConfigVersion &&
		is.ObservedGeneration == should.ObservedGeneration && slices.Equal(is.IrreconcilableChanges, should.IrreconcilableChanges)
}

// named is a name that the API takes.
func named(name string) string {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return NotYetSet
	}
	return name
}

// irreconcilable are the refusals, those of one field together.
func (p Place) irreconcilable() (all []mcfgv1.IrreconcilableChangeDiff) {
	if p.Phase != Refused {
		return nil
	}
	at := map[string]int{}
	for _, r := range p.Refusals {
		path := fieldPath(r.Field)
		text := strings.TrimLeft(r.Field+": "+r.Why, ": ")
		if i, known := at[path]; known {
			all[i].Diff = cut(all[i].Diff+"\n"+text, longestChange)
			continue
		}
		if len(all) == mostChanges {
			break
		}
		at[path] = len(all)
		all = append(all, mcfgv1.IrreconcilableChangeDiff{FieldPath: path, Diff: cut(text, longestChange)})
	}
	return all
}

// fieldPath is the part of a MachineConfig that a refusal is about, as far as the API takes it: `storage.files /etc/motd append` is
// `spec.config.storage.files`.
func fieldPath(field string) string {
	section, of, _ := strings.Cut(field, " ")
	part, _, _ := strings.Cut(section, ".")
	switch {
	case section == "" || strings.HasPrefix(section, "/"):
		section = "config"
	case part == "storage", part == "systemd", part == "passwd", part == "ignition", of == "(of Ignition)":
		section = "config." + section
	}
	path := strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII || r != '.' && r != '[' && r != ']' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return r
	}, "spec."+section)
	return path[:min(len(path), longestField)]
}

// cut keeps as many characters as the API takes.
func cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}
