package examples_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

var update = flag.Bool("update", false, "write the index of the cookbook anew; read the diff")

const cookbook = "cookbook"

// fact is one thing that a config says: `passwd.users[core].groups` is `wheel`.
type fact struct{ at, is string }

func (f fact) String() string { return fmt.Sprintf("%s = %q", f.at, f.is) }

// says tells whether one of the facts stands at the place and holds the text.
func says(facts []fact, at, is string) bool {
	return slices.ContainsFunc(facts, func(f fact) bool { return f.at == at && strings.Contains(f.is, is) })
}

// factsOf takes a value apart. Items of lists are known by what they are called, contents are decoded.
func factsOf(at string, v any, out []fact) []fact {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["source"]; ok {
			return append(out, contents(at, v)...)
		}
		if len(v) == 0 {
			return append(out, fact{at, "{}"})
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = factsOf(strings.TrimPrefix(at+"."+key, "."), v[key], out)
		}
	case []any:
		for _, item := range v {
			out = factsOf(at+called(item), item, out)
		}
	default:
		out = append(out, fact{at, fmt.Sprint(v)})
	}
	return out
}

// called is the name of a list's item in brackets; empty where it has none.
func called(item any) string {
	object, _ := item.(map[string]any)
	for _, key := range []string{"path", "name", "device", "label", "url", "number"} {
		if name, ok := object[key]; ok {
			return fmt.Sprintf("[%v]", name)
		}
	}
	return ""
}

// contents is the text of a resource, and whatever else is said of it.
func contents(at string, v map[string]any) []fact {
	var r ign.Resource
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	text, decoded := machineconfig.Contents(r)
	if err != nil || decoded != nil {
		return []fact{{at, fmt.Sprint(err, decoded)}}
	}
	rest := maps.Clone(v)
	delete(rest, "source")
	return factsOf(at, rest, []fact{{at, string(text)}})
}

// factsOfConfig are those of a MachineConfig's spec.
func factsOfConfig(t *testing.T, c machineconfig.Config) []fact {
	t.Helper()
	spec, err := c.Spec()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Config map[string]any
	}
	var rest map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &rest); err != nil {
		t.Fatal(err)
	}
	delete(rest, "config")
	return factsOf("", rest, factsOf("", v.Config, nil))
}

func TestTheCookbookIsValidWithoutAWarning(t *testing.T) {
	tree := source.Tree{Root: cookbook, FS: os.DirFS(cookbook)}
	result, rendering, _ := new(review.Renderings).Render(tree, nil)
	checked := review.Check(result, rendering)
	if len(checked.Report) > 0 {
		t.Errorf("bunsen validate says:\n%s", checked.Report)
	}
}

// Each kind of thing stands in the document that the index names, and the pool's config has it.
func TestEveryKindHasItsEffect(t *testing.T) {
	result, rendering, _ := new(review.Renderings).Render(source.Tree{Root: cookbook, FS: os.DirFS(cookbook)}, nil)
	if result.Report.Fatal() || rendering.Err != nil {
		t.Fatal(result.Report, rendering.Err)
	}
	pools := map[string][]fact{}
	for _, p := range rendering.Pools {
		pools[p.Rendered.Pool] = factsOfConfig(t, p.Rendered.Config)
		for _, name := range p.Rendered.Inputs {
			pools[p.Rendered.Pool] = append(pools[p.Rendered.Pool], fact{"metadata.name", name})
		}
	}
	for _, k := range kinds() {
		t.Run(k.want, func(t *testing.T) {
			own := factsOfDocument(t, result, k)
			if len(own) == 0 {
				t.Fatalf("%s gives pool %q nothing", k.document, k.pool)
			}
			if !says(own, k.at, k.is) {
				t.Errorf("%s does not say %s of:\n%s", k.document, fact{k.at, k.is}, lines(own))
			}
			if k.pool != "" && !says(pools[k.pool], k.at, k.is) {
				t.Errorf("pool %s has no %s, which %s asks for", k.pool, fact{k.at, k.is}, k.document)
			}
		})
	}
}

