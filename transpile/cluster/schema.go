package cluster

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// schemas are compact copies of the specs' schemas in config/crd, one file for each kind. A test compares the schemas
// with the CRDs. The flag -update of this test writes the schemas.
//
//go:embed *.json
var schemas embed.FS

// SchemaProblem is a value that a schema does not allow.
type SchemaProblem struct {
	// Path is the path of the field, such as spec.gates[2].name.
	Path string
	// Text says what is wrong and what is allowed.
	Text string
}

// node is one level of a structural schema, with the keywords that Check enforces.
type node struct {
	Properties    map[string]*node `json:"properties,omitempty"`
	Additional    *node            `json:"additionalProperties,omitempty"`
	Items         *node            `json:"items,omitempty"`
	Required      []string         `json:"required,omitempty"`
	Enum          []any            `json:"enum,omitempty"`
	ListType      string           `json:"x-kubernetes-list-type,omitempty"`
	ListKeys      []string         `json:"x-kubernetes-list-map-keys,omitempty"`
	Pattern       string           `json:"pattern,omitempty"`
	MinProperties *float64         `json:"minProperties,omitempty"`
	limits
}

// limits are the bounds of a number, a text and a list.
type limits struct {
	Minimum   *float64 `json:"minimum,omitempty"`
	Maximum   *float64 `json:"maximum,omitempty"`
	MinLength *float64 `json:"minLength,omitempty"`
	MaxLength *float64 `json:"maxLength,omitempty"`
	MinItems  *float64 `json:"minItems,omitempty"`
	MaxItems  *float64 `json:"maxItems,omitempty"`
}

// CheckSchema returns all problems of an object's spec, in the order of fields. A kind without a schema in this package
// has no problems. The error means that the schema itself is broken.
func CheckSchema(kind string, object map[string]any) ([]SchemaProblem, error) {
	raw, err := schemas.ReadFile(strings.ToLower(kind) + ".json")
	if err != nil {
		return nil, nil // The kind has no schema in this package.
	}
	var root node
	if err := json.Unmarshal(raw, &root); err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", kind, err)
	}
	if object["spec"] == nil {
		return nil, nil
	}
	c := checker{}
	if err := c.value("spec", &root, object["spec"]); err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", kind, err)
	}
	return c.problems, nil
}

// checker collects problems.
type checker struct{ problems []SchemaProblem }

func (c *checker) add(path, format string, args ...any) {
	c.problems = append(c.problems, SchemaProblem{path, fmt.Sprintf(format, args...)})
}

// value checks a value and all values in it. A null counts as absent.
func (c *checker) value(path string, n *node, v any) error {
	if n == nil || v == nil {
		return nil
	}
	if len(n.Enum) > 0 && !slices.ContainsFunc(n.Enum, func(allowed any) bool { return same(allowed, v) }) {
		c.add(path, "%s is not allowed; use one of %s", text(v), list(n.Enum))
	}
	switch v := v.(type) {
	case map[string]any:
		return c.object(path, n, v)
	case []any:
		return c.list(path, n, v)
	case string:
		return c.text(path, n, v)
	case int64:
		c.number(path, n, float64(v))
	case float64:
		c.number(path, n, v)
	}
	return nil
}

func (c *checker) object(path string, n *node, v map[string]any) error {
	for _, name := range n.Required {
		if v[name] == nil {
			c.add(path, "%s is missing, and it is required; add it", name)
		}
	}
	if n.MinProperties != nil && float64(len(v)) < *n.MinProperties {
		c.add(path, "it has %d fields; at least %v are required", len(v), *n.MinProperties)
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		of := n.Properties[name]
		if of == nil {
			of = n.Additional
		}
		if err := c.value(path+"."+name, of, v[name]); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) list(path string, n *node, v []any) error {
	if n.MinItems != nil && float64(len(v)) < *n.MinItems {
		c.add(path, "it has %d items; at least %v are required", len(v), *n.MinItems)
	}
	if n.MaxItems != nil && float64(len(v)) > *n.MaxItems {
		c.add(path, "it has %d items; at most %v are allowed", len(v), *n.MaxItems)
	}
	seen := map[string]int{}
	for i, item := range v {
		at := fmt.Sprintf("%s[%d]", path, i)
		if err := c.value(at, n.Items, item); err != nil {
			return err
		}
		key := n.identity(item)
		if first, twice := seen[key]; key != "" && twice {
			c.add(at, "it repeats item %d; remove one of them", first)
		} else {
			seen[key] = i
		}
	}
	return nil
}

// identity returns the part of an item that must be unique in a list. identity returns "" if items may be equal.
func (n *node) identity(item any) string {
	key := any(item)
	switch n.ListType {
	case "set":
	case "map":
		fields, _ := item.(map[string]any)
		var values []any
		for _, name := range n.ListKeys {
			values = append(values, fields[name])
		}
		key = values
	default:
		return ""
	}
	raw, err := json.Marshal(key)
	if err != nil {
		return "" // This error cannot occur: a decoded YAML object can be encoded.
	}
	return string(raw)
}

func (c *checker) text(path string, n *node, v string) error {
	size := float64(utf8.RuneCountInString(v))
	if n.MinLength != nil && size < *n.MinLength {
		c.add(path, "it has %v characters; at least %v are required", size, *n.MinLength)
	}
	if n.MaxLength != nil && size > *n.MaxLength {
		c.add(path, "it has %v characters; at most %v are allowed", size, *n.MaxLength)
	}
	if n.Pattern == "" {
		return nil
	}
	pattern, err := regexp.Compile(n.Pattern)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if !pattern.MatchString(v) {
		c.add(path, "%q does not match the pattern %s", v, n.Pattern)
	}
	return nil
}

func (c *checker) number(path string, n *node, v float64) {
	if n.Minimum != nil && v < *n.Minimum {
		c.add(path, "%v is too small; the minimum is %v", v, *n.Minimum)
	}
	if n.Maximum != nil && v > *n.Maximum {
		c.add(path, "%v is too large; the maximum is %v", v, *n.Maximum)
	}
}

// same compares an allowed value with a value of an object, whose numbers may be of another type.
func same(allowed, v any) bool {
	if n, ok := v.(int64); ok {
		v = float64(n)
	}
	return reflect.DeepEqual(allowed, v)
}

// list returns the allowed values as text for a message.
func list(values []any) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = text(v)
	}
	return strings.Join(out, ", ")
}

func text(v any) string {
	if s, ok := v.(string); ok {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprint(v)
}
