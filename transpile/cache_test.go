package transpile_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// archives are all goldens' trees.
func archives(t *testing.T) map[string]source.Tree {
	t.Helper()
	out := map[string]source.Tree{}
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out[file] = unpack(t, archive.Files)
	}
	return out
}

func TestTheSameTreeGivesTheSameBytes(t *testing.T) {
	memory := &transpile.Transpiler{}
	for name, tree := range archives(t) {
		fresh := transpile.Fragments(tree)
		for range 2 {
			if diff := cmp.Diff(fresh, memory.Fragments(tree)); diff != "" {
				t.Errorf("%s (-fresh +remembered):\n%s", name, diff)
			}
		}
	}
}

func TestGoroutinesShareATranspiler(t *testing.T) {
	memory := &transpile.Transpiler{}
	var wg sync.WaitGroup
	for name, tree := range archives(t) {
		want := transpile.Fragments(tree)
		wg.Go(func() {
			if diff := cmp.Diff(want, memory.Fragments(tree)); diff != "" {
				t.Errorf("%s (-alone +together):\n%s", name, diff)
			}
		})
	}
	wg.Wait()
}

// A memory that misses a change would put an old file on a new commit's nodes: after each change of each kind of file,
// it must give what a fresh build gives.
func TestTheMemoryNoticesEveryChange(t *testing.T) {
	memory := &transpile.Transpiler{}
	var before transpile.Result
	eachChange(t, func(what string, tree source.Tree) {
		after := memory.Fragments(tree)
		if diff := cmp.Diff(transpile.Fragments(tree), after); diff != "" {
			t.Errorf("%s (-fresh +remembered):\n%s", what, diff)
		}
		if cmp.Equal(before, after) {
			t.Errorf("%s changed nothing", what)
		}
		before = after
	})
	if !before.Report.Fatal() || before.Fragments != nil {
		t.Errorf("a broken document gave %v", before.Report)
	}
}

// results is a Store in memory, which counts what it has and what it gets.
type results struct {
	values map[string][]byte
	hits   int
	puts   int
}

func (r *results) Get(key string) ([]byte, bool) {
	value, has := r.values[key]
	if has {
		r.hits++
	}
	return value, has
}

func (r *results) Put(key string, value []byte) {
	r.values[key] = value
	r.puts++
}

// A process that finds the results of another one, for an earlier state, gives what a fresh build gives.
func TestAStoreNoticesEveryChange(t *testing.T) {
	store := &results{values: map[string][]byte{}}
	eachChange(t, func(what string, tree source.Tree) {
		for _, run := range []string{"the first", "the second"} {
			one := &transpile.Transpiler{Store: store}
			if diff := cmp.Diff(transpile.Fragments(tree), one.Fragments(tree)); diff != "" {
				t.Errorf("%s, %s process (-fresh +stored):\n%s", what, run, diff)
			}
		}
	})
	if store.hits == 0 {
		t.Error("no process found a result")
	}
}

// Every golden is the same from a store, whatever it has: also a value that is none.
func TestEveryGoldenIsTheSameFromAStore(t *testing.T) {
	store := &results{values: map[string][]byte{}}
	for _, run := range []string{"cold", "warm", "damaged"} {
		if run == "damaged" {
			for key, value := range store.values {
				store.values[key] = value[:len(value)/2]
			}
		}
		before := store.hits
		for name, tree := range archives(t) {
			one := &transpile.Transpiler{Store: store}
			if diff := cmp.Diff(transpile.Fragments(tree), one.Fragments(tree), sameFiles); diff != "" {
				t.Errorf("%s, %s (-fresh +stored):\n%s", name, run, diff)
			}
		}
		if run == "warm" && store.hits == before {
			t.Error("nothing was found")
		}
	}
}

