package butane

import (
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	cutil "github.com/coreos/butane/config/util"
	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// parse parses the document, once for everything. A tree that somebody else parsed is taken where there is nothing to say
// about it: what is said names lines, and those are the text's.
func (t *translator) parse() bool {
	if n := t.in.Parsed; n != nil && odd(n) == nil {
		t.doc = n
		return true
	}
	var err error
	if t.doc, err = t.in.parse(); err != nil {
		t.fatal("$", "yaml", "not valid YAML: %v", err)
		return false
	}
	n := odd(t.doc)
	switch {
	case n == nil:
		return true
	case n.Kind == yaml.AliasNode:
		t.fatal(pathAtLine(t.doc, n.Line, "$"), "alias", "YAML alias *%s: aliases are not followed, as a few of them can unfold into gigabytes; write the value out", n.Value)
	default:
		t.fatal(pathAtLine(t.doc, n.Line, "$"), "yaml", "an item of this list is empty; write it out, or take its dash away")
	}
	return false
}

// parse parses the text.
func (in Input) parse() (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(in.Source, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 0 {
		return nil, errors.New("there is nothing in it")
	}
	return doc.Content[0], nil
}

// odd finds the first node that this package would see elsewhere than Butane does: an alias, and an item of a list that
// is null, which a decoder passes over without counting it.
func odd(n *yaml.Node) *yaml.Node {
	for _, c := range n.Content {
		if c.Kind == yaml.AliasNode || n.Kind == yaml.SequenceNode && c.Kind == yaml.ScalarNode && c.ShortTag() == "!!null" {
			return c
		}
		if found := odd(c); found != nil {
			return found
		}
	}
	return nil
}

var typeError = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:\s*)?line (\d+): (.*)$`)

// decode reads the document into its dialect's type, and refuses keys that the dialect does not know.
func (t *translator) decode() cutil.Config {
	cfg := t.dialect.config()
	err := t.doc.Decode(cfg)
	if err != nil && t.in.Parsed != nil { // for its lines
		if t.doc, err = t.in.parse(); err == nil {
			cfg = t.dialect.config()
			err = t.doc.Decode(cfg)
		}
	}
	if err != nil {
		for _, line := range typeErrors(err) {
			m := typeError.FindStringSubmatch(strings.TrimSpace(line))
			if m == nil {
				t.fatal("$", "yaml", "%s", line)
				continue
			}
			n, _ := strconv.Atoi(m[1])
			here := pathAtLine(t.doc, n, "$")
			t.fatal(here, "yaml", "%s", t.dialect.mistyped(here, m[2]))
		}
		return nil
	}
	v := reflect.ValueOf(cfg)
	t.known(v, shapeOf(v.Type(), yamlTag), t.doc, "$")
	if origin.Fatal(t.findings) { // what is indented wrongly is missing elsewhere: the error says both
		t.findings = slices.DeleteFunc(t.findings, func(f origin.Finding) bool { return f.Warning })
	}
	return cfg
}

func typeErrors(err error) []string {
	if te, ok := err.(*yaml.TypeError); ok { //nolint:errorlint // the decoder returns it bare
		return te.Errors
	}
	return []string{err.Error()}
}
