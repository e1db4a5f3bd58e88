package machineconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/vincent-petithory/dataurl"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/safetext"
)

const (
	// NameFact is the fact that every node has: its name.
	NameFact = "name"
	// open begins a reference to a fact. A $ before it makes it an ordinary text.
	open = "${node."
	// MaxFactValue is the most bytes that the value of a fact has.
	MaxFactValue = 1024
)

// CheckFactName returns why a text is no name of a fact; empty if it is one.
func CheckFactName(name string) string {
	valid := len(name) <= 63
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		valid = valid && (letter || i > 0 && (c >= '0' && c <= '9' || c == '-' || c == '_'))
	}
	switch {
	case name == NameFact:
		return "every node has the fact name, which is its own name: remove it"
	case name == "" || !valid:
		return "use at most 63 letters, digits, - and _, beginning with a letter"
	}
	return ""
}

// CheckFactValue returns why a text is no value of a fact; empty if it is one. A value is one line, so it cannot add a
// line to a file. It has no reference of its own, and no hidden characters.
func CheckFactValue(value string) string {
	switch {
	case value == "":
		return "the value is empty: write it, or remove the fact"
	case len(value) > MaxFactValue:
		return fmt.Sprintf("the value has %d bytes, and at most %d are allowed: write a document for the node instead",
			len(value), MaxFactValue)
	case !utf8.ValidString(value):
		return "the value is not UTF-8"
	case safetext.HasControl(value) || strings.ContainsAny(value, "\u2028\u2029"):
		return "the value has a control character such as a line break: a value is one line of text"
	case safetext.HasHidden(value):
		return "the value has hidden characters: " + safetext.Quote(value)
	case strings.Contains(value, "${"):
		return "the value contains ${, and values have no references: write the text itself"
	case strings.TrimSpace(value) != value:
		return "the value begins or ends with a space: remove it"
	}
	return ""
}

// FactReferences are what a text or a spec says about facts.
type FactReferences struct {
	// Facts are the names of the facts that it uses, sorted.
	Facts []string
	// Escaped is true if it has $${node., which stands for the text ${node.
	Escaped bool
}

// FindFacts returns the references in the spec of a MachineConfig. The error lists the invalid ones.
func FindFacts(spec mcfgv1.MachineConfigSpec) (FactReferences, error) {
	r := replacer{found: map[string]bool{}}
	_, err := r.spec(spec)
	return FactReferences{Facts: slices.Sorted(maps.Keys(r.found)), Escaped: r.escaped}, err
}

// ExpandFacts returns a spec with the value in place of each reference to a fact. It replaces the texts of the parsed
// config: paths, names, contents of files and units, kernel arguments. The error lists each unknown fact.
func ExpandFacts(spec mcfgv1.MachineConfigSpec, facts map[string]string) (mcfgv1.MachineConfigSpec, error) {
	r := replacer{facts: facts, found: map[string]bool{}, replace: true}
	return r.spec(spec)
}

// replacer walks the texts of a spec.
type replacer struct {
	facts   map[string]string
	replace bool
	found   map[string]bool
	escaped bool
	bad     []error
}

func (r *replacer) spec(spec mcfgv1.MachineConfigSpec) (mcfgv1.MachineConfigSpec, error) {
	out := spec
	out.KernelArguments, out.Extensions = r.list(spec.KernelArguments), r.list(spec.Extensions)
	out.KernelType, out.OSImageURL, out.BaseOSExtensionsContainerImage = r.text(spec.KernelType),
		r.text(spec.OSImageURL), r.text(spec.BaseOSExtensionsContainerImage)
	if len(spec.Config.Raw) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(spec.Config.Raw))
		decoder.UseNumber()
		var config any
		if err := decoder.Decode(&config); err != nil {
			return spec, fmt.Errorf("reading the inline config: %w", err)
		}
		r.checkMerged(config)
		raw, err := json.Marshal(r.value(config))
		if err != nil {
			return spec, fmt.Errorf("writing the inline config: %w", err)
		}
		out.Config.Raw = raw
	}
	return out, errors.Join(r.bad...)
}

// checkMerged refuses references in the configs that a config merges. These configs are texts in JSON, which a value
// could change.
func (r *replacer) checkMerged(config any) {
	whole, _ := config.(map[string]any)
	section, _ := whole["ignition"].(map[string]any)
	merged, ok := section["config"]
	if !ok {
		return
	}
	inside := replacer{found: map[string]bool{}}
	inside.value(merged)
	if len(inside.found) > 0 || inside.escaped || len(inside.bad) > 0 {
		r.bad = append(r.bad, errors.New("a merged Ignition config has no references to facts: write its content "+
			"into the document"))
		delete(section, "config")
	}
}