// TestPoolsShareDocuments translates a document that several pools include once. Each pool gets what it gets alone.
func TestPoolsShareDocuments(t *testing.T) {
	pools := []string{"arm", "edge", "gpu", strings.Repeat("long.", 49) + "pool"}
	base := map[string]string{
		"10-a.bu": "variant: fcos\nversion: 1.6.0\nstorage: {files: [{path: /etc/a, contents: {local: text}}]}\n",
		"20-b.bu": "variant: flatcar\nversion: 1.1.0\nsystemd: {units: [{name: b.service, enabled: true, " +
			"contents: \"[Install]\\nWantedBy=b.target\\n\"}]}\n",
		"30-c.ign": `{"ignition": {"version": "3.5.0"}, "storage": {"files": [{"path": "/etc/c"}]}}`,
		"40-own.bu": "variant: openshift\nversion: 4.19.0\nmetadata: {name: 40-own, labels: " +
			"{machineconfiguration.openshift.io/role: arm}}\nstorage: {files: [{path: /etc/own}]}\n",
		"50-kubelet.yaml": "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nmaxPods: 20\n",
		"text":            "text",
	}
	repository := func(of ...string) source.Tree {
		root := t.TempDir()
		for name, text := range base {
			write(t, root, "base/"+name, text)
		}
		for _, pool := range of {
			write(t, root, "pools/"+pool+"/kustomization.yaml", "resources: [../../base]\n")
		}
		return source.Tree{Root: root, FS: os.DirFS(root)}
	}
	for sentence, without := range map[string][]string{
		"a document with a role, and a name that is too long": nil,
		"a name that is too long":                             {"40-own.bu"},
		"all documents are valid":                             {"40-own.bu", "long"},
	} {
		t.Run(sentence, func(t *testing.T) {
			for _, name := range without {
				delete(base, name)
			}
			in := pools
			if slices.Contains(without, "long") {
				in = pools[:3]
			}
			var entries, together []string
			var alone, all []transpile.Fragment
			for _, pool := range in {
				of := transpile.Fragments(repository(pool))
				alone = append(alone, of.Fragments...)
				for _, e := range of.Report {
					entries = append(entries, e.String())
				}
			}
			store := &results{values: map[string][]byte{}}
			of := (&transpile.Transpiler{Store: store}).Fragments(repository(in...))
			all = of.Fragments
			for _, e := range of.Report {
				together = append(together, e.String())
			}
			slices.Sort(entries)
			slices.Sort(together)
			if diff := cmp.Diff(slices.Compact(entries), together); diff != "" {
				t.Errorf("(-alone +together):\n%s", diff)
			}
			if of.Report.Fatal() {
				return
			}
			if diff := cmp.Diff(alone, all, sameFiles); diff != "" {
				t.Errorf("(-alone +together):\n%s", diff)
			}
			if want := 3 + len(in); store.puts != want { // The kubelet's document becomes another one in each pool.
				t.Errorf("%d documents were translated, not %d", store.puts, want)
			}
		})
	}
}

// While somebody types, most states of a document are broken: the others cost nothing, also if patches change them.
func TestABrokenDocumentCostsNoOther(t *testing.T) {
	root, store := t.TempDir(), &results{values: map[string][]byte{}}
	memory := &transpile.Transpiler{Store: store}
	document := func(i int) string {
		return fmt.Sprintf("variant: fcos\nversion: 1.6.0\nstorage: {files: [{path: /etc/%d}]}\n", i)
	}
	for i := range 9 {
		write(t, root, fmt.Sprintf("pools/worker/%d-a.bu", 10+i), document(i))
		write(t, root, fmt.Sprintf("base/%d-a.bu", 10+i), document(i))
	}
	write(t, root, "pools/edge/kustomization.yaml", "resources: [../../base]\n"+
		"patches: [{target: {kind: Butane}, patch: \"storage: {files: [{path: /etc/all}]}\"}]\n")
	run := func(text string) (puts int) {
		write(t, root, "pools/worker/14-a.bu", text)
		write(t, root, "base/14-a.bu", text)
		before, tree := store.puts, source.Tree{Root: root, FS: os.DirFS(root)}
		if diff := cmp.Diff(transpile.Fragments(tree), memory.Fragments(tree)); diff != "" {
			t.Errorf("%q (-fresh +remembered):\n%s", text, diff)
		}
		return store.puts - before
	}
	if n := run(document(4)); n != 18 {
		t.Errorf("the first run translated %d documents", n)
	}
	if n := run("storage: {files: [{path: /etc/4"); n != 8 { // the documents of the base without the patch
		t.Errorf("the first broken state cost %d documents", n)
	}
	for i := range 3 {
		if n := run(fmt.Sprintf("storage: {files: [{path: /etc/4%d", i)); n != 0 {
			t.Errorf("broken state %d cost %d documents", i, n)
		}
	}
	if n := run(document(40)); n != 2 {
		t.Errorf("the valid state cost %d documents", n)
	}
}

