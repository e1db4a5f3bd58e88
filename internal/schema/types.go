package schema

import (
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// reader makes schemas of Go types.
type reader struct {
	// tag is the tag of a field that has its key: yaml or json
	tag string
	// describe returns the description of a field and whether it is required; the schema has no field without one.
	// nil: as SwaggerDoc of the struct has it
	describe func(path string) (text string, required bool)
}

var marshaler = reflect.TypeFor[json.Marshaler]()

// special are types whose JSON differs from their fields.
var special = map[reflect.Type]func() *Node{
	reflect.TypeFor[metav1.Duration]():           text,
	reflect.TypeFor[metav1.Time]():               text,
	reflect.TypeFor[metav1.MicroTime]():          text,
	reflect.TypeFor[intstr.IntOrString]():        func() *Node { return &Node{Type: Types{"integer", "string"}} },
	reflect.TypeFor[resource.Quantity]():         func() *Node { return &Node{Type: Types{"integer", "number", "string"}} },
	reflect.TypeFor[metav1.ObjectMeta]():         metadata,
	reflect.TypeFor[metav1.FieldsV1]():           func() *Node { return &Node{} },
	reflect.TypeFor[metav1.ManagedFieldsEntry](): func() *Node { return &Node{} },
}

func text() *Node { return &Node{Type: Types{"string"}} }

func texts() *Node {
	return &Node{Type: Types{"object"}, Additional: &Additional{&Node{Type: Types{"string"}}}}
}

// metadata is what people write into metadata.
func metadata() *Node {
	return &Node{Type: Types{"object"}, Properties: map[string]*Node{
		"name": text(), "namespace": text(), "labels": texts(), "annotations": texts(),
	}}
}

// of returns the schema of a type, whose value is at a path. A type within itself is any value.
func (r reader) of(t reflect.Type, path string, within []reflect.Type) *Node {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if known, ok := special[t]; ok {
		return known()
	}
	switch t.Kind() {
	case reflect.Bool:
		return &Node{Type: Types{"boolean"}}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8,
		reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &Node{Type: Types{"integer"}}
	case reflect.Float32, reflect.Float64:
		return &Node{Type: Types{"number"}}
	case reflect.String:
		return text()
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return text()
		}
		return &Node{Type: Types{"array"}, Items: r.of(t.Elem(), path, within)}
	case reflect.Map:
		return &Node{Type: Types{"object"}, Additional: &Additional{r.of(t.Elem(), path, within)}}
	case reflect.Struct:
	default:
		return &Node{}
	}
	if r.tag == "json" && (t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler)) {
		return &Node{}
	}
	for _, w := range within {
		if w == t {
			return &Node{}
		}
	}
	return r.object(t, path, append(within, t))
}

func (r reader) object(t reflect.Type, path string, within []reflect.Type) *Node {
	out := &Node{Type: Types{"object"}, Properties: map[string]*Node{}, Additional: &Additional{}}
	r.fields(out, t, path, within)
	return out
}

// fields adds the fields of a struct. Those of an embedded struct without a key are its own.
func (r reader) fields(out *Node, t reflect.Type, path string, within []reflect.Type) {
	swagger := docsOf(t)
	for i := range t.NumField() {
		f := t.Field(i)
		key, _, _ := strings.Cut(f.Tag.Get(r.tag), ",")
		switch {
		case f.Anonymous && key == "":
			r.fields(out, f.Type, path, within)
			continue
		case key == "" || key == "-":
			continue
		}
		at := strings.TrimPrefix(path+"."+key, ".")
		p := r.of(f.Type, at, within)
		p.Description = swagger[key]
		if r.describe != nil {
			text, required := r.describe(at)
			if text == "" {
				continue
			}
			p.Description = text
			if required {
				out.Required = append(out.Required, key)
			}
		}
		out.Properties[key] = p
	}
}

// docsOf returns the comments of a struct's fields, for the types that have them at run time.
func docsOf(t reflect.Type) map[string]string {
	if with, ok := reflect.New(t).Interface().(interface{ SwaggerDoc() map[string]string }); ok {
		return with.SwaggerDoc()
	}
	return nil
}
