package examples_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"testing"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// repositories are the examples, with the pools that each is about.
var repositories = map[string][]string{
	"quickstart":   {"infra", "master", "worker"},
	"secrets":      {"worker"},
	"bare-metal":   {"worker"},
	"fcos-kubeadm": {"master", "worker"}, "flatcar-kubeadm": {"worker"},
	"cookbook": {
		"arm64", "edge", "encrypted", "flatcar", "gateway", "lab", "legacy", "master", "mirrored", "openshift", "power",
		"sealed", "storage", "striped", "worker", "z-cex", "z-dasd", "z-fcp", "z-kvm",
	},
}

func build(t *testing.T, dir string) transpile.Result {
	t.Helper()
	return transpile.Fragments(source.Tree{Root: dir, FS: os.DirFS(dir)})
}

func TestEveryDirectoryIsListedHere(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, err := os.Stat(path.Join(e.Name(), "pools")); err == nil && repositories[e.Name()] == nil {
			t.Errorf("examples/%s is a config repository that no test builds", e.Name())
		}
	}
}

func TestEveryExampleHasAReadme(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		text, err := os.ReadFile(path.Join(e.Name(), "README.md"))
		if err != nil || !bytes.HasPrefix(text, []byte("# "+e.Name()+": ")) {
			t.Errorf("examples/%[1]s/README.md does not begin with `# %[1]s: ` and what it is for: %[2]v", e.Name(),
				err)
		}
	}
}

func TestEveryExampleBuildsWithoutARemark(t *testing.T) {
	for dir, pools := range repositories {
		result := build(t, dir)
		if len(result.Report) > 0 {
			t.Errorf("%s:\n%s", dir, result.Report)
		}
		if !slices.Equal(result.Pools, pools) {
			t.Errorf("%s has pools %v, want %v", dir, result.Pools, pools)
		}
		for _, pool := range pools {
			taken, err := transpile.Select(result, pool)
			if err != nil || len(taken) == 0 {
				t.Errorf("%s: pool %s takes nothing: %v", dir, pool, err)
			}
			for _, f := range taken {
				if _, err := machineconfig.Parse(f.MachineConfig.Spec); err != nil {
					t.Errorf("%s: %s: %v", dir, f.Name, err)
				}
			}
		}
	}
}

// Every leaf of every example has an origin, and it points at a line that is there.
func TestEveryLeafPointsAtALine(t *testing.T) {
	for dir := range repositories {
		lines := map[string]int{}
		for _, f := range build(t, dir).Fragments {
			if len(f.MachineConfig.Spec.Config.Raw) == 0 {
				continue // it says nothing in Ignition's words
			}
			var ignition any
			if err := json.Unmarshal(f.MachineConfig.Spec.Config.Raw, &ignition); err != nil {
				t.Fatal(err)
			}
			for _, leaf := range leaves("$", ignition) {
				at, ok := f.Origin.Find(leaf)
				if !ok || at.Line == 0 {
					t.Errorf("%s: %s: %s has no line", dir, f.Name, leaf)
					continue
				}
				if lines[at.File] == 0 {
					src, err := fs.ReadFile(os.DirFS(dir), at.File)
					if err != nil {
						t.Errorf("%s: %s: %s: %v", dir, f.Name, leaf, err)
						continue
					}
					lines[at.File] = bytes.Count(src, []byte("\n"))
				}
				if at.Line > lines[at.File] {
					t.Errorf("%s: %s: %s is said to be at %s, which has %d lines", dir, f.Name, leaf, at,
						lines[at.File])
				}
			}
			for _, file := range f.Origin.Files {
				if _, err := fs.Stat(os.DirFS(dir), file.Path); err != nil || len(file.Blob) != 64 {
					t.Errorf("%s: %s: file %v: %v", dir, f.Name, file, err)
				}
			}
		}
	}
}

func leaves(at string, v any) []string {
	var out []string
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			out = append(out, leaves(at+"."+k, e)...)
		}
	case []any:
		for i, e := range v {
			out = append(out, leaves(at+"."+strconv.Itoa(i), e)...)
		}
	default:
		out = append(out, at)
	}
	return out
}

func TestInfraInheritsWorkers(t *testing.T) {
	taken, err := transpile.Select(build(t, "quickstart"), "infra")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range taken {
		names = append(names, f.Name)
	}
	want := []string{"30-infra-infra", "10-worker-chrony", "20-worker-sysctl", "30-worker-motd", "40-worker-hello"}
	if !slices.Equal(names, want) {
		t.Errorf("infra takes %v, want %v", names, want)
	}
}