// sameFiles compares the file systems of large files by nothing: they are those of the tree.
var sameFiles = cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".FS" }, cmp.Ignore())

// eachChange changes a repository, each kind of file once, and ends with a broken one.
func eachChange(t *testing.T, check func(what string, tree source.Tree)) {
	t.Helper()
	root := t.TempDir()
	tree := source.Tree{Root: root, FS: os.DirFS(root)}
	doc := "variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n    - path: /etc/%s\n"
	write(t, root, "base/10-a.bu", fmt.Sprintf(doc, "a")+"      contents: {local: text}\n  trees: [{local: tree}]\n")
	write(t, root, "base/text", "one")
	write(t, root, "base/tree/opt/x", "one")
	write(t, root, "pools/worker/kustomization.yaml", "resources: [../../base]\npatches: [{path: 10-a.bu}]\n")
	write(t, root, "pools/worker/10-a.bu", "storage:\n  files:\n    - path: /etc/b\n")
	write(t, root, "pools/master/10-m.bu", fmt.Sprintf(doc, "m"))
	check("nothing yet", tree)
	for _, change := range []struct{ what, file, data string }{
		{"a local file", "base/text", "two"},
		{"a file in a tree", "base/tree/opt/x", "two"},
		{"one more file in a tree", "base/tree/opt/y", "new"},
		{"a base's document", "base/10-a.bu", "# a line more\n" + fmt.Sprintf(doc, "a2")},
		{"only the lines of a document", "base/10-a.bu", "# two\n# lines more\n" + fmt.Sprintf(doc, "a2")},
		{"a patch", "pools/worker/10-a.bu", "storage:\n  files:\n    - path: /etc/c\n"},
		{"a kustomization", "pools/worker/kustomization.yaml", "resources: [../../base]\n"},
		{"one more document in a directory", "pools/master/20-n.bu", fmt.Sprintf(doc, "n")},
		{"a kustomization where there was none", "pools/master/kustomization.yaml", "resources: [20-n.bu]\n"},
		{"a patch of what was none", "pools/worker/kustomization.yaml", "resources: [../../base]\npatches: [{path: 10-a.bu}]\nnamePrefix: b-\n"},
		{"a document that takes files in again", "base/10-a.bu", fmt.Sprintf(doc, "a") + "      contents: {local: text}\n  trees: [{local: tree}]\n"},
		{"a local file, back", "base/text", "one"},
		{"a broken document", "pools/master/20-n.bu", "broken: ["},
	} {
		write(t, root, change.file, change.data)
		check(change.what, tree)
	}
}

func TestAnUntouchedDigestCostsNothing(t *testing.T) {
	root := t.TempDir()
	write(t, root, "pools/worker/10-a.bu", "variant: fcos\nversion: 1.6.0\n")
	tree := source.Tree{Root: root, FS: os.DirFS(root), Digest: "sha256:1"}
	memory := &transpile.Transpiler{}
	first := memory.Fragments(tree)
	if err := os.RemoveAll(root); err != nil { // so that reading again would be noticed
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, memory.Fragments(tree)); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
}

// Positions: every leaf of every golden has an origin that names a line.
func TestEveryLeafHasAnOrigin(t *testing.T) {
	for name, tree := range archives(t) {
		for _, f := range transpile.Fragments(tree).Fragments {
			for _, l := range leaves(t, f) {
				if at, ok := f.Origin.Find(l.path); !ok || at.Line == 0 {
					t.Errorf("%s: %s: %s has no line", name, f.Name, l.path)
				}
			}
		}
	}
}

// backwards lists the files of a directory in the opposite order.
type backwards struct{ fs.FS }

func (b backwards) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(b.FS, name)
	slices.Reverse(entries)
	return entries, err
}

func TestTheOrderOfFilesDoesNotMatter(t *testing.T) {
	for name, tree := range archives(t) {
		want := transpile.Fragments(tree)
		tree.FS = backwards{tree.FS}
		if diff := cmp.Diff(want, transpile.Fragments(tree)); diff != "" {
			t.Errorf("%s (-forwards +backwards):\n%s", name, diff)
		}
	}
}
