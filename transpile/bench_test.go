package transpile_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
	"github.com/bunsen-os/bunsen/transpile/overlay"
)

const (
	benchDocuments = 1000
	benchFiles     = 5
)

// large is a repository with one pool of many documents; patched says that its overlay patches each of them.
func large(b *testing.B, patched bool) (root string, tree source.Tree) {
	b.Helper()
	root = b.TempDir()
	dir, list := "pools/worker", ""
	if patched {
		dir = "base"
	}
	for i := range benchDocuments {
		writeDocument(b, root, dir, i, "first")
		list += fmt.Sprintf("  - %03d-doc.bu\n", i)
	}
	if patched {
		put(b, root, "base/kustomization.yaml", "resources:\n"+list)
		put(b, root, "pools/worker/kustomization.yaml", "resources: [../../base]\npatches:\n"+
			"  - target: {kind: Butane}\n    patch: |-\n      - {op: replace, path: /storage/files/0/mode, value: "+
			"0600}\n")
	}
	return root, source.Tree{Root: root, FS: os.DirFS(root)}
}

func writeDocument(b *testing.B, root, dir string, i int, text string) {
	b.Helper()
	doc := "variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n"
	for j := range benchFiles {
		doc += fmt.Sprintf("    - path: /etc/conf.d/%d-%d.conf\n      mode: 0644\n      contents:\n"+
			"        inline: |\n          # %s\n          %s\n", i, j, text, strings.Repeat("setting = value ", 10))
	}
	put(b, root, fmt.Sprintf("%s/%03d-doc.bu", dir, i), doc)
}

func put(b *testing.B, root, name, data string) {
	b.Helper()
	file := root + "/" + name
	if err := os.MkdirAll(file[:strings.LastIndexByte(file, '/')], 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(data), 0o644); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkFragments shows what a commit costs: all of it new, one document of it, and for comparison what building
// the overlay has of that.
func BenchmarkFragments(b *testing.B) {
	for _, c := range []struct {
		name    string
		patched bool
	}{{"plain", false}, {"patched", true}} {
		dir := "pools/worker"
		if c.patched {
			dir = "base"
		}
		b.Run(c.name+"/cold", func(b *testing.B) {
			_, tree := large(b, c.patched)
			for b.Loop() {
				whole(b, transpile.Fragments(tree))
			}
		})
		b.Run(c.name+"/one-changed", func(b *testing.B) {
			root, tree := large(b, c.patched)
			memory := &transpile.Transpiler{}
			whole(b, memory.Fragments(tree))
			for i := 0; b.Loop(); i++ {
				writeDocument(b, root, dir, 500, fmt.Sprint("change ", i))
				whole(b, memory.Fragments(tree))
			}
		})
		b.Run(c.name+"/overlay-alone", func(b *testing.B) {
			_, tree := large(b, c.patched)
			for b.Loop() {
				if _, found := overlay.Build(tree.FS, "pools/worker", nil); len(found) > 0 {
					b.Fatal(found)
				}
			}
		})
		b.Run(c.name+"/nothing-changed", func(b *testing.B) {
			_, tree := large(b, c.patched)
			memory := &transpile.Transpiler{}
			whole(b, memory.Fragments(tree))
			for b.Loop() {
				whole(b, memory.Fragments(tree))
			}
		})
	}
}

func whole(b *testing.B, r transpile.Result) {
	b.Helper()
	if r.Report.Fatal() || len(r.Fragments) != benchDocuments {
		b.Fatal(len(r.Fragments), r.Report)
	}
}