func (r *replacer) list(in []string) []string {
	out := slices.Clone(in)
	for i := range out {
		out[i] = r.text(out[i])
	}
	return out
}

// value replaces the texts below a value of JSON. It leaves the keys of objects as they are.
func (r *replacer) value(v any) any {
	switch v := v.(type) {
	case string:
		return r.text(v)
	case []any:
		for i := range v {
			v[i] = r.value(v[i])
		}
	case map[string]any:
		isResource := r.resource(v)
		for key := range v {
			if !isResource || key != "source" {
				v[key] = r.value(v[key])
			}
		}
		if source, ok := v["source"].(string); ok && !isResource && IsUnresolved(source) {
			r.bad = append(r.bad, errors.New("a source that uses facts became a reference to a secret, and facts are "+
				"no part of a reference: write the reference itself"))
		}
	}
	return v
}

// resource replaces the references in the decoded contents of a resource, and reports whether v is a resource.
func (r *replacer) resource(v map[string]any) bool {
	source, ok := v["source"].(string)
	if !ok || !strings.HasPrefix(source, "data:") {
		return false
	}
	one := ign.Resource{Source: &source}
	if compression, ok := v["compression"].(string); ok {
		one.Compression = &compression
	}
	if IsUnresolved(source) {
		r.unresolved(v, one)
		return true
	}
	contents, err := Contents(one)
	if err != nil || !bytes.Contains(contents, []byte(open)) {
		return true // The validation of the config reports an error in the contents.
	}
	if verification, ok := v["verification"].(map[string]any); ok && verification["hash"] != nil {
		r.bad = append(r.bad, errors.New("a file that uses facts has no verification hash, because each node has "+
			"other contents: remove the hash"))
		return true
	}
	text := r.text(string(contents))
	if r.replace {
		head, _, _ := strings.Cut(strings.TrimPrefix(source, "data:"), ",")
		v["source"] = "data:" + strings.TrimSuffix(head, ";base64") + "," + dataurl.EscapeString(text)
		delete(v, "compression")
	}
	return true
}

// unresolved replaces the facts in a template with references to secrets, v. The template keeps its references: facts
// cannot be a part of one.
func (r *replacer) unresolved(v map[string]any, one ign.Resource) {
	content, _, err := SecretsOf(one)
	if err != nil {
		return // The check of references reports it.
	}
	if bytes.Contains(content.Body, []byte(open)) {
		r.bad = append(r.bad, errors.New("an encrypted file cannot use facts, because a changed file cannot be "+
			"decrypted: write a document with the file for each node"))
		return
	}
	text, err := content.WithFacts(func(fact string) (string, error) {
		if fact != NameFact && CheckFactName(fact) != "" {
			return "", notFactError(fact)
		}
		r.found[fact] = true
		value, known := r.facts[fact]
		if r.replace && !known {
			return "", fmt.Errorf("the node has no fact %q", fact)
		}
		return value, nil
	})
	isKnown := func(b error) bool { return err != nil && b.Error() == err.Error() }
	if err != nil && !slices.ContainsFunc(r.bad, isKnown) {
		r.bad = append(r.bad, err)
	}
	if err == nil && r.replace && len(content.Facts()) > 0 {
		v["source"] = TemplateURL(text)
		delete(v, "compression")
	}
}

// notFactError is the error for ${node. with a text that is no name of a fact.
func notFactError(name string) error {
	shown, _, _ := strings.Cut(name, "\n")
	return fmt.Errorf("%s is no reference to a fact: write ${node.FACT}, or $${node. for the text itself",
		safetext.Quote(open+shown[:min(len(shown), 40)]))
}

// text replaces the references in one text.
func (r *replacer) text(in string) string {
	if !strings.Contains(in, open) {
		return in
	}
	var out strings.Builder
	for rest := in; ; {
		before, after, found := strings.Cut(rest, open)
		if !found {
			out.WriteString(rest)
			break
		}
		if plain, escaped := strings.CutSuffix(before, "$"); escaped {
			out.WriteString(plain + open)
			r.escaped, rest = true, after
			continue
		}
		out.WriteString(before)
		name, next, closed := strings.Cut(after, "}")
		if !closed || name != NameFact && CheckFactName(name) != "" {
			r.bad = append(r.bad, notFactError(name))
			return in
		}
		r.found[name] = true
		value, known := r.facts[name]
		if r.replace && !known {
			r.bad = append(r.bad, fmt.Errorf("the node has no fact %q", name))
		}
		out.WriteString(value)
		rest = next
	}
	if !r.replace {
		return in
	}
	return out.String()
}
