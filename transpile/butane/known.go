package butane

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// known refuses every key of the document that its dialect's type does not have: a typo whose effect would be missing
// on the node. It follows the value, not the type, as a part that was not decoded has no keys. Paths are put together
// where there is something to say, and where a list is entered.
func (t *translator) known(v reflect.Value, s *shape, n *yaml.Node, at string) {
	switch s.kind {
	case reflect.Pointer:
		if !v.IsNil() {
			t.known(v.Elem(), s.elem, n, at)
		}
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode || s.elem.kind != reflect.Struct {
			return
		}
		for i := range min(v.Len(), len(n.Content)) {
			t.known(v.Index(i), s.elem, n.Content[i], at+"."+strconv.Itoa(i))
		}
	case reflect.Struct:
		t.knownKeys(v, s, n, at)
	}
}

func (t *translator) knownKeys(v reflect.Value, s *shape, n *yaml.Node, at string) {
	if n.Kind != yaml.MappingNode {
		t.warn(at, "butane", "%s is empty: indent what belongs to it below it, or remove it", at[strings.LastIndexByte(at, '.')+1:])
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i].Value
		j := slices.IndexFunc(s.members, func(m member) bool { return m.name == key })
		if j < 0 {
			t.fatal(at+"."+key, "unknown-key", "%s %s knows no key %q here%s", t.dialect.variant, t.dialect.version, key, t.dialect.meant(at, key, s))
			continue
		}
		switch m := &s.members[j]; {
		case m.shape.hasKeys():
			t.known(v.FieldByIndex(m.index), m.shape, n.Content[i+1], at+"."+key)
		case key == "local", key == "contents_local", key == "ssh_authorized_keys_local":
			if p := unchecked(v.FieldByIndex(m.index), t.checked); p != "" && !origin.Fatal(t.findings) {
				t.fatal(at+"."+key, "refused-local", "%q is not written plainly; write it as a simple string", p)
			}
		}
	}
}

// hasKeys tells whether anything in such a value can have keys of its own.
func (s *shape) hasKeys() bool {
	for s.elem != nil {
		s = s.elem
	}
	return s.kind == reflect.Struct
}

func (t *translator) warn(docPath, rule, format string, args ...any) {
	at, _ := t.in.Origin.Find(docPath)
	t.findings = append(t.findings, origin.Finding{Warning: true, Rule: rule, Message: fmt.Sprintf(format, args...), At: at})
}
