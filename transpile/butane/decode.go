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

// parse parses the document once. All later checks use the result. parse returns false, with a finding, if the document
// is invalid.
func (t *translator) parse() bool {
	var err error
	if t.doc, err = t.in.parse(); err != nil {
		t.fatal("$", "yaml", "not valid YAML: %v", err)
		return false
	}
	n := findUnsupported(t.doc)
	switch {
	case n == nil:
		return true
	case n.Kind == yaml.AliasNode:
		t.fatal(pathAtLine(t.doc, n.Line, "$"), "alias", "YAML alias *%s: aliases are not followed, as a few of them "+
			"can unfold into gigabytes; write the value out", n.Value)
	default:
		t.fatal(pathAtLine(t.doc, n.Line, "$"), "yaml", "an item of this list is empty; write it out, or remove "+
			"its dash")
	}
	return false
}

// parse parses the source as YAML.
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

// findUnsupported returns the first alias or null item of a list. The decoder replaces an alias and skips a null item,
// so the paths of the tree and of the decoded document would differ.
func findUnsupported(n *yaml.Node) *yaml.Node {
	for _, c := range n.Content {
		if c.Kind == yaml.AliasNode || n.Kind == yaml.SequenceNode && c.Kind == yaml.ScalarNode &&
			c.ShortTag() == "!!null" {
			return c
		}
		if found := findUnsupported(c); found != nil {
			return found
		}
	}
	return nil
}

var typeError = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:\s*)?line (\d+): (.*)$`)

// decode decodes the document into its dialect's type, and refuses unknown keys.
func (t *translator) decode() cutil.Config {
	cfg := t.dialect.config()
	err := t.doc.Decode(cfg)
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
	t.checkKeys(reflect.ValueOf(cfg), t.doc, "$")
	// The first finding is enough: a wrong indentation also makes another part of the document empty, which would be a
	// second finding.
	if origin.Fatal(t.findings) {
		t.findings = slices.DeleteFunc(t.findings, func(f origin.Finding) bool { return f.Warning })
	}
	return cfg
}

func typeErrors(err error) []string {
	if te, ok := err.(*yaml.TypeError); ok { //nolint:errorlint // the decoder returns this error unwrapped
		return te.Errors
	}
	return []string{err.Error()}
}
