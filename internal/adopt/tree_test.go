package adopt_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	butane "github.com/coreos/butane/config"
	"github.com/coreos/butane/config/common"
	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"golang.org/x/tools/txtar"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/adopt"

	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/repository"
	"github.com/bunsen-os/bunsen/transpile"
	"github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Each file of testdata is one sentence about Butane files: what comes in (tree/…), which of them are whole configs
// (roots), and the repository that they become.
func TestTreeGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/tree/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no goldens:", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := &txtar.Archive{Comment: archive.Comment}
			dir, pool, roots := t.TempDir(), "", ""
			for _, f := range archive.Files {
				name, in := strings.CutPrefix(f.Name, "tree/")
				switch {
				case in:
					write(t, filepath.Join(dir, name), f.Data, 0o644)
				case f.Name == "options":
					pool = strings.TrimSpace(strings.TrimPrefix(string(f.Data), "pool "))
				case f.Name == "roots":
					roots = string(f.Data)
				default:
					continue
				}
				got.Files = append(got.Files, f)
			}
			out, findings := treeImported(t, dir, pool)
			result := treeBuilt(t, out)
			if result.Report.Fatal() {
				t.Errorf("the repository does not build:\n%s", result.Report)
			}
			sameContent(t, dir, roots, result)
			got.Files = append(got.Files, txtar.File{Name: "findings", Data: lines(findings)})
			for _, name := range slices.Sorted(maps.Keys(out.Files)) {
				got.Files = append(got.Files, txtar.File{Name: name, Data: out.Files[name]})
			}
			if *update {
				write(t, file, txtar.Format(got), 0o644)
				return
			}
			if diff := cmp.Diff(string(txtar.Format(archive)), string(txtar.Format(got))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheCookbookKeepsItsContent imports the Butane files of each pool of the cookbook as a directory of its own.
func TestTheCookbookKeepsItsContent(t *testing.T) {
	dirs, err := filepath.Glob("../../examples/cookbook/pools/*")
	if err != nil || len(dirs) == 0 {
		t.Fatal("no pools:", err)
	}
	compared := 0
	for _, from := range dirs {
		t.Run(filepath.Base(from), func(t *testing.T) {
			dir, roots := t.TempDir(), ""
			if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			out, _ := treeImported(t, dir, "worker")
			for _, o := range out.Objects {
				if src, err := os.ReadFile(filepath.Join(dir, o.Name)); err == nil && o.Skipped == "" &&
					!strings.Contains(string(src), "variant: openshift") {
					roots += "worker " + o.Name + "\n"
					compared++
				}
			}
			sameContent(t, dir, roots, treeBuilt(t, out))
		})
	}
	if compared < 30 {
		t.Errorf("only %d files are compared", compared)
	}
}

func lines(findings []adopt.Finding) []byte {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintln(&b, f)
	}
	return []byte(b.String())
}

func write(t testing.TB, name string, data []byte, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, mode); err != nil {
		t.Fatal(err)
	}
}

