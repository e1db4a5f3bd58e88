package overlay

import (
	"io/fs"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Whatever happened to a document, each of its leaves has a place of its own, and the line there mentions the leaf: its
// key, its value, or what wrote it. The files are the ones that the build read.
func TestEveryLeafHasALineThatMentionsIt(t *testing.T) {
	leaves := 0
	for seed := range 2 * *cases {
		r := &random{Rand: rand.New(rand.NewPCG(uint64(seed), 8)), repo: fstest.MapFS{}}
		r.layer("o", 3)
		built, found := Build(r.repo, "o", nil)
		if origin.Fatal(found) {
			continue
		}
		read := map[string]string{}
		for _, f := range built.Reads {
			read[f.Path] = f.Blob
		}
		for _, d := range built.Documents {
			var doc yaml.Node
			if err := yaml.Unmarshal(d.Source, &doc); err != nil {
				t.Fatal(err)
			}
			eachLeaf(doc.Content[0], "$", "", func(path, key, value string) {
				leaves++
				at, ok := d.Origin.At[path]
				if !ok || !mentionedAt(r.repo, at, key, value) {
					t.Errorf("seed %d: %s %s: %s (%q) is at %v", seed, d.Name, d.File, path, value, at)
				}
			})
			for _, f := range d.Origin.Files {
				if read[f.Path] != f.Blob || f.Blob == "" {
					t.Errorf("seed %d: %s is of %v, which the build did not read", seed, d.Name, f)
				}
			}
		}
		if t.Failed() {
			t.Fatal(dump(r.repo))
		}
	}
	if leaves < 1000 {
		t.Errorf("only %d leaves were looked at", leaves)
	}
}

func eachLeaf(n *yaml.Node, at, key string, visit func(path, key, value string)) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			eachLeaf(n.Content[i+1], at+"."+n.Content[i].Value, n.Content[i].Value, visit)
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			eachLeaf(c, at+"."+strconv.Itoa(i), "", visit)
		}
	default:
		visit(at, key, n.Value)
	}
}

// mentionedAt reports whether a line says a key or a value, or is where an operation or replacement says that it
// writes.
func mentionedAt(repo fs.FS, at origin.Pos, key, value string) bool {
	src, err := fs.ReadFile(repo, at.File)
	lines := strings.Split(string(src), "\n")
	if err != nil || at.Line < 1 || at.Line > len(lines) {
		return false
	}
	line := lines[at.Line-1]
	first, _, _ := strings.Cut(value, "\n")
	return key != "" && strings.Contains(line, key) || strings.Contains(line, first) ||
		strings.Contains(line, "op: ") || strings.Contains(line, "value:") || strings.Contains(line, "fieldPaths:")
}