func lines(facts []fact) string {
	var b strings.Builder
	for _, f := range facts {
		fmt.Fprintln(&b, "  ", f)
	}
	return b.String()
}

// factsOfDocument are those of every fragment that the document takes part in, or of the objects in a file of cluster/.
// What a kustomization lists and names is all of its pool.
func factsOfDocument(t *testing.T, result transpile.Result, k kind) []fact {
	t.Helper()
	var out []fact
	for _, f := range result.Fragments {
		takesPart := path.Base(k.document) == "kustomization.yaml" ||
			slices.ContainsFunc(f.Origin.Files, func(o origin.File) bool { return o.Path == k.document })
		if !takesPart || f.Pool != k.pool && f.Pool != "worker" {
			continue
		}
		c, err := machineconfig.Parse(f.MachineConfig.Spec)
		if err != nil {
			t.Fatal(err)
		}
		out = append(append(out, fact{"metadata.name", f.Name}), factsOfConfig(t, c)...)
	}
	for _, o := range result.Cluster {
		if o.File == k.document {
			out = append(out, factsOf(o.Object.GetKind()+"["+o.Object.GetName()+"]", o.Object.Object["spec"], nil)...)
		}
	}
	return out
}

var (
	index = regexp.MustCompile(`(?s)(<!-- begin index -->\n).*(<!-- end index -->)`)
	links = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
)

// The index in the README is this package's table: go test ./examples -update.
func TestTheIndexIsTheTable(t *testing.T) {
	readme := path.Join(cookbook, "README.md")
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i, g := range groups {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "### %s\n\n| I want | Document | Shown by |\n|---|---|---|\n", g.title)
		for _, k := range g.kinds {
			fmt.Fprintf(&b, "| %s | [%[2]s](%[2]s) | %s |\n", k.want, k.document, k.section)
		}
	}
	want := index.ReplaceAllString(string(text), "${1}\n"+strings.ReplaceAll(b.String(), "$", "$$")+"\n${2}")
	if *update {
		if err := os.WriteFile(readme, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(text) || !strings.Contains(want, "| I want |") {
		t.Error("the index of cookbook/README.md is not the table: go test ./examples -update")
	}
}

// Nothing lies in the cookbook that the index leaves out, and every document says in its first line what it is for.
func TestEveryDocumentIsInTheIndexAndSaysWhatItIsFor(t *testing.T) {
	readme, err := os.ReadFile(path.Join(cookbook, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	linked := map[string]bool{}
	for _, m := range links.FindAllStringSubmatch(string(readme), -1) {
		linked[m[1]] = true
	}
	err = fs.WalkDir(os.DirFS(cookbook), ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !slices.Contains(documents, path.Ext(p)) || contentsOnly.MatchString(p) {
			return err
		}
		if !linked[p] {
			t.Errorf("README.md does not link to %s", p)
		}
		src, err := os.ReadFile(path.Join(cookbook, p))
		if path.Ext(p) != ".ign" && !strings.HasPrefix(string(src), "# ") {
			t.Errorf("%s does not say in its first line what it is for", p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

var (
	documents    = []string{".bu", ".butane", ".fcc", ".ign", ".yaml"}
	contentsOnly = regexp.MustCompile(`/(files|monitoring)/`)
)

// What Butane's documentation shows in its examples, all of it, has a row.
func TestEverySectionOfButanesExamplesHasADocument(t *testing.T) {
	for _, section := range butaneSections {
		if !slices.ContainsFunc(kinds(), func(k kind) bool { return k.section == ofButane+section }) {
			t.Errorf("no document is of section %q", section)
		}
	}
	for _, k := range kinds() {
		if section, ok := strings.CutPrefix(k.section, ofButane); ok && !slices.Contains(butaneSections, section) {
			t.Errorf("Butane's examples have no section %q (%s)", section, k.want)
		}
	}
}
