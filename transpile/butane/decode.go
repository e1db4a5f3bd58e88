package butane

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"

	cutil "github.com/coreos/butane/config/util"
	"gopkg.in/yaml.v3"
)

// parse parses the document, once for everything.
func (t *translator) parse() bool {
	var doc yaml.Node
	if err := yaml.Unmarshal(t.in.Source, &doc); err != nil || len(doc.Content) == 0 {
		t.fatal("$", "yaml", "not valid YAML: %v", err)
		return false
	}
	t.doc = doc.Content[0]
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
	if err := t.doc.Decode(cfg); err != nil {
		for _, line := range typeErrors(err) {
			m := typeError.FindStringSubmatch(strings.TrimSpace(line))
			if m == nil {
				t.fatal("$", "yaml", "%s", line)
				continue
			}
			n, _ := strconv.Atoi(m[1])
			t.fatal(pathAtLine(t.doc, n, "$"), "yaml", "%s", m[2])
		}
		return nil
	}
	v := reflect.ValueOf(cfg)
	t.known(v, shapeOf(v.Type(), yamlTag), t.doc, "$")
	return cfg
}

func typeErrors(err error) []string {
	if te, ok := err.(*yaml.TypeError); ok { //nolint:errorlint // the decoder returns it bare
		return te.Errors
	}
	return []string{err.Error()}
}
