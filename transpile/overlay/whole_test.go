package overlay

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/openapi"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// A build goes through its layers by itself and has kustomize merge single documents. Here the whole repository goes
// through kustomize at once, as slowly as it does that, and must give the same documents in the same order.

// fileAnnotation tells the file of a document that went through kustomize.
const fileAnnotation = "bunsen.dev/document"

// whole is such a build.
type whole struct {
	fs     fs.FS
	memory filesys.FileSystem
	seen   map[string]bool
}

func buildWhole(fsys fs.FS, dir string) ([]string, error) {
	w := &whole{fsys, filesys.MakeFsInMemory(), map[string]bool{}}
	if err := w.directory(dir); err != nil {
		return nil, err
	}
	merging.Lock()
	defer merging.Unlock()
	if err := plainSchema(); err != nil {
		return nil, err
	}
	opts := krusty.MakeDefaultOptions()
	opts.LoadRestrictions = types.LoadRestrictionsNone
	found, err := krusty.MakeKustomizer(opts).Run(w.memory, "/"+dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, r := range found.Resources() {
		src, err := r.RNode.String()
		if err != nil {
			return nil, err
		}
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(src), &doc); err != nil {
			return nil, err
		}
		root := doc.Content[0]
		out = append(out, printed(scalarAt(root, "kind"), scalarAt(root, "metadata", "name"), scalarAt(root, "metadata", "annotations", fileAnnotation), root))
	}
	return out, nil
}

// plainSchema is ours, but with the keys that documents have.
func plainSchema() error {
	keys, err := schema()
	if err != nil {
		return err
	}
	openapi.ResetOpenAPI()
	openapi.SuppressBuiltInSchemaUse()
	return openapi.AddSchema([]byte(strings.ReplaceAll(string(keys), hiddenKey, "local")))
}

// printed is what two builds must agree on.
func printed(kind, name, file string, root *yaml.Node) string {
	a, _ := Kind(kind).about()
	src, err := encode(normal(a.content(root)))
	if err != nil {
		panic(err)
	}
	role := scalarAt(root, "metadata", "labels", "machineconfiguration.openshift.io/role")
	if a.plain {
		role = ""
	}
	return fmt.Sprintf("%s %s from %s role %q\n%s", kind, name, file, role, src)
}

// normal takes notation out of a tree.
func normal(n *yaml.Node) *yaml.Node {
	if n == nil {
		return mapping()
	}
	out := &yaml.Node{Kind: n.Kind, Tag: n.ShortTag(), Value: n.Value}
	for _, c := range n.Content {
		out.Content = append(out.Content, normal(c))
	}
	return out
}