func opened(t testing.TB, dir string) source.Tree {
	t.Helper()
	into, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	out, err := repository.OpenDir(t.Context(), dir, into, nil, source.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func treeImported(t testing.TB, dir, pool string) (adopt.TreeOutput, []adopt.Finding) {
	t.Helper()
	files := opened(t, dir)
	out, findings, err := adopt.ImportTree(adopt.TreeInput{Tree: files, Files: files, Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	treeKeepsThePromises(t, out)
	return out, findings
}

// treeKeepsThePromises checks that no Butane file is lost and no path leaves the repository.
func treeKeepsThePromises(t testing.TB, out adopt.TreeOutput) {
	t.Helper()
	for _, o := range out.Objects {
		if (len(o.Files) > 0) == (o.Skipped != "") {
			t.Errorf("%s: written to %v, skipped for %q; want one of them", o, o.Files, o.Skipped)
		}
		for _, f := range append(slices.Clone(o.Files), o.Aside) {
			if f != "" && out.Files[f] == nil {
				t.Errorf("%s: %s is not in the repository", o, f)
			}
		}
	}
	for name := range out.Files {
		if top, _, _ := strings.Cut(name, "/"); filepath.Clean(name) != name || top != "pools" && top != "unsupported" {
			t.Errorf("%q leaves the repository", name)
		}
	}
}

func treeBuilt(t testing.TB, out adopt.TreeOutput) transpile.Result {
	t.Helper()
	root, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range out.Files {
		mode := os.FileMode(0o644)
		if slices.Contains(out.Executable, name) {
			mode = 0o755
		}
		write(t, filepath.Join(root, filepath.FromSlash(name)), data, mode)
	}
	return transpile.Fragments(source.Tree{Root: root, FS: os.DirFS(root)})
}

// sameContent checks that what a pool renders to has the content of what Butane itself makes of the files.
func sameContent(t testing.TB, dir, roots string, result transpile.Result) {
	t.Helper()
	compile(t, dir)
	mcs := map[string][]*mcfgv1.MachineConfig{}
	for line := range strings.Lines(roots) {
		pool, root, _ := strings.Cut(strings.TrimSpace(line), " ")
		raw, err := os.ReadFile(filepath.Join(dir, strings.TrimSuffix(root, filepath.Ext(root))+".ign"))
		if err != nil {
			t.Fatal(err)
		}
		read, problems := kinds.ReadIgnition(raw)
		if len(problems) > 0 {
			t.Fatal(root, problems)
		}
		flat, err := machineconfig.Flat(machineconfig.Config{HasIgnition: true, Ignition: read.Config})
		if err != nil {
			t.Fatal(err)
		}
		kinds.LiftKernelArguments(&flat, origin.Map{At: map[string]origin.Pos{}})
		spec, err := flat.Spec()
		if err != nil {
			t.Fatal(err)
		}
		mcs[pool] = append(mcs[pool],
			&mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
				Name:   fmt.Sprintf("%02d", len(mcs[pool])),
				Labels: map[string]string{"machineconfiguration.openshift.io/role": pool},
			}, Spec: spec})
	}
	for pool, want := range mcs {
		own := slices.DeleteFunc(slices.Clone(result.Fragments), func(f transpile.Fragment) bool {
			return f.Pool != pool
		})
		if diff := cmp.Diff(rendered(t, pool, want), rendered(t, pool, transpile.MachineConfigs(own))); diff != "" {
			t.Errorf("pool %s (-Butane +imported):\n%s", pool, diff)
		}
	}
}

// compile compiles all Butane files with Butane's own library, until those that merge others have what they merge.
func compile(t testing.TB, dir string) {
	t.Helper()
	for range 5 {
		err := filepath.Walk(dir, func(p string, info os.FileInfo, err error) error {
			if err != nil || !info.Mode().IsRegular() ||
				!slices.Contains([]string{".bu", ".butane", ".fcc", ".yaml", ".yml"}, filepath.Ext(p)) {
				return err
			}
			src, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			options := common.TranslateBytesOptions{TranslateOptions: common.TranslateOptions{
				FilesDir:                  dir,
				NoResourceAutoCompression: true,
			}}
			if compiled, report, err := butane.TranslateBytes(src, options); err == nil && !report.IsFatal() {
				write(t, strings.TrimSuffix(p, filepath.Ext(p))+".ign", compiled, 0o644)
				beside := filepath.Join(dir, strings.TrimSuffix(filepath.Base(p), filepath.Ext(p))+".ign")
				write(t, beside, compiled, 0o644)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// rendered is what a pool renders to, flat and as text.
func rendered(t testing.TB, pool string, mcs []*mcfgv1.MachineConfig) string {
	t.Helper()
	out, err := render.Merge(pool, mcs, render.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := machineconfig.Parse(out.Spec)
	if err == nil {
		c, err = machineconfig.Flat(c)
	}
	if err != nil {
		t.Fatal(err)
	}
	kinds.LiftKernelArguments(&c, origin.Map{At: map[string]origin.Pos{}}) // those of Flatcar stay in the Ignition
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
