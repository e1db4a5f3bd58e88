package review

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/policy/secret"
	"github.com/bunsen-os/bunsen/transpile"
)

// shownElsewhere are the fields of specs that ComparePolicies and ComparePools tell.
var shownElsewhere = map[string][]string{
	policyKind: {"nodeDisruptionPolicy"},
	poolKind:   {"nodeSelector", "maxUnavailable"},
}

// poolKind is the kind of pools.
const poolKind = "MachineConfigPool"

// CompareObjects names each difference between the objects of cluster/ of two repositories that is in no rendered config and that neither
// ComparePolicies nor ComparePools tells: how pools are rolled out, what becomes of drift, which pools there are. The lines are in
// the order of kinds, names and fields.
func CompareObjects(base, head []transpile.ClusterObject) (out []string) {
	was, is := objectsByName(base), objectsByName(head)
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, b := was[name], is[name]
		kind := names[name].GetKind()
		switch {
		case a != nil && b != nil && reflect.DeepEqual(a.Object, b.Object):
			continue
		case kind == poolKind && a == nil && !isStandard(b.GetName()):
			out = append(out, name+": added; a node that its nodeSelector matches leaves its present pool and takes this pool's config, which may reboot it")
			continue
		case kind == poolKind && b == nil && isStandard(a.GetName()):
			out = append(out, name+": not declared here any more; every cluster has this pool, so it stays")
			continue
		case kind == poolKind && b == nil:
			out = append(out, name+": removed; its nodes move to pool worker, or to another pool that selects them, and take that pool's config, which may reboot them")
			continue
		case kind == policyKind: // without its rules it has few fields, and each is named
		case a == nil:
			out = append(out, name+": added")
		case b == nil:
			out = append(out, name+": removed")
		}
		for _, line := range specChanges(kind, a, b) {
			out = append(out, name+": "+line)
		}
	}
	return out
}

// specChanges names what differs between two objects of one kind, each of which may be nil, and behind the last difference of a field
// what is so now.
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

// isStandard reports whether the controller makes a pool by itself.
func isStandard(pool string) bool { return pool == "master" || pool == "worker" }

// objectsByName has the objects by kind and name.
func objectsByName(objects []transpile.ClusterObject) map[string]*unstructured.Unstructured {
	out := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		out[o.Object.GetKind()+" "+o.Object.GetName()] = o.Object
	}
	return out
}

// comparedFields are the fields of a spec, with labels and annotations beside them; empty for no object.
func comparedFields(kind string, of *unstructured.Unstructured) map[string]any {
	out := map[string]any{}
	if of == nil {
		return out
	}
	spec, _, _ := unstructured.NestedMap(of.Object, "spec") // transpiling checked that it is a mapping
	maps.Copy(out, spec)
	for _, field := range shownElsewhere[kind] {
		delete(out, field)
	}
	if kind == policyKind && out["managementState"] == "Managed" { // the API asks for it, and no other value is different here
		delete(out, "managementState")
	}
	for _, field := range []string{"labels", "annotations"} {
		if entries, ok, _ := unstructured.NestedMap(of.Object, "metadata", field); ok && len(entries) > 0 {
			out[field] = entries
		}
	}
	return out
}

// fieldChanges names what differs below a field.
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
		return []string{fmt.Sprintf("%s added (%s)", field, valueText(field, is))}
	case is == nil:
		return []string{fmt.Sprintf("%s removed (%s)", field, valueText(field, was))}
	}
	return []string{fmt.Sprintf("%s: %s → %s", field, valueText(field, was), valueText(field, is))}
}

// listChanges names the items that one list has and the other has not.
func listChanges(field string, before, after []any) (out []string) {
	without := func(all, other []any, what string) {
		for _, item := range all {
			if !slices.ContainsFunc(other, func(o any) bool { return reflect.DeepEqual(o, item) }) {
				out = append(out, fmt.Sprintf("%s: %s %s", field, what, valueText(field, item)))
			}
		}
	}
	without(before, after, "removed")
	without(after, before, "added")
	if len(out) == 0 {
		out = append(out, field+": other order: "+valueText(field, after))
	}
	return out
}

// valueText writes the value of a field on one line, as YAML in its short form, with a mark for each secret.
func valueText(field string, v any) string {
	switch v := v.(type) {
	case map[string]any:
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, key+": "+valueText(field+"."+key, v[key]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = valueText(field, item)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case string:
		v = maskedValue(field, v)
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

// maskedValue masks the secrets of a text by its field's name and by its form. A list of marked paths holds none.
func maskedValue(field, value string) string {
	key := field[strings.LastIndexByte(field, '.')+1:] + ": "
	if strings.HasSuffix(field, v1alpha1.SecretPathsAnnotation) {
		key = ""
	}
	text, ok := strings.CutPrefix(masked(key+value), key)
	if !ok {
		return secret.HiddenWithDigest(value)
	}
	return text
}
