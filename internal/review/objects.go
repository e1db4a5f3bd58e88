package review

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bunsen-os/bunsen/transpile"
)

// shownElsewhere are the fields of specs that comparePolicies and comparePools show.
var shownElsewhere = map[string][]string{
	PolicyKind: {"nodeDisruptionPolicy"},
	PoolKind:   {"nodeSelector", "maxUnavailable"},
}

// PoolKind is the kind of pools.
const PoolKind = "MachineConfigPool"

// CompareObjects returns a line for each difference between the objects of two cluster/ directories. CompareObjects
// skips differences in rendered configs, and differences that comparePolicies and comparePools show. The lines are in
// the order of kinds, names and fields.
func CompareObjects(base, head []transpile.ClusterObject) (out []string) {
	was, is := objectsByName(base), objectsByName(head)
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, b := was[name], is[name]
		if a != nil && b != nil && reflect.DeepEqual(a.Object, b.Object) {
			continue
		}
		kind := names[name].GetKind()
		if line := existence(a, b); line != "" {
			out = append(out, name+": "+line)
		}
		if kind == PoolKind && (a == nil && !IsStandard(b.GetName()) || b == nil) {
			continue
		}
		for _, line := range specChanges(kind, a, b) {
			out = append(out, name+": "+line)
		}
	}
	return out
}

// existence returns a text that says that an object is added or removed, or "". existence returns "" for a
// MachineConfiguration, because each of its few fields has a line.
func existence(was, is *unstructured.Unstructured) string {
	switch {
	case was == nil && is.GetKind() == PoolKind && !IsStandard(is.GetName()):
		return "added; a node that its nodeSelector matches leaves its present pool and gets this pool's config, " +
			"which may reboot it"
	case was == nil && is.GetKind() != PolicyKind:
		return "added"
	case was == nil || is != nil || was.GetKind() == PolicyKind:
		return ""
	case was.GetKind() == PoolKind && IsStandard(was.GetName()):
		return "not declared here any more; every cluster has this pool, so it stays"
	case was.GetKind() == PoolKind:
		return "removed; its nodes move to pool worker, or to another pool that selects them, and get that pool's " +
			"config, which may reboot them"
	default:
		return "removed"
	}
}

// specChanges returns a line for each difference of two objects of one kind. Each of the two objects may be nil. The
// last line of a field ends with the meaning of the field.
func specChanges(kind string, was, is *unstructured.Unstructured) (out []string) {
	a, b, means := comparedFields(kind, was), comparedFields(kind, is), meanings(kind, was, is)
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, field := range slices.Sorted(maps.Keys(all)) {
		lines := fieldChanges(field, a[field], b[field])
		comesOrGoes := (was == nil || is == nil) && (field == "pools" || field == "machineConfigPoolSelector")
		if meaning := means[field]; meaning != "" && len(lines) > 0 && !comesOrGoes {
			lines[len(lines)-1] += ": " + meaning
		}
		out = append(out, lines...)
	}
	return out
}

// IsStandard reports whether the pool is one of the pools that every cluster has.
func IsStandard(pool string) bool { return pool == "master" || pool == "worker" }

// objectsByName returns the objects by kind and name.
func objectsByName(objects []transpile.ClusterObject) map[string]*unstructured.Unstructured {
	out := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		out[o.Object.GetKind()+" "+o.Object.GetName()] = o.Object
	}
	return out
}

// comparedFields are the fields of a spec with the labels and annotations. A nil object has none.
func comparedFields(kind string, of *unstructured.Unstructured) map[string]any {
	out := map[string]any{}
	if of == nil {
		return out
	}
	spec, _, _ := unstructured.NestedMap(of.Object, "spec") // The transpiler has checked that the spec is a mapping.
	maps.Copy(out, spec)
	for _, field := range shownElsewhere[kind] {
		delete(out, field)
	}
	// The API requires this field, and Bunsen ignores its value.
	if kind == PolicyKind && out["managementState"] == "Managed" {
		delete(out, "managementState")
	}
	for _, field := range []string{"labels", "annotations"} {
		if entries, ok, _ := unstructured.NestedMap(of.Object, "metadata", field); ok && len(entries) > 0 {
			out[field] = entries
		}
	}
	return out
}

// fieldChanges returns a line for each difference below a field.
func fieldChanges(field string, was, is any) []string {
	a, aMap := was.(map[string]any)
	b, bMap := is.(map[string]any)
	before, aList := was.([]any)
	after, bList := is.([]any)
	switch {
	case reflect.DeepEqual(was, is):
		return nil
	case aMap && bMap:
		all := maps.Clone(a)
		maps.Copy(all, b)
		var out []string
		for _, key := range slices.Sorted(maps.Keys(all)) {
			out = append(out, fieldChanges(field+"."+key, a[key], b[key])...)
		}
		return out
	case aList && bList:
		return listChanges(field, before, after)
	case was == nil:
		return []string{fmt.Sprintf("%s added (%s)", field, valueText(is))}
	case is == nil:
		return []string{fmt.Sprintf("%s removed (%s)", field, valueText(was))}
	}
	return []string{fmt.Sprintf("%s: %s → %s", field, valueText(was), valueText(is))}
}

// listChanges returns a line for each item that only one of the lists has.
func listChanges(field string, before, after []any) (out []string) {
	without := func(all, other []any, what string) {
		for _, item := range all {
			if !slices.ContainsFunc(other, func(o any) bool { return reflect.DeepEqual(o, item) }) {
				out = append(out, fmt.Sprintf("%s: %s %s", field, what, valueText(item)))
			}
		}
	}
	without(before, after, "removed")
	without(after, before, "added")
	if len(out) == 0 {
		out = append(out, field+": other order: "+valueText(after))
	}
	return out
}

// valueText writes a value as YAML on one line.
func valueText(v any) string {
	switch v := v.(type) {
	case map[string]any:
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, key+": "+valueText(v[key]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = valueText(item)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case string:
		if v == "" || strings.ContainsAny(v, "{}[],:#\"' \n") {
			raw, err := json.Marshal(v)
			if err == nil {
				return string(raw)
			}
		}
		return v
	default:
		return fmt.Sprint(v)
	}
}
