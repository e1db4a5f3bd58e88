package butane

import (
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// checkKernelArguments refuses arguments that the daemon cannot set on a node, and arguments with an open quotation
// mark.
func (t *translator) checkKernelArguments() {
	if n := child(child(t.doc, "kernel_arguments"), "should_not_exist"); n != nil && len(n.Content) > 0 &&
		t.dialect.variant != "openshift" {
		t.fatal("$.kernel_arguments.should_not_exist", "kernel-arguments", "should_not_exist is not supported: a "+
			"node can remove only the kernel arguments that it added, not those of its image. Build an image "+
			"without them")
	}
	for _, list := range []string{"$.kernel_arguments.should_exist", "$.openshift.kernel_arguments"} {
		n := lookup(t.doc, list)
		if n == nil {
			continue
		}
		for i, c := range n.Content {
			if arg := text(c); strings.Count(arg, `"`)%2 != 0 {
				t.fatal(list+"."+strconv.Itoa(i), "kernel-arguments", "%s: the closing double quote is missing, so "+
					"the kernel would read all later arguments as part of this one; add it", arg)
			}
		}
	}
}

// checkKeys refuses every key of the document that its dialect does not have, because the effect of a typo would be
// missing on the node. checkKeys walks only the parts of the document that the decoder decoded.
func (t *translator) checkKeys(v reflect.Value, n *yaml.Node, at string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			t.checkKeys(v.Elem(), n, at)
		}
	case reflect.Slice:
		if n.Kind == yaml.SequenceNode && v.Type().Elem().Kind() == reflect.Struct {
			for i := range min(v.Len(), len(n.Content)) {
				t.checkKeys(v.Index(i), n.Content[i], at+"."+strconv.Itoa(i))
			}
		}
	case reflect.Struct:
		t.checkKeysOf(v, n, at)
	}
}

func (t *translator) checkKeysOf(v reflect.Value, n *yaml.Node, at string) {
	if n.Kind != yaml.MappingNode {
		t.warn(at, "butane", "%s is empty: indent what belongs to it below it, or remove it",
			at[strings.LastIndexByte(at, '.')+1:])
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i].Value
		f, ok := fieldOf(v.Type(), key)
		if !ok && key == templateKey {
			t.fatal(at+"."+key, ruleReference, "only files in storage.files can be templates; write the secret into "+
				"a file, and let the unit or program read it")
			continue
		}
		if !ok {
			t.fatal(at+"."+key, "unknown-key", "%s %s knows no key %q here%s", t.dialect.variant, t.dialect.version,
				key, t.dialect.suggest(at, key, v.Type()))
			continue
		}
		switch value := v.FieldByIndex(f.Index); {
		case elem(f.Type, true).Kind() == reflect.Int && n.Content[i+1].ShortTag() == "!!float": // The decoder cuts it.
			t.fatal(at+"."+key, "yaml", "%s", noWholeNumber(key, n.Content[i+1].Value))
		case elem(f.Type, true).Kind() == reflect.Struct:
			t.checkKeys(value, n.Content[i+1], at+"."+key)
		case key == "local", key == "contents_local", key == "ssh_authorized_keys_local":
			if p := unchecked(value, t.checked); p != "" && !origin.Fatal(t.findings) {
				t.fatal(at+"."+key, "refused-local", "%q has an unusual notation; write it as a simple string", p)
			}
		}
	}
}

// unchecked returns a reference in a decoded document that the method locals did not check, or "". If the key has an
// unusual spelling, locals does not find the reference, but Butane would read the file.
func unchecked(v reflect.Value, checked map[string]bool) string {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return unchecked(v.Elem(), checked)
		}
	case reflect.Slice:
		for i := range v.Len() {
			if p := unchecked(v.Index(i), checked); p != "" {
				return p
			}
		}
	case reflect.String:
		if p := v.String(); !checked[p] {
			return p
		}
	}
	return ""
}

// noWholeNumber says why YAML reads a number with a fraction.
func noWholeNumber(key, value string) string {
	switch {
	case strings.HasSuffix(key, "mode") && strings.Trim(value, "0123456789") == "":
		return key + " is an octal number, which has no digits 8 and 9: write it like 0644"
	case strings.HasSuffix(key, "mode"):
		return key + " is a whole number, and this has a fraction or an exponent: write it like 0644"
	default:
		return key + " is a whole number, and this has a fraction or an exponent"
	}
}
