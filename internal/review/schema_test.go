package review_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// schema is the part of JSON Schema that docs/review.schema.json uses. Reading it fails on any other keyword, so that
// nothing is left unchecked.
type schema struct {
	Schema      string            `json:"$schema"`
	ID          string            `json:"$id"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Type        string            `json:"type"`
	Const       *string           `json:"const"`
	Enum        []string          `json:"enum"`
	Minimum     *float64          `json:"minimum"`
	Required    []string          `json:"required"`
	Properties  map[string]schema `json:"properties"`
	// Additional is false, or what each other property is.
	Additional json.RawMessage `json:"additionalProperties"`
	Items      *schema         `json:"items"`
}

func readSchema(t *testing.T) schema {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(docs, "review.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	return decodeSchema(t, raw)
}

func decodeSchema(t *testing.T, raw []byte) (s schema) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		t.Fatalf("reading the schema: %v", err)
	}
	return s
}

// check returns what of a document the schema does not take.
func (s schema) check(t *testing.T, raw []byte) []string {
	t.Helper()
	var doc any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return s.value(t, "$", doc)
}

func (s schema) value(t *testing.T, at string, v any) (bad []string) {
	t.Helper()
	say := func(format string, args ...any) { bad = append(bad, at+": "+fmt.Sprintf(format, args...)) }
	kind := ""
	switch v := v.(type) {
	case map[string]any:
		kind = "object"
		bad = append(bad, s.object(t, at, v)...)
	case []any:
		kind = "array"
		for i, item := range v {
			if s.Items != nil {
				bad = append(bad, s.Items.value(t, fmt.Sprintf("%s[%d]", at, i), item)...)
			}
		}
	case string:
		kind = "string"
		if s.Const != nil && v != *s.Const || s.Enum != nil && !slices.Contains(s.Enum, v) {
			say("%q is none of its values", v)
		}
	case float64:
		kind = "integer"
		if v != float64(int(v)) || s.Minimum != nil && v < *s.Minimum {
			say("%v is out of range", v)
		}
	case bool:
		kind = "boolean"
	}
	if kind != s.Type {
		say("is a %q, not a %q", kind, s.Type)
	}
	return bad
}

func (s schema) object(t *testing.T, at string, v map[string]any) (bad []string) {
	t.Helper()
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			bad = append(bad, at+": lacks "+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		p, ok := s.Properties[name]
		switch {
		case ok:
			bad = append(bad, p.value(t, at+"."+name, v[name])...)
		case string(s.Additional) == "false" || s.Additional == nil:
			bad = append(bad, at+": has "+name)
		default:
			bad = append(bad, decodeSchema(t, s.Additional).value(t, at+"."+name, v[name])...)
		}
	}
	return bad
}

// fields lists every property by its path, `pools[].items[].diff`, in lexical order of each level.
func (s schema) fields(at string) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		path := strings.TrimPrefix(at+"."+name, ".")
		if p.Items != nil {
			path += "[]"
			out = append(out, path)
			out = append(out, p.Items.fields(path)...)
			continue
		}
		out = append(out, path)
		out = append(out, p.fields(path)...)
	}
	return out
}
