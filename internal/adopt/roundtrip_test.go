package adopt_test

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coreos/ignition/v2/config/util"
	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/vincent-petithory/dataurl"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/adopt"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// imported runs an import that must succeed, and checks what holds for every one.
func imported(t testing.TB, opts adopt.Options, inputs ...adopt.Input) (adopt.Repository, []adopt.Finding) {
	t.Helper()
	repo, findings, err := adopt.Import(inputs, opts)
	if err != nil {
		t.Fatal(err)
	}
	keepsThePromises(t, repo)
	return repo, findings
}

// keepsThePromises checks that no object is lost and no path leaves the tree.
func keepsThePromises(t testing.TB, repo adopt.Repository) {
	t.Helper()
	held := map[string]bool{}
	for _, o := range repo.Objects {
		if (len(o.Files) > 0) == (o.Skipped != "") {
			t.Errorf("%s at %s: written to %v, skipped for %q; want one of them", o, o.At, o.Files, o.Skipped)
		}
		for _, f := range append(slices.Clone(o.Files), o.Aside) {
			if held[f] = true; f != "" && repo.Files[f] == nil {
				t.Errorf("%s: %s is not in the repository", o, f)
			}
		}
	}
	for file := range repo.Files {
		top, _, _ := strings.Cut(file, "/")
		if path.Clean(file) != file || !slices.Contains([]string{"pools", "base", "cluster", "unsupported"}, top) {
			t.Errorf("%q leaves the tree", file)
		}
		for name := range strings.SplitSeq(file, "/") {
			if why := source.RefuseName(name); why != "" {
				t.Errorf("%q: %s", file, why)
			}
		}
		if !held[file] && path.Base(file) != "kustomization.yaml" {
			t.Errorf("%s belongs to no object", file)
		}
	}
	for _, s := range repo.Secrets {
		if repo.Files[s] == nil {
			t.Errorf("the secret %s is not in the repository", s)
		}
	}
}

// built transpiles a repository from disk, as everybody will.
func built(t testing.TB, repo adopt.Repository) transpile.Result {
	t.Helper()
	root, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	for file, data := range repo.Files {
		full := filepath.Join(root, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return transpile.Fragments(source.Tree{Root: root, FS: os.DirFS(root)})
}

// rendersEqual checks the whole promise: what the repository renders to has the content of what its objects rendered
// to, pool by pool, and the very name where no finding speaks of another encoding.
func rendersEqual(t testing.TB, repo adopt.Repository, findings []adopt.Finding) {
	t.Helper()
	if len(repo.Kept) == 0 {
		return
	}
	result := built(t, repo)
	refused := func(e transpile.Entry) bool {
		return e.Severity == transpile.Fatal && (e.Rule == "every-node-refuses" || e.Rule == "image-digest")
	}
	// What no node takes is imported, and named at its line; so is an image whose digest no import knows.
	if slices.ContainsFunc(result.Report, refused) {
		return
	}
	if result.Report.Fatal() {
		t.Fatalf("the repository does not build:\n%s\n%s", result.Report, show(repo))
	}
	recoded := slices.ContainsFunc(findings, func(f adopt.Finding) bool { return f.Rule == "encoding" })
	for _, pool := range transpile.AllPools(result) {
		taken, err := transpile.Select(result, pool)
		if err != nil {
			t.Fatal(err)
		}
		want, wantErr := render.Merge(pool, selected(t, pool, result, repo.Kept), render.Defaults{})
		got, gotErr := render.Merge(pool, transpile.MachineConfigs(taken), render.Defaults{})
		if (wantErr == nil) != (gotErr == nil) {
			t.Fatalf("pool %s: rendering gives %v, and %v before", pool, gotErr, wantErr)
		}
		if wantErr != nil {
			continue // the original could not be rendered either
		}
		a, b := reread(t, want.Spec), reread(t, got.Spec)
		if cs := append(disruption.Compare(a, b), disruption.Compare(b, a)...); len(cs) > 0 {
			t.Errorf("pool %s: a node would notice %v", pool, cs)
		}
		if diff := cmp.Diff(canonical(t, a), canonical(t, b)); diff != "" {
			t.Errorf("pool %s (-before +imported):\n%s\n%s", pool, diff, show(repo))
		}
		if !recoded && want.Name != got.Name {
			t.Errorf("pool %s: %s became %s, and no finding says so", pool, want.Name, got.Name)
		}
	}
}

// selected are the MachineConfigs that a pool takes.
func selected(t testing.TB, pool string, result transpile.Result,
	all []*mcfgv1.MachineConfig,
) (out []*mcfgv1.MachineConfig) {
	t.Helper()
	selector, err := transpile.Selector(pool, result.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	for _, mc := range all {
		if selector.Matches(labels.Set(mc.Labels)) {
			out = append(out, mc)
		}
	}
	return out
}

func reread(t testing.TB, spec mcfgv1.MachineConfigSpec) machineconfig.Config {
	t.Helper()
	c, err := machineconfig.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// canonical is all that a config says, with contents in one encoding.
func canonical(t testing.TB, c machineconfig.Config) string {
	t.Helper()
	recode := func(r *ign.Resource) {
		contents, err := machineconfig.Contents(*r)
		if err != nil || r.Source == nil {
			return
		}
		r.Source, r.Compression = util.StrToPtr("data:,"+dataurl.Escape(contents)), nil
	}
	for i := range c.Ignition.Storage.Files {
		f := &c.Ignition.Storage.Files[i]
		recode(&f.Contents)
		for j := range f.Append {
			recode(&f.Append[j])
		}
	}
	for i := range c.Ignition.Ignition.Security.TLS.CertificateAuthorities {
		recode(&c.Ignition.Ignition.Security.TLS.CertificateAuthorities[i])
	}
	spec, err := c.Spec()
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func show(repo adopt.Repository) string {
	var b strings.Builder
	for _, f := range slices.Sorted(maps.Keys(repo.Files)) {
		text := string(repo.Files[f])
		if !strings.HasSuffix(text, "\n") || strings.ContainsFunc(text, func(r rune) bool {
			return r == utf8.RuneError || r < ' ' && r != '\n' && r != '\t'
		}) {
			text = strconv.Quote(text) + "\n" // no text to read
		}
		b.WriteString("-- " + f + " --\n" + text)
	}
	return b.String()
}

// bothWays imports objects for reading and to the letter, and checks that each renders equal.
func bothWays(t *testing.T, inputs ...adopt.Input) {
	t.Helper()
	for _, opts := range []adopt.Options{
		{Generated: true},
		{Generated: true, Exact: true},
		{Generated: true, MaxInline: -1},
	} {
		repo, findings := imported(t, opts, inputs...)
		rendersEqual(t, repo, findings)
		for _, f := range findings {
			if opts.Exact && f.Rule == "encoding" {
				t.Errorf("to the letter, and yet: %s", f)
			}
		}
	}
}
