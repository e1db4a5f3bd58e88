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
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
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
	kustomizeLock.Lock()
	defer kustomizeLock.Unlock()
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
		out = append(out, printed(documents.Scalar(root, "kind"), documents.Scalar(root, "metadata", "name"),
			documents.Scalar(root, "metadata", "annotations", fileAnnotation), root))
	}
	return out, nil
}

// plainSchema is ours, but with the keys that documents have.
func plainSchema() error {
	keys, err := documents.Schema()
	if err != nil {
		return err
	}
	openapi.ResetOpenAPI()
	openapi.SuppressBuiltInSchemaUse()
	return openapi.AddSchema([]byte(strings.ReplaceAll(string(keys), documents.HiddenKey, "local")))
}

// printed is what two builds must agree on.
func printed(kind, name, file string, root *yaml.Node) string {
	info, _ := documents.Kind(kind).Info()
	content := normal(info.Content(root))
	for _, l := range info.Lists {
		if l.IsOrdered { // kustomize puts the items of a patch first: TestKernelArgumentsOfAPatchComeLast.
			for _, list := range documents.NodesBelow(content, strings.Split(l.Path, ".")) {
				slices.SortFunc(list.Content, func(a, b *yaml.Node) int { return strings.Compare(a.Value, b.Value) })
			}
		}
	}
	src, err := documents.Encode(content)
	if err != nil {
		panic(err)
	}
	role := documents.Scalar(root, "metadata", "labels", "machineconfiguration.openshift.io/role")
	if info.Wrapped {
		role = ""
	}
	return fmt.Sprintf("%s %s from %s role %q\n%s", kind, name, file, role, src)
}

