package overlay

import (
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// watched notes what is opened, and refuses what no tree holds.
type watched struct {
	fs.FS
	mu     sync.Mutex
	opened []string
}

// Open opens a file and remembers that.
func (w *watched) Open(name string) (fs.File, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opened = append(w.opened, name)
	return w.FS.Open(name)
}

// outside are the names that lead out of a tree, or that nothing may ask for.
func (w *watched) outside() []string {
	return slices.DeleteFunc(w.opened, func(name string) bool {
		return fs.ValidPath(name) && !strings.ContainsAny(name, "\\\x00\n")
	})
}

// Whatever a repository holds, a build ends in documents or in findings, at places in the repository; it asks for
// nothing outside; and once more it gives the same.
func FuzzBuild(f *testing.F) {
	doc := butaneHead + "storage:\n  files: [{path: /etc/a, contents: {inline: x}}]\n"
	f.Add("resources: [a.bu]\n", doc, "storage:\n  files: [{path: /etc/a}]\n")
	f.Add("resources: [a.bu]\npatches: [{path: p.bu, target: {name: a}}]\n", doc, "[{op: add, path: /x, value: 1}]")
	f.Add("patches: [{target: {kind: MachineConfig}, patch: 'a: b'}]\n", "kind: MachineConfig", "$patch: delete\n")
	f.Add("resources: [../o, .., a.bu/../a.bu, /etc, c]\ncomponents: [c]\n", doc, "x")
	f.Add("resources: [a.bu, c]\nnamePrefix: x-\nlabels: [{pairs: {a: b}}]\n"+
		"replacements: [{source: {name: a, fieldPath: storage.files.0}, targets: [{select: {name: .*}, fieldPaths: "+
		"[storage.files.*.contents], options: {create: true}}]}]\n", doc, doc)
	f.Add("resources: [a.bu]\nreplacements: [{path: p.bu}]\n", doc, "[{sourceValue: x, targets: [{select: {name: a}, "+
		"reject: [{labelSelector: a}], fieldPaths: ['storage.files.[path=/etc/a].mode'], options: {delimiter: x, "+
		"index: -1}}]}]")
	f.Add("resources: [a.bu]\npatches: [{path: p.bu, target: {name: a}}]\n", doc, "[{op: move, from: "+
		"/storage/files/0, path: /storage/files/-}, {op: copy, from: /storage, path: /storage/a}, {op: remove, path: "+
		"/storage/files/-1}]")
	f.Fuzz(func(t *testing.T, kustomization, document, patch string) {
		repo := &watched{FS: repository("o/kustomization.yaml", kustomization, "o/a.bu", document, "o/p.bu", patch,
			"o/c/kustomization.yaml", "kind: Component\nresources: [r.yaml, i.ign]\n"+
				"patches: [{path: ../p.bu, target: {name: .*}}]\n", "o/c/r.yaml", document, "o/c/i.ign", document)}
		kept := &memory{}
		built, found := buildWithin(repo, "o", kept, 4<<20)
		for _, p := range found {
			if p.At.File != "" && !fs.ValidPath(p.At.File) {
				t.Errorf("a finding points outside: %v", p)
			}
			if strings.Contains(p.Message, "failed unexpectedly") {
				t.Errorf("kustomize panicked: %v", p)
			}
		}
		if names := repo.outside(); len(names) > 0 {
			t.Errorf("the build asks for %q", names)
		}
		again, also := buildWithin(repo, "o", kept, 4<<20)
		if len(again.Documents) != len(built.Documents) || len(also) != len(found) {
			t.Errorf("once more: %d documents and %v, before %d and %v", len(again.Documents), also,
				len(built.Documents), found)
		}
		for i, d := range built.Documents {
			if again.Documents[i].Key != d.Key {
				t.Errorf("once more the document is\n%s\nand was\n%s", again.Documents[i].Source, d.Source)
			}
		}
	})
}

// A document that nothing touches keeps the text of every value and key, whatever it looks like to YAML; and so does
// one that goes through a merge, an operation and a replacement which do not speak of it, but for nulls and notation of
// numbers.
func FuzzWrap(f *testing.F) {
	for _, text := range []string{
		"0644", "1.10", "2020-01-01", "12345678901234567890123", "yes", "1e3", "~x", "0x10", "|\n  two\n  lines\n",
		"[a, 'b', \"c\\u0001\"]",
		"{a: {b: [1, {c: 0b11}]}}", "\"#\"", "'a: b'", "!!binary aGk=", "? x\n: y", "- a\n- - b\n", "\u2028", "+.inf",
		"1_000", "null", "Off", "0o17",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		src := butaneHead + "x:\n" + indent(text, 2) + "\n"
		root, fs := asFile(src).Parse()
		if len(fs) > 0 || root.Kind != yaml.MappingNode {
			return
		}
		want := scalars(root)
		built, found := Build(repository("o/a.bu", src), "o", nil)
		if origin.Fatal(found) {
			return
		}
		if got := scalars(parsedAgain(t, built)); !slices.Equal(got, want) {
			t.Errorf("the document says %q, its file %q", got, want)
		}
		d, object := documents.Declare("o/a.bu", []byte(src))
		was, ok := texts(d.Info.Content(object))
		patched, found := Build(repository("o/a.bu", src, "o/kustomization.yaml", throughEverything), "o", nil)
		if !ok || origin.Fatal(found) {
			return
		}
		if is, _ := texts(parsedAgain(t, patched)); !slices.Equal(is, was) {
			t.Errorf("the document says %q once it is patched elsewhere, its file %q", is, was)
		}
	})
}

// throughEverything patches a document, and changes nothing that it says but its variant.
const throughEverything = `resources: [a.bu]
patches:
  - target: {name: a}
    patch: "version: 1.6.0"
  - target: {name: a}
    patch: "[{op: replace, path: /version, value: 1.6.0}]"
replacements:
  - {sourceValue: fcos, targets: [{select: {name: a}, fieldPaths: [variant]}]}
`

// texts are all texts of a tree that are text, sorted. ok is false where kustomize takes entries out by themselves.
func texts(n *yaml.Node) (out []string, ok bool) {
	ok = true
	switch n.Kind {
	case yaml.ScalarNode:
		switch n.Tag {
		case "!!str":
			return []string{n.Value}, true
		case "!!int", "!!float", "!!bool":
			return nil, true
		}
		return nil, false // null, and what has a type of its own
	case yaml.MappingNode, yaml.SequenceNode:
		ok = len(n.Content) > 0
		for _, c := range n.Content {
			more, fine := texts(c)
			out, ok = append(out, more...), ok && fine
		}
	}
	slices.Sort(out)
	return out, ok
}

func asFile(src string) documents.YAMLText {
	return documents.YAMLText{File: "o/a.bu", Src: []byte(src)}
}

func parsedAgain(t *testing.T, built Result) *yaml.Node {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal(built.Documents[0].Source, &doc); err != nil {
		t.Fatalf("%v in\n%s", err, built.Documents[0].Source)
	}
	return doc.Content[0]
}

// scalars are all texts of a tree in order, but for names of files, which are made the repository's.
func scalars(n *yaml.Node) []string {
	if n.Kind == yaml.ScalarNode {
		return []string{n.Value}
	}
	var out []string
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 1 && (documents.IsLocal(n.Content[i-1].Value) ||
			documents.AreLocal(n.Content[i-1].Value)) {
			continue
		}
		out = append(out, scalars(c)...)
	}
	return out
}
