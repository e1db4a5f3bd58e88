package lineage

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/coreos/ignition/v2/config/util"

	ign "github.com/bunsen-os/bunsen/api/ignition"
)

type leaf struct {
	// in the config, such as `$.storage.files.0.contents.source`
	path string
	name string
	// the same in all layers, even if they have the leaf at different indexes of a list
	id  string
	raw string
	// the resource whose source is the value, or nil
	resource *ign.Resource
}

// detached reports whether a leaf only removes the value of another layer, such as a compression or a digest.
func (l leaf) detached() bool {
	return l.raw == "" && (strings.HasSuffix(l.name, ".compression") || strings.HasSuffix(l.name, ".verification.hash"))
}

type walker struct {
	key string
	out []leaf
}

func (w *walker) walk(v reflect.Value, at leaf, in *ign.Resource) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && v.Elem().Kind() == reflect.Struct {
			w.walk(v.Elem(), at, in)
		} else if !v.IsNil() {
			w.add(v.Elem(), at, in)
		}
	case reflect.Struct:
		w.fields(v, at)
	case reflect.Slice:
		for i := range v.Len() {
			w.walk(v.Index(i), element(at, v, i), in)
		}
	default:
		if !v.IsZero() { // Merge also ignores an empty plain value.
			w.add(v, at, in)
		}
	}
}

func (w *walker) fields(v reflect.Value, at leaf) {
	var in *ign.Resource
	if r, ok := v.Interface().(ign.Resource); ok {
		in = &r
	}
	var repeats map[string]struct{}
	if x, ok := v.Interface().(util.IgnoresDups); ok {
		repeats = x.IgnoreDuplicates()
	}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if field.Anonymous {
			w.fields(v.Field(i), at)
			continue
		}
		json, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if at.name == "" && json == w.key || named(v, json) {
			continue
		}
		next := leaf{path: at.path + "." + json, name: join(at.name, json), id: join(at.id, same(json))}
		// Two equal values in a list are different leaves, so the id needs their positions.
		if _, ok := repeats[field.Name]; ok {
			for j := range v.Field(i).Len() {
				n := strconv.Itoa(j)
				w.walk(v.Field(i).Index(j), leaf{
					path: next.path + "." + n, name: next.name + "." + n,
					id: next.id + "#" + n,
				}, nil)
			}
			continue
		}
		w.walk(v.Field(i), next, in)
	}
}

// named reports whether a leaf is a drop-in's name, which the attribute with the contents has already.
func named(v reflect.Value, json string) bool {
	d, ok := v.Interface().(ign.Dropin)
	return ok && json == "name" && d.Contents != nil
}

// same returns a field's name for the id of a leaf: one for two lists of which one removes entries of the other.
func same(json string) string {
	if json == "shouldNotExist" {
		return "shouldExist"
	}
	return json
}

func element(at leaf, list reflect.Value, i int) leaf {
	v, n := list.Index(i), strconv.Itoa(i)
	key := util.CallKey(v)
	next := leaf{path: at.path + "." + n, name: at.name + "." + n, id: at.id + "#" + key}
	if _, resource := v.Interface().(ign.Resource); v.Kind() == reflect.Struct && !resource {
		next.name = at.name + "." + key
	}
	return next
}

func (w *walker) add(v reflect.Value, at leaf, in *ign.Resource) {
	at.raw = fmt.Sprint(v.Interface())
	if name, ok := strings.CutSuffix(at.name, ".source"); ok && in != nil {
		at.name, at.resource = name, in
	}
	switch {
	case at.name == "user.id" || at.name == "user.name":
		at.name, at.id = "user", "user" // An owner by id replaces an owner by name, and the reverse.
	case at.name == "group.id" || at.name == "group.name":
		at.name, at.id = "group", "group"
	case strings.HasPrefix(at.name, "dropins."):
		at.name = strings.TrimSuffix(strings.TrimSuffix(at.name, ".contents"), ".name")
	case at.name == "mode":
		n, _ := strconv.Atoi(at.raw) // The text is a number that this package printed, so there is no error.
		at.raw = fmt.Sprintf("%04o", n)
	}
	w.out = append(w.out, at)
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "." + b
}
