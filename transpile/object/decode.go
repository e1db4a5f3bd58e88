package object

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Read reads YAML as an object without a type.
func Read(src []byte) (map[string]any, error) {
	var out map[string]any
	if err := yaml.Unmarshal(src, &out); err != nil {
		return nil, fmt.Errorf("reading the object: %w", err)
	}
	return out, nil
}

// Part is an object and where it stands in a document.
type Part struct {
	// Object to decode.
	Object map[string]any
	// Path of the object in the document; "$" is the document itself.
	Path string
	// Places of the document.
	Places origin.Map
	// What the object is called: `KubeletConfig`.
	What string
}

var quoted = regexp.MustCompile(`"([^"]+)"`)

// Decode fills a typed object. It names every field that the type does not have, and those whose values are not of their types.
func (p Part) Decode(into any) []origin.Finding {
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(p.Object, into, true)
	if err == nil {
		return nil
	}
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		var out []origin.Finding
		for _, e := range strict.Errors() {
			field := ""
			if m := quoted.FindStringSubmatch(e.Error()); m != nil {
				field = strings.NewReplacer("[", ".", "]", "").Replace(m[1])
			}
			out = append(out, p.fatal(field, fmt.Sprintf("unknown field %q: a %s has none of that name; check its spelling and indentation", field, p.What)))
		}
		return out
	}
	try := func(o map[string]any) error {
		return runtime.DefaultUnstructuredConverter.FromUnstructured(o, reflect.New(reflect.TypeOf(into).Elem()).Interface())
	}
	var out []origin.Finding
	for _, path := range culprits(p.Object, try) {
		only := alone(p.Object, path)
		_, problem := Mistyped(only, reflect.New(reflect.TypeOf(into).Elem()).Interface(), try(only))
		out = append(out, p.fatal(strings.Join(path, "."), "not a "+p.What+": "+problem))
	}
	if len(out) == 0 {
		out = append(out, p.fatal("", "not a "+p.What+": "+err.Error()))
	}
	return out
}

func (p Part) fatal(field, message string) origin.Finding {
	path := p.Path
	if field != "" {
		path += "." + field
	}
	at, _ := p.Places.Find(path)
	return origin.Finding{Rule: "field", Message: message, At: at}
}

// culprits finds the fields that keep an object from being decoded: each alone does so too.
func culprits(o map[string]any, try func(map[string]any) error) [][]string {
	var out [][]string
	for _, k := range slices.Sorted(maps.Keys(o)) {
		if try(map[string]any{k: o[k]}) == nil {
			continue
		}
		below, _ := o[k].(map[string]any)
		deeper := culprits(below, func(inner map[string]any) error { return try(map[string]any{k: inner}) })
		if len(deeper) == 0 {
			deeper = [][]string{nil}
		}
		for _, d := range deeper {
			out = append(out, append([]string{k}, d...))
		}
	}
	return out
}

// alone is an object with one of its fields only.
func alone(o map[string]any, path []string) map[string]any {
	if len(path) > 1 {
		below, _ := o[path[0]].(map[string]any)
		return map[string]any{path[0]: alone(below, path[1:])}
	}
	return map[string]any{path[0]: o[path[0]]}
}

// Mistyped says which field of an object has a value of another type than its own; the converter's errors name none.
// Where it cannot tell, the field is empty and the problem is err's.
func Mistyped(object map[string]any, into any, err error) (field, problem string) {
	var typed *json.UnmarshalTypeError
	raw, jsonErr := json.Marshal(object)
	if jsonErr == nil && errors.As(json.Unmarshal(raw, into), &typed) && typed.Field != "" {
		problem = fmt.Sprintf("%s is a %s here and should be of type %s", typed.Field, typed.Value, typed.Type)
		if typed.Type.Kind() == reflect.String {
			problem += "; put it in quotes"
		}
		return typed.Field, problem
	}
	return "", err.Error()
}
