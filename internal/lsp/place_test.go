package lsp

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bunsen-os/bunsen/transpile"
)

// TestWhatStandsAtAPosition marks positions with a stroke.
func TestWhatStandsAtAPosition(t *testing.T) {
	for _, c := range []struct{ text, path, item string }{
		{"var|iant: fcos\n", "variant key", ""},
		{"variant: fc|os\n", "variant", ""},
		{"a: 1\n# com|ment\n", "none", ""},
		{"a: 1\n|\n", "none", ""},
		{"storage:\n  files:\n    |- path: /a\n", "storage.files.0.path key", "file /a"},
		{"storage:\n  files:\n    - path: /a\n      mo|de: 1\n", "storage.files.0.mode key", "file /a"},
		{"storage:\n  files:\n    - path: /a\n    - {path: /b, mo|de: 1}\n", "storage.files.1.mode key", "file /b"},
		{
			"storage:\n  files:\n    - path: /a\n      contents:\n        inline: |-\n          te¦xt\n",
			"storage.files.0.contents.inline", "file /a",
		},
		{
			"systemd:\n  units:\n    - name: a.service\n      dropins:\n        - name: b.co|nf\n",
			"systemd.units.0.dropins.0.name", "unit a.service",
		},
		{"kernel_arguments:\n  should_exist:\n    - nos|mt\n", "kernel_arguments.should_exist.0", "kargs nosmt"},
		{
			"spec:\n  config:\n    passwd:\n      users:\n        - na|me: core\n",
			"spec.config.passwd.users.0.name key", "user core",
		},
		{"spec:\n  osImage|URL: a\n", "spec.osImageURL key", "os-image "},
		{"# é\nä: [ü, ö|]\n", "ä.1", ""},
		{"a: b\n---\nc: d|\n", "c", ""},
		// The line is no YAML: what stands above it counts, and the rest of the text.
		{"storage:\n  files:\n    - path: /a\n      mo|de 1: :\n", "storage.files.0.path", "file /a"},
	} {
		stroke := "|"
		if strings.Contains(c.text, "¦") {
			stroke = "¦"
		}
		before, after, _ := strings.Cut(c.text, stroke)
		d := newDocument("a.bu", before+after, false)
		line := strings.Count(before, "\n")
		p, ok := placeAt(d, line, len(before)-strings.LastIndexByte(before, '\n')-1)
		got := "none"
		if ok {
			if got = strings.Join(p.path, "."); p.onKey {
				got += " key"
			}
		}
		if got != c.path {
			t.Errorf("%q is %s, want %s", c.text, got, c.path)
		}
		of := ""
		if it, isItem := p.item(); ok && isItem {
			of = fmt.Sprint(it.kind, " ", it.name)
		}
		if of != c.item {
			t.Errorf("%q is of %q, want %q", c.text, of, c.item)
		}
	}
}

func TestColumnsOfTheEditor(t *testing.T) {
	const text = "aé𝄞b"
	wide, bytes := newDocument("", text, true), newDocument("", text, false)
	for _, c := range []struct{ utf16, offset int }{{0, 0}, {1, 1}, {2, 3}, {4, 7}, {5, 8}, {99, 8}} {
		if got := wide.offset(0, c.utf16); got != c.offset {
			t.Errorf("column %d is byte %d, want %d", c.utf16, got, c.offset)
		}
		if got := bytes.offset(0, c.offset); got != c.offset {
			t.Errorf("byte %d is byte %d", c.offset, got)
		}
		if got := wide.character(0, c.offset); c.utf16 < 99 && got != c.utf16 {
			t.Errorf("byte %d is column %d, want %d", c.offset, got, c.utf16)
		}
	}
	if got := wide.apply(span{position{0, 2}, position{0, 4}}, "x"); got != "aéxb" {
		t.Errorf("a replacement of one character gives %q", got)
	}
}

func TestAPathFromOneDirectoryToAnother(t *testing.T) {
	for _, c := range [][3]string{
		{"pools/worker", "base", "../../base"}, {"pools/worker", "pools/worker/a", "a"}, {"base", "pools/a", "../pools/a"},
	} {
		if got := relative(c[0], c[1]); got != c[2] {
			t.Errorf("from %s to %s is %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

// FuzzAnswers asks everything about any text at any position: no answer panics, and each is within the text.
func FuzzAnswers(f *testing.F) {
	f.Add("variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n    - path: /a\n      mode: 0644\n", 4, 14)
	f.Add("resources: [a.bu]\npatches:\n  - path: b\n    target: {kind: Butane, name: a}\n", 3, 20)
	f.Add("a: &a [*a]\nb: *a\n? [x]\n: y\n- z", 1, 3)
	f.Add("apiVersion: v1\nkind: |\n  ${node.\n", 2, 9)
	f.Fuzz(func(t *testing.T, text string, line, character int) {
		if !utf8.ValidString(text) || len(text) > 1<<16 {
			return
		}
		for _, file := range []string{"pools/a/a.bu", "pools/a/kustomization.yaml", "cluster/a.yaml"} {
			for _, wide := range []bool{true, false} {
				d := newDocument(file, text, wide)
				at := position{line, character}
				(*snapshot)(nil).hoverAt(d, at)
				(*snapshot)(nil).definitionAt(d, at)
				(*snapshot)(nil).referencesAt(d, at)
				_, where := (*snapshot)(nil).completeAt(d, at)
				d.apply(where, "x")
				if got := d.apply(span{at, at}, ""); got != text {
					t.Errorf("nothing at %v gives %q", at, got)
				}
				corrections(d, transpile.Entry{
					File: file, Line: line, Column: character, Message: "write `mode: 0644`, did you mean \"path\"?",
				})
			}
		}
	})
}
