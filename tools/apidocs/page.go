package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// schema is the part of an OpenAPI schema that the pages show.
type schema struct {
	Description string
	Type        string
	Format      string
	Pattern     string
	Default     any
	Enum        []any
	Required    []string
	Properties  map[string]schema
	Items       *schema
	Additional  *schema `yaml:"additionalProperties"`
	extensions  `yaml:",inline"`
	bounds      `yaml:",inline"`
}

// extensions are what Kubernetes adds to OpenAPI.
type extensions struct {
	IntOrString bool                             `yaml:"x-kubernetes-int-or-string"`
	ListType    string                           `yaml:"x-kubernetes-list-type"`
	Rules       []struct{ Rule, Message string } `yaml:"x-kubernetes-validations"`
}

// bounds are the limits of a number, a text and a list.
type bounds struct {
	Minimum   *int
	Maximum   *int
	MinLength *int `yaml:"minLength"`
	MaxLength *int `yaml:"maxLength"`
	MaxItems  *int `yaml:"maxItems"`
}

// durations is the pattern of durations in the types.
const durations = `^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`

// page returns the page of the kind.
func (d *definition) page(example string) string {
	var b strings.Builder
	n := d.Spec.Names
	fmt.Fprintf(&b, "# %s\n\n<!-- Generated from api/v1alpha1: run make generate. -->\n\n", n.Kind)
	fmt.Fprintf(&b, "%s\n\n| | |\n|---|---|\n| apiVersion | `%s/%s` |\n| Scope | %s |\n"+
		"| kubectl | `kubectl get %s` |\n\n",
		paragraphs(d.schema().Description), d.Spec.Group, d.Spec.Versions[0].Name, d.Spec.Scope, n.Plural)
	b.WriteString(wrapped("A duration is a text such as `90s`, `10m` or `1h30m`. A time is RFC 3339, such as "+
		"`2030-01-01T00:00:00Z`.") + "\n\n")
	fmt.Fprintf(&b, "## Example\n\n```yaml\n%s```\n", example)
	for _, part := range []string{"spec", "status"} {
		if s, ok := d.schema().Properties[part]; ok {
			section(&b, part, s, true)
		}
	}
	return b.String()
}

// section writes the table of an object's fields, then the sections of the objects in these fields. If introduce is
// true, the section begins with the object's comment. Otherwise the table of the parent object has the comment.
func section(b *strings.Builder, path string, s schema, introduce bool) {
	fmt.Fprintf(b, "\n## %s\n\n", path)
	if text := paragraphs(s.Description); introduce && text != "" {
		fmt.Fprintf(b, "%s\n\n", text)
	}
	for i, r := range s.Rules {
		if i == 0 {
			b.WriteString("The API server checks:\n\n")
		}
		fmt.Fprintf(b, "- %s\n", r.Message)
		if i == len(s.Rules)-1 {
			b.WriteString("\n")
		}
	}
	b.WriteString("| Field | Type | Default | Meaning | Validation |\n|---|---|---|---|---|\n")
	names := slices.Sorted(maps.Keys(s.Properties))
	for _, name := range names {
		f := s.Properties[name]
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", name, f.typeText(path+"."+name),
			f.defaultText(slices.Contains(s.Required, name)),
			cell(f.meaning()), cell(f.validation()))
	}
	for _, name := range names {
		f := s.Properties[name]
		if o, ok := f.object(); ok {
			section(b, path+"."+name, o, f.Items != nil)
		}
	}
}

// meaning returns the comment of a field, or the comment of its type.
func (s schema) meaning() string {
	if s.Description == "" && s.Items != nil {
		return s.Items.Description
	}
	return s.Description
}

// object returns the object that a field, the items of its list or the values of its map contain, if that object has
// its own section.
func (s schema) object() (schema, bool) {
	switch {
	case s.Items != nil:
		return s.Items.object()
	case s.Additional != nil:
		return s.Additional.object()
	}
	return s, len(s.Properties) > 0 && s.known() == ""
}

// known returns the name of a type of Kubernetes. Such types have no section.
func (s schema) known() string {
	has := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(n string) bool { _, ok := s.Properties[n]; return !ok })
	}
	switch {
	case has("matchLabels", "matchExpressions"):
		return "[label selector](https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/)"
	case has("lastTransitionTime", "observedGeneration", "reason"):
		return "condition"
	}
	return ""
}

func (s schema) typeText(path string) string {
	switch {
	case s.IntOrString:
		return "integer or string"
	case s.known() != "":
		return s.known()
	case s.Items != nil:
		return "list of " + s.Items.typeText(path)
	case s.Additional != nil:
		return "map of string to " + s.Additional.typeText(path)
	case len(s.Properties) > 0:
		return fmt.Sprintf("[object](#%s)", strings.ToLower(strings.ReplaceAll(path, ".", "")))
	case s.Format == "date-time":
		return "time"
	case s.Format == "byte":
		return "base64"
	case s.isDuration():
		return "duration"
	}
	return s.Type
}

func (s schema) defaultText(required bool) string {
	switch {
	case required:
		return "required"
	case s.Default == nil:
		return "–"
	case s.Type == "object":
		return "`{}`"
	}
	return fmt.Sprintf("`%v`", s.Default)
}

// isDuration reports whether the pattern or the default of a text field shows that the text is a duration.
func (s schema) isDuration() bool {
	text, ok := s.Default.(string)
	if ok {
		_, err := time.ParseDuration(text)
		ok = err == nil
	}
	return s.Pattern == durations || ok
}

// validation lists the checks that the API server makes of a field's value.
func (s schema) validation() string {
	var out []string
	add := func(format string, v *int) {
		if v != nil {
			out = append(out, fmt.Sprintf(format, *v))
		}
	}
	if len(s.Enum) > 0 {
		var values []string
		for _, v := range s.Enum {
			values = append(values, fmt.Sprintf("`%v`", v))
		}
		out = append(out, "one of "+strings.Join(values, ", "))
	}
	add("at least %d", s.Minimum)
	add("at most %d", s.Maximum)
	if s.MinLength != nil && *s.MinLength == 1 {
		out = append(out, "not empty")
	} else {
		add("at least %d characters", s.MinLength)
	}
	add("at most %d characters", s.MaxLength)
	add("at most %d items", s.MaxItems)
	if s.ListType == "set" {
		out = append(out, "no duplicates")
	}
	if s.Pattern != "" && s.Pattern != durations {
		out = append(out, "matches `"+s.Pattern+"`")
	}
	for _, r := range s.Rules {
		if len(s.Properties) == 0 {
			out = append(out, r.Message)
		}
	}
	if len(out) == 0 {
		return "–"
	}
	return strings.Join(out, "; ")
}

// cell returns a text for a cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

// paragraphs returns a comment as Markdown.
func paragraphs(text string) string {
	var out []string
	for _, p := range strings.Split(text, "\n\n") {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, wrapped(p))
		}
	}
	return strings.Join(out, "\n\n")
}

// wrapped splits a paragraph into lines of at most 100 columns.
func wrapped(text string) string {
	var b strings.Builder
	column := 0
	for _, w := range strings.Fields(text) {
		n := len([]rune(w))
		switch {
		case column == 0:
		case column+1+n > 100:
			b.WriteString("\n")
			column = 0
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(w)
		column += n
	}
	return b.String()
}

func firstSentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if i := strings.Index(text, ". "); i > 0 {
		return text[:i]
	}
	return strings.TrimSuffix(text, ".")
}
