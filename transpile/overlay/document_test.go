package overlay

import (
	"testing"

	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

func TestAKeyIsOfEverythingInTheDocument(t *testing.T) {
	build := func(pairs ...string) documents.Document {
		t.Helper()
		built, found := Build(repository(pairs...), "o", nil)
		if len(built.Documents) != 1 {
			t.Fatal(found)
		}
		return built.Documents[0]
	}
	keys := map[string]string{}
	for what, d := range map[string]documents.Document{
		"a document":                  build("o/a.bu", butaneHead),
		"another name":                build("o/b.bu", butaneHead),
		"another file":                build("o/kustomization.yaml", "resources: [../p/a.bu]\n", "p/a.bu", butaneHead),
		"another content":             build("o/a.bu", butaneHead+"storage: {}\n"),
		"other places":                build("o/a.bu", "\n"+butaneHead),
		"another kind":                build("o/a.ign", `{"variant": "fcos", "version": "1.6.0"}`),
		"the same content, patched":   build("o/kustomization.yaml", "resources: [a.bu]\npatches: [{target: {name: a}, patch: \"version: 1.6.0\"}]\n", "o/a.bu", butaneHead),
		"the same content, commented": build("o/a.bu", butaneHead+"# a comment\n"),
	} {
		if other, twice := keys[d.Key]; twice || d.Key == "" {
			t.Errorf("%s and %s have the key %q", what, other, d.Key)
		}
		keys[d.Key] = what
	}
	if a, b := build("o/a.bu", butaneHead), build("o/a.bu", butaneHead); a.Key != b.Key {
		t.Error("equal documents have other keys")
	}
}
