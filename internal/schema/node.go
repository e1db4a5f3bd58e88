package schema

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Draft is the version of JSON schema that all schemas have: the newest that editors support without exceptions.
const Draft = "http://json-schema.org/draft-07/schema#"

// Node is a schema, or one level of it. Its JSON is a JSON schema.
type Node struct {
	Schema      string           `json:"$schema,omitempty"`
	Ref         string           `json:"$ref,omitempty"`
	Title       string           `json:"title,omitempty"`
	Description string           `json:"description,omitempty"`
	Type        Types            `json:"type,omitempty"`
	Const       string           `json:"const,omitempty"`
	Enum        []any            `json:"enum,omitempty"`
	Pattern     string           `json:"pattern,omitempty"`
	Minimum     *float64         `json:"minimum,omitempty"`
	Maximum     *float64         `json:"maximum,omitempty"`
	MinLength   *int64           `json:"minLength,omitempty"`
	MaxLength   *int64           `json:"maxLength,omitempty"`
	MinItems    *int64           `json:"minItems,omitempty"`
	MaxItems    *int64           `json:"maxItems,omitempty"`
	Items       *Node            `json:"items,omitempty"`
	Properties  map[string]*Node `json:"properties,omitempty"`
	Required    []string         `json:"required,omitempty"`
	Additional  *Additional      `json:"additionalProperties,omitempty"`
	AllOf       []*Node          `json:"allOf,omitempty"`
	If          *Node            `json:"if,omitempty"`
	Then        *Node            `json:"then,omitempty"`

	// of a CRD; left out of the JSON by clean
	Preserve    bool `json:"x-kubernetes-preserve-unknown-fields,omitempty"`
	IntOrString bool `json:"x-kubernetes-int-or-string,omitempty"`
	Nullable    bool `json:"nullable,omitempty"`
}

// Types are the types that a value may have; none is any.
type Types []string

// MarshalJSON writes one type as a text.
func (t Types) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

// UnmarshalJSON reads a text or a list.
func (t *Types) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte(`"`)) {
		*t = Types{""}
		return json.Unmarshal(b, &(*t)[0])
	}
	return json.Unmarshal(b, (*[]string)(t))
}

// Additional says which other keys than the properties an object may have: any with values of a schema, or none.
type Additional struct{ Values *Node }

// MarshalJSON writes false, or the schema of the values.
func (a Additional) MarshalJSON() ([]byte, error) {
	if a.Values == nil {
		return []byte("false"), nil
	}
	return json.Marshal(a.Values)
}

// UnmarshalJSON reads a truth value, or a schema.
func (a *Additional) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case "false":
		return nil
	case "true":
		a.Values = &Node{}
		return nil
	}
	a.Values = &Node{}
	return json.Unmarshal(b, a.Values)
}

// JSON returns the schema as indented text.
func (n *Node) JSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(n)
	return b.Bytes(), err
}

// At returns the schema of the value at a path of keys; the items of lists have the key "-". It is nil if the path is
// not allowed or unknown.
func (n *Node) At(path []string) *Node {
	for _, key := range path {
		switch {
		case n == nil:
			return nil
		case key == "-":
			n = n.Items
		case n.Properties[key] != nil:
			n = n.Properties[key]
		case n.Additional != nil:
			n = n.Additional.Values
		default:
			return nil
		}
	}
	return n
}

// clean makes a JSON schema of the schema of a CRD. An object whose properties are known has no others.
func (n *Node) clean() {
	if n == nil {
		return
	}
	if n.IntOrString {
		n.Type = Types{"integer", "string"}
	}
	if n.Nullable && len(n.Type) == 1 {
		n.Type = append(n.Type, "null")
	}
	if len(n.Properties) > 0 && n.Additional == nil && !n.Preserve {
		n.Additional = &Additional{}
	}
	n.Preserve, n.IntOrString, n.Nullable = false, false, false
	n.Items.clean()
	for _, p := range n.Properties {
		p.clean()
	}
	if n.Additional != nil {
		n.Additional.Values.clean()
	}
}

// require adds a property that is required.
func (n *Node) require(key string, of *Node) {
	n.Properties[key] = of
	if !slices.Contains(n.Required, key) {
		n.Required = append(n.Required, key)
	}
}