func (w *whole) directory(dir string) error {
	if w.seen[dir] {
		return nil
	}
	w.seen[dir] = true
	src, err := fs.ReadFile(w.fs, path.Join(dir, "kustomization.yaml"))
	if err != nil {
		return w.implicit(dir)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(src, &doc); err != nil {
		return err
	}
	k := doc.Content[0]
	for _, key := range []string{"resources", "components"} {
		_, list := field(k, key)
		if list == nil {
			continue
		}
		for _, e := range list.Content {
			if err := w.reference(path.Join(dir, e.Value)); err != nil {
				return err
			}
		}
	}
	remove(k, "metadata")
	if _, pairs := field(k, "commonLabels"); pairs != nil { // kustomize would complain on the test's standard error
		remove(k, "commonLabels")
		set(k, "labels", &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{mapping(str("pairs"), pairs, str("includeSelectors"), &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"})}})
	}
	if _, list := field(k, "patches"); list != nil {
		for _, e := range list.Content {
			if err := w.patch(dir, e); err != nil {
				return err
			}
		}
	}
	if _, list := field(k, "replacements"); list != nil {
		for _, e := range list.Content {
			w.replacement(e)
		}
	}
	return w.write(path.Join(dir, "kustomization.yaml"), k)
}

func (w *whole) implicit(dir string) error {
	entries, err := fs.ReadDir(w.fs, dir)
	if err != nil {
		return err
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for _, e := range entries {
		if IsButane(e.Name()) || w.saysVariant(path.Join(dir, e.Name())) {
			list.Content = append(list.Content, str(e.Name()))
			if err := w.reference(path.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return w.write(path.Join(dir, "kustomization.yaml"), mapping(str("resources"), list))
}

// saysVariant reports whether YAML is a Butane document by what it says.
func (w *whole) saysVariant(name string) bool {
	src, err := fs.ReadFile(w.fs, name)
	var doc yaml.Node
	if ext := path.Ext(name); err != nil || ext != ".yaml" && ext != ".yml" || yaml.Unmarshal(src, &doc) != nil || len(doc.Content) == 0 {
		return false
	}
	return scalarAt(doc.Content[0], "variant") != "" && scalarAt(doc.Content[0], "version") != ""
}

func (w *whole) reference(name string) error {
	if info, err := fs.Stat(w.fs, name); err != nil || info.IsDir() {
		return w.directory(name)
	}
	src, err := fs.ReadFile(w.fs, name)
	if err != nil {
		return err
	}
	d, root := declare(name, src)
	if d.broken {
		return errors.New(name + " is broken")
	}
	_, meta := field(root, "metadata")
	_, annotations := field(meta, "annotations")
	if annotations == nil {
		annotations = mapping()
		set(meta, "annotations", annotations)
	}
	set(annotations, fileAnnotation, str(name))
	return w.write(name, root)
}

func (w *whole) write(name string, n *yaml.Node) error {
	src, err := encode(n)
	if err != nil {
		return err
	}
	return w.memory.WriteFile("/"+name, src)
}

// patch makes a patch one of wrapped documents.
func (w *whole) patch(dir string, e *yaml.Node) error {
	_, target := field(e, "target")
	t := text{file: path.Join(dir, "kustomization.yaml"), src: []byte(scalarAt(e, "patch"))}
	if file := scalarAt(e, "path"); file != "" {
		t.file = path.Join(dir, file)
		var err error
		if t.src, err = fs.ReadFile(w.fs, t.file); err != nil {
			return err
		}
	}
	p := usage{Kind(scalarAt(target, "kind")), target != nil}.read(t)
	if origin.Fatal(p.findings) {
		return fmt.Errorf("%v", p.findings)
	}
	remove(e, "path")
	if p.object == nil {
		all := ""
		for _, op := range p.operations {
			all += op.text
		}
		set(e, "patch", str(all))
	} else {
		if p.about.plain && target == nil {
			_, meta := field(p.object, "metadata")
			set(meta, "name", str(p.name))
		}
		src, err := encode(p.object)
		if err != nil {
			return err
		}
		set(e, "patch", str(string(src)))
	}
	if target != nil && scalarAt(target, "kind") == "" {
		set(target, "kind", str(string(p.about.kind)))
	}
	return nil
}

// replacement makes a replacement one of wrapped documents.
func (w *whole) replacement(e *yaml.Node) {
	prefix := func(selector *yaml.Node) string {
		kind := Kind(scalarAt(selector, "kind"))
		if kind == "" {
			kind = Butane
			set(selector, "kind", str(string(kind)))
		}
		if a, _ := kind.about(); a.plain {
			return a.under + "."
		}
		return ""
	}
	if _, source := field(e, "source"); source != nil {
		_, p := field(source, "fieldPath")
		p.Value = prefix(source) + p.Value
	}
	_, targets := field(e, "targets")
	for _, t := range targets.Content {
		_, sel := field(t, "select")
		_, paths := field(t, "fieldPaths")
		pre := prefix(sel)
		for _, p := range paths.Content {
			p.Value = pre + p.Value
		}
	}
}

// ours is our build, printed alike.
func ours(built Result) []string {
	var out []string
	for _, d := range built.Documents {
		var doc yaml.Node
		if err := yaml.Unmarshal(d.Source, &doc); err != nil {
			panic(err)
		}
		root := doc.Content[0]
		if a, _ := d.Kind.about(); a.plain {
			root = a.wrap(d.Name, root)
		}
		out = append(out, printed(string(d.Kind), d.Name, d.File, root))
	}
	return out
}

// same compares both builds. It tells whether there was one.
func same(t *testing.T, repo fs.FS, dir string) bool {
	t.Helper()
	want, err := buildWhole(repo, dir)
	m := new(Builder)
	for range 2 { // once cold, once from memory
		got, found := m.Build(repo, dir)
		if err != nil && !origin.Fatal(found) {
			t.Errorf("kustomize refuses what we build: %v\nfindings %v\n%s", err, found, dump(repo))
			return false
		}
		if err != nil {
			return false
		}
		for _, f := range found {
			if f.Rule == "patch-target" && !f.Warning { // kustomize passes over it in silence
				return false
			}
			if !f.Warning {
				t.Errorf("kustomize builds what we refuse: %v\n%s", f, dump(repo))
				return false
			}
		}
		if diff := cmp.Diff(want, ours(got)); diff != "" {
			t.Errorf("(-kustomize +ours)\n%s\n%s", diff, dump(repo))
			return false
		}
	}
	return true
}

func dump(repo fs.FS) string {
	var out strings.Builder
	_ = fs.WalkDir(repo, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			src, _ := fs.ReadFile(repo, p)
			fmt.Fprintf(&out, "-- %s --\n%s", p, src)
		}
		return err
	})
	return out.String()
}

func TestEveryGoldenBuildsAsThroughKustomizeAtOnce(t *testing.T) {
	archives, err := filepath.Glob("../testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal("no goldens:", err)
	}
	built := 0
	for _, name := range archives {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		repo := fstest.MapFS{}
		for _, f := range txtar.Parse(src).Files {
			repo[f.Name] = &fstest.MapFile{Data: f.Data}
		}
		pools, _ := fs.ReadDir(repo, "pools")
		for _, p := range pools {
			dir := "pools/" + p.Name()
			if _, found := Build(repo, dir); origin.Fatal(found) || !comparable(repo, dir) {
				continue
			}
			t.Run(filepath.Base(name)+"/"+p.Name(), func(t *testing.T) {
				if same(t, repo, dir) {
					built++
				}
			})
		}
	}
	if built < 20 {
		t.Errorf("only %d pools were compared", built)
	}
}

// comparable tells whether kustomize can take a pool at all: it knows neither directories without a kustomization that
// hold more than Butane, nor names with blanks.
func comparable(repo fs.FS, dir string) bool {
	built, _ := Build(repo, dir)
	if len(built.Documents) == 0 || slices.ContainsFunc(built.Documents, func(d Document) bool { return strings.Contains(d.File, " ") }) {
		return false
	}
	if _, err := fs.Stat(repo, path.Join(dir, "kustomization.yaml")); err == nil {
		return true
	}
	for _, d := range built.Documents {
		if d.Kind != Butane {
			return false
		}
	}
	return true
}

var cases = flag.Int("cases", 60, "how many random repositories are built; a change to how layers are gone through deserves thousands")

func TestRandomRepositoriesBuildAsThroughKustomizeAtOnce(t *testing.T) {
	built, all := 0, *cases
	for seed := range all {
		r := &random{Rand: rand.New(rand.NewPCG(uint64(seed), 7)), repo: fstest.MapFS{}}
		r.layer("o", 3)
		if same(t, r.repo, "o") {
			built++
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if built < all/2 {
		t.Errorf("only %d of %d repositories could be built", built, all)
	}
}