// normal takes notation out of a tree.
func normal(n *yaml.Node) *yaml.Node {
	if n == nil {
		return documents.Mapping()
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
		_, list := documents.Field(k, key)
		if list == nil {
			continue
		}
		for _, e := range list.Content {
			if err := w.reference(path.Join(dir, e.Value)); err != nil {
				return err
			}
		}
	}
	documents.Remove(k, "metadata")
	// kustomize would complain on the test's standard error
	if _, pairs := documents.Field(k, "commonLabels"); pairs != nil {
		documents.Remove(k, "commonLabels")
		documents.Set(k, "labels", &yaml.Node{
			Kind: yaml.SequenceNode,
			Content: []*yaml.Node{documents.Mapping(documents.Str("pairs"), pairs, documents.Str("includeSelectors"),
				&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"})},
		})
	}
	if _, list := documents.Field(k, "patches"); list != nil {
		for _, e := range list.Content {
			if err := w.patch(dir, e); err != nil {
				return err
			}
		}
	}
	if _, list := documents.Field(k, "replacements"); list != nil {
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
		if documents.IsButane(e.Name()) || w.saysVariant(path.Join(dir, e.Name())) {
			list.Content = append(list.Content, documents.Str(e.Name()))
			if err := w.reference(path.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return w.write(path.Join(dir, "kustomization.yaml"), documents.Mapping(documents.Str("resources"), list))
}

// saysVariant reports whether YAML is a Butane document by what it says.
func (w *whole) saysVariant(name string) bool {
	src, err := fs.ReadFile(w.fs, name)
	var doc yaml.Node
	if ext := path.Ext(name); err != nil || ext != ".yaml" && ext != ".yml" || yaml.Unmarshal(src, &doc) != nil ||
		len(doc.Content) == 0 {
		return false
	}
	return documents.Scalar(doc.Content[0], "variant") != "" && documents.Scalar(doc.Content[0], "version") != ""
}

func (w *whole) reference(name string) error {
	if info, err := fs.Stat(w.fs, name); err != nil || info.IsDir() {
		return w.directory(name)
	}
	src, err := fs.ReadFile(w.fs, name)
	if err != nil {
		return err
	}
	d, root := documents.Declare(name, src)
	if d.Broken {
		return errors.New(name + " is broken")
	}
	_, meta := documents.Field(root, "metadata")
	_, annotations := documents.Field(meta, "annotations")
	if annotations == nil {
		annotations = documents.Mapping()
		documents.Set(meta, "annotations", annotations)
	}
	documents.Set(annotations, fileAnnotation, documents.Str(name))
	return w.write(name, root)
}

func (w *whole) write(name string, n *yaml.Node) error {
	src, err := documents.Encode(n)
	if err != nil {
		return err
	}
	return w.memory.WriteFile("/"+name, src)
}

// patch makes a patch one of wrapped documents.
func (w *whole) patch(dir string, e *yaml.Node) error {
	_, target := documents.Field(e, "target")
	t := documents.YAMLText{File: path.Join(dir, "kustomization.yaml"), Src: []byte(documents.Scalar(e, "patch"))}
	if file := documents.Scalar(e, "path"); file != "" {
		t.File = path.Join(dir, file)
		var err error
		if t.Src, err = fs.ReadFile(w.fs, t.File); err != nil {
			return err
		}
	}
	p := ParsePatch(t, target)
	if origin.Fatal(p.Findings) {
		return fmt.Errorf("%v", p.Findings)
	}
	documents.Remove(e, "path")
	if p.Object == nil {
		all := ""
		for _, op := range p.Operations {
			all += op.Text
		}
		documents.Set(e, "patch", documents.Str(all))
	} else {
		if p.Info.Wrapped && target == nil {
			_, meta := documents.Field(p.Object, "metadata")
			documents.Set(meta, "name", documents.Str(p.Name))
		}
		src, err := documents.Encode(p.Object)
		if err != nil {
			return err
		}
		documents.Set(e, "patch", documents.Str(string(src)))
	}
	if target != nil && documents.Scalar(target, "kind") == "" {
		documents.Set(target, "kind", documents.Str(string(p.Info.Kind)))
	}
	return nil
}

// replacement makes a replacement one of wrapped documents.
func (w *whole) replacement(e *yaml.Node) {
	prefix := func(selector *yaml.Node) string {
		kind := documents.Kind(documents.Scalar(selector, "kind"))
		if kind == "" {
			kind = documents.Butane
			documents.Set(selector, "kind", documents.Str(string(kind)))
		}
		if info, _ := kind.Info(); info.Wrapped {
			return info.Section + "."
		}
		return ""
	}
	if _, source := documents.Field(e, "source"); source != nil {
		_, p := documents.Field(source, "fieldPath")
		p.Value = prefix(source) + p.Value
	}
	_, targets := documents.Field(e, "targets")
	for _, t := range targets.Content {
		_, sel := documents.Field(t, "select")
		_, paths := documents.Field(t, "fieldPaths")
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
		if info, _ := d.Kind.Info(); info.Wrapped {
			root = info.Wrap(d.Name, root)
		}
		out = append(out, printed(string(d.Kind), d.Name, d.File, root))
	}
	return out
}

// same compares both builds. It tells whether there was one.
func same(t *testing.T, repo fs.FS, dir string) bool {
	t.Helper()
	want, err := buildWhole(repo, dir)
	got, found := Build(repo, dir, nil)
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
			if _, found := Build(repo, dir, nil); origin.Fatal(found) || !comparable(repo, dir) {
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

// comparable reports whether kustomize can take a pool at all: it knows neither directories without a kustomization
// that hold more than Butane, nor names with blanks.
func comparable(repo fs.FS, dir string) bool {
	built, _ := Build(repo, dir, nil)
	if len(built.Documents) == 0 || slices.ContainsFunc(built.Documents, func(d documents.Document) bool {
		return strings.Contains(d.File, " ")
	}) {
		return false
	}
	if _, err := fs.Stat(repo, path.Join(dir, "kustomization.yaml")); err == nil {
		return true
	}
	for _, d := range built.Documents {
		if d.Kind != documents.Butane {
			return false
		}
	}
	return true
}

var cases = flag.Int("cases", 60, "how many random repositories are built; a change to how layers are gone through "+
	"deserves thousands")

func newRand(seed int) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), 7)) }

func TestRandomRepositoriesBuildAsThroughKustomizeAtOnce(t *testing.T) {
	built, all := 0, *cases
	for seed := range all {
		r := &random{Rand: newRand(seed), repo: fstest.MapFS{}}
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
