package object

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	var out []origin.Finding
	for _, m := range Mistakes(p.Object, into, err) {
		if m.Single {
			m.Problem += "; put it in brackets"
		}
		out = append(out, p.fatal(m.Field, "not a "+p.What+": "+m.Problem))
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

// Mistake is a value that is not of its field's type.
type Mistake struct {
	// Field as a path whose words have dots between them, the index of a list being one of them; empty where it is not known.
	Field string
	// Problem in words.
	Problem string
	// Single is a text where a list of texts is wanted.
	Single bool
}

// Mistakes finds all values that keep an object from being decoded into a type; err is what the converter says, which names
// no field. There is at least one.
func Mistakes(object map[string]any, into any, err error) []Mistake {
	try := func(v any) error {
		o, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		return runtime.DefaultUnstructuredConverter.FromUnstructured(o, reflect.New(reflect.TypeOf(into).Elem()).Interface())
	}
	var out []Mistake
	for _, path := range culprits(object, try) {
		only := alone(object, path).(map[string]any) // what is alone in an object is an object
		m := Mistake{Field: strings.Join(path, ".")}
		m.Problem, m.Single = mistyped(written(path), only, reflect.New(reflect.TypeOf(into).Elem()).Interface())
		if m.Problem == "" {
			m.Problem = untyped(written(path), try(only))
		}
		out = append(out, m)
	}
	if len(out) == 0 {
		out = append(out, Mistake{Problem: err.Error()})
	}
	return out
}

// culprits finds what keeps a value from being decoded: each alone does so too. Paths have the words of a Mistake's Field.
func culprits(v any, try func(any) error) [][]string {
	var out [][]string
	look := func(word string, part any, wrap func(any) any) {
		inner := func(part any) error { return try(wrap(part)) }
		if inner(part) == nil {
			return
		}
		var deeper [][]string
		if inner(hollow(part)) == nil { // else it is no place for a list or a mapping, whatever is in it
			deeper = culprits(part, inner)
		}
		if len(deeper) == 0 {
			deeper = [][]string{nil}
		}
		for _, d := range deeper {
			out = append(out, append([]string{word}, d...))
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			look(k, v[k], func(part any) any { return map[string]any{k: part} })
		}
	case []any:
		for i, part := range v {
			look(strconv.Itoa(i), part, func(part any) any { return []any{part} })
		}
	}
	return out
}

// hollow is a list or a mapping without what is in it; nil is fine anywhere.
func hollow(v any) any {
	switch v.(type) {
	case map[string]any:
		return map[string]any{}
	case []any:
		return []any{}
	default:
		return nil
	}
}

// alone is a value with one of its parts only.
func alone(v any, path []string) any {
	if len(path) == 0 {
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		return map[string]any{path[0]: alone(v[path[0]], path[1:])}
	case []any:
		i, _ := strconv.Atoi(path[0])
		return []any{alone(v[i], path[1:])}
	default:
		return v
	}
}

// written is a path as people write it: spec.windows[1].duration.
func written(path []string) string {
	var b strings.Builder
	for i, word := range path {
		if _, err := strconv.Atoi(word); err == nil && i > 0 {
			b.WriteString("[" + word + "]")
			continue
		}
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(word)
	}
	return b.String()
}

// mistyped says of what type the value of a field is and should be; empty where it cannot tell.
func mistyped(field string, object map[string]any, into any) (problem string, single bool) {
	var typed *json.UnmarshalTypeError
	raw, err := json.Marshal(object)
	if err != nil || !errors.As(json.Unmarshal(raw, into), &typed) || typed.Field == "" {
		return "", false
	}
	problem = fmt.Sprintf("%s is a %s here and should be of type %s", field, typed.Value, typed.Type)
	if typed.Value == "array" {
		problem = fmt.Sprintf("%s is a list here and should be of type %s", field, typed.Type)
	}
	switch {
	case typed.Type == reflect.TypeFor[metav1.Duration]():
		problem = field + " is no duration; " + durations
	case typed.Type.Kind() == reflect.String:
		problem += "; put it in quotes"
	case typed.Type.Kind() == reflect.Slice && typed.Type.Elem().Kind() == reflect.String && typed.Value == "string":
		single = true
	}
	return problem, single
}

// durations is how to write one.
const durations = "write 1h, 30m or 1h30m"

// untyped says what a type's own decoder says, and what to write where that is known.
func untyped(field string, err error) string {
	text := err.Error()
	if duration, ok := strings.CutPrefix(text, "time: "); ok && strings.Contains(duration, "duration") {
		return fmt.Sprintf("%s: %s; %s", field, duration, durations)
	}
	return field + ": " + text
}
