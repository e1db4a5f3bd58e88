package butane

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/overlay"
)

// spoken is one value that a dialect has, in a document that has little else.
type spoken struct {
	path string // with * for an item of a list
	text string // a flow document around the value
	kind reflect.Kind
}

// valuesOf lists all values that a type can hold; before and behind are what stands around one of the type's.
func valuesOf(of reflect.Type, at, before, behind string) []spoken {
	switch of.Kind() {
	case reflect.Pointer:
		return valuesOf(of.Elem(), at, before, behind)
	case reflect.Slice:
		return valuesOf(of.Elem(), at+".*", before+"[", "]"+behind)
	case reflect.Map:
		return valuesOf(of.Elem(), at+".x", before+"{x: ", "}"+behind)
	case reflect.Struct:
		var out []spoken
		members := fieldsOf(of)
		for _, m := range members {
			others := ""
			for _, o := range members { // without one of these, an item of a list is none
				if strings.HasSuffix(at, "*") && keyOf(o) != keyOf(m) && strings.Contains(" path name device local ",
					" "+keyOf(o)+" ") {
					others += ", " + keyOf(o) + ": x"
				}
			}
			out = append(out, valuesOf(m.Type, at+"."+keyOf(m), before+"{"+keyOf(m)+": ", others+"}"+behind)...)
		}
		return out
	}
	value := "1"
	if of.Kind() == reflect.Bool {
		value = "true"
	}
	return []spoken{{at, before + value + behind, of.Kind()}}
}

// An overlay puts numbers and booleans into quotes where text is meant, as a patch would write 0644 as 420 otherwise.
// It must know of every key that is no text; a new release of Butane may bring one.
func TestOverlaysKeepNumbersAndBooleansOfEveryDialect(t *testing.T) {
	seen := map[string]reflect.Kind{}
	for _, d := range dialects {
		for _, l := range valuesOf(reflect.TypeOf(d.config()), "$", "", "") {
			if kind, again := seen[l.path]; again && kind == l.kind || l.path == "$.variant" || l.path == "$.version" {
				continue
			}
			seen[l.path] = l.kind
			text := fmt.Sprintf("{variant: %s, version: %s, %s\n", d.variant, d.version,
				strings.TrimPrefix(l.text, "{"))
			built, found := overlay.Build(fstest.MapFS{"o/a.bu": {Data: []byte(text)}}, "o", nil)
			if len(built.Documents) != 1 {
				t.Errorf("%s: %v", l.path, found)
				continue
			}
			var doc yaml.Node
			if err := yaml.Unmarshal(built.Documents[0].Source, &doc); err != nil {
				t.Fatal(err)
			}
			n := lookup(doc.Content[0], strings.ReplaceAll(l.path, "*", "0"))
			want := "!!int"
			switch l.kind {
			case reflect.Bool:
				want = "!!bool"
			case reflect.String:
				want = "!!str"
			}
			if n == nil || n.ShortTag() != want {
				t.Errorf("%s %s: %s is of kind %s, and an overlay makes it %+v: put its key into, or take it out of, "+
					"the list typedKeys of package overlay", d.variant, d.version, l.path, l.kind, n)
			}
		}
	}
	if len(seen) < 150 {
		t.Errorf("only %d values are specified: the types are read wrongly", len(seen))
	}
}
