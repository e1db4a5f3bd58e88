package kinds

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

// ReadObject reads YAML as an object without a type.
func ReadObject(src []byte) (map[string]any, error) {
	var out map[string]any
	if err := yaml.Unmarshal(src, &out); err != nil {
		return nil, fmt.Errorf("reading the object: %w", err)
	}
	return out, nil
}

// ObjectPart is an object within a document, with its position.
type ObjectPart struct {
	// Object is the object to decode.
	Object map[string]any
	// Path is the path of the object in the document; "$" is the document itself.
	Path string
	// Places are the positions of the document's parts.
	Places origin.Map
	// What is the name of the object in messages, such as `KubeletConfig`.
	What string
}

var quotedText = regexp.MustCompile(`"([^"]+)"`)

// Decode fills a typed object. Decode reports every field that the type does not have, and every field whose value has
// a wrong type.
func (p ObjectPart) Decode(into any) []origin.Finding {
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(p.Object, into, true)
	if err == nil {
		return nil
	}
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		var out []origin.Finding
		for _, e := range strict.Errors() {
			field := ""
			if m := quotedText.FindStringSubmatch(e.Error()); m != nil {
				field = strings.NewReplacer("[", ".", "]", "").Replace(m[1])
			}
			out = append(out,
				p.fatal(field, fmt.Sprintf("unknown field %q: %s has none of that name; check its spelling and "+
					"indentation", field, p.named())))
		}
		return out
	}
	var out []origin.Finding
	for _, m := range Mistakes(p.Object, into, err) {
		if m.Single {
			m.Problem += "; put it in brackets"
		}
		out = append(out, p.fatal(m.Field, "not "+p.named()+": "+m.Problem))
	}
	return out
}

// named returns the name of the object with its article.
func (p ObjectPart) named() string {
	if strings.ContainsAny(p.What[:min(1, len(p.What))], "AEIOU") {
		return "an " + p.What
	}
	return "a " + p.What
}

func (p ObjectPart) fatal(field, message string) origin.Finding {
	path := p.Path
	if field != "" {
		path += "." + field
	}
	at, _ := p.Places.Find(path)
	return origin.Finding{Rule: "field", Message: message, At: at}
}

// Mistake is a value that is not of its field's type.
type Mistake struct {
	// Field is a path of words with dots between them, such as spec.windows.1.duration. Field is empty if the path is
	// not known.
	Field string
	// Problem describes the mistake.
	Problem string
	// Single is true if the field requires a list of texts, and the value is a single text.
	Single bool
}

// Mistakes finds all values because of which an object cannot be decoded into a type. The parameter err is the
// converter's error, which names no field. The result has at least one mistake.
func Mistakes(object map[string]any, into any, err error) []Mistake {
	try := func(v any) error {
		o, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		return runtime.DefaultUnstructuredConverter.FromUnstructured(o,
			reflect.New(reflect.TypeOf(into).Elem()).Interface())
	}
	var out []Mistake
	for _, path := range culprits(object, try) {
		only := alone(object, path).(map[string]any) // The type is certain: for an object, alone returns an object.
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

// culprits returns the paths of all values because of which an object cannot be decoded. An object with only one of
// these values cannot be decoded either. The words of a path are those of a Mistake's Field.
func culprits(v any, try func(any) error) [][]string {
	var out [][]string
	look := func(word string, part any, wrap func(any) any) {
		inner := func(part any) error { return try(wrap(part)) }
		if inner(part) == nil {
			return
		}
		var deeper [][]string
		// If even the empty list or mapping cannot be decoded, the field accepts no list or mapping at all.
		if inner(hollow(part)) == nil {
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

// hollow returns an empty list for a list and an empty mapping for a mapping. hollow returns nil, which every type
// accepts, for a scalar.
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

// alone returns a copy of a value that contains only the part at a path.
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

// written returns a path in the usual notation: spec.windows[1].duration.
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

// mistyped returns which type the value of a field has and which it should have. mistyped returns "" if it cannot find
// these types.
func mistyped(field string, object map[string]any, into any) (problem string, single bool) {
	var typed *json.UnmarshalTypeError
	raw, err := json.Marshal(object)
	if err != nil || !errors.As(json.Unmarshal(raw, into), &typed) || typed.Field == "" {
		return "", false
	}
	problem = fmt.Sprintf("%s is %s here and should be %s", field, typeOfValue(typed.Value), typeName(typed.Type))
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

// typeOfValue describes a value by the words that encoding/json has for it.
func typeOfValue(value string) string {
	switch word, _, _ := strings.Cut(value, " "); word {
	case "string":
		return "a text"
	case "array":
		return "a list"
	case "object":
		return "a mapping"
	case "bool":
		return "true or false"
	default:
		return "a number"
	}
}

// typeName describes a type of Go in the words of YAML.
func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number from 0"
	default:
		return "a mapping"
	}
}

// durations explains how to write a duration.
const durations = "write 1h, 30m or 1h30m"

// untyped returns the error of a type's own decoder. If Bunsen knows advice on what to write, the text contains it.
func untyped(field string, err error) string {
	text := err.Error()
	if duration, ok := strings.CutPrefix(text, "time: "); ok && strings.Contains(duration, "duration") {
		return fmt.Sprintf("%s: %s; %s", field, duration, durations)
	}
	if strings.HasPrefix(text, "quantities must match") {
		return field + " is no quantity; write it as 8192, 500m, 10Mi or 1Gi"
	}
	return field + ": " + text
}
