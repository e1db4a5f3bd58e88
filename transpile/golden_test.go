package transpile_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

var update = flag.Bool("update", false, "write the goldens anew; read the diff before you commit it")

// Each file of testdata is one sentence about repositories: a tree, and what it becomes. An entry named `refused` lists
// what the tree left out, a path and the reason in each line.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no goldens:", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			result := transpile.Fragments(unpack(t, archive.Files))
			got := map[string]string{"want/report": result.Report.String() + "\n", "want/fragments": show(t, result)}
			if !*update {
				for _, f := range archive.Files {
					if want, ok := got[f.Name]; ok {
						if diff := cmp.Diff(string(f.Data), want); diff != "" {
							t.Errorf("%s (-want +got):\n%s", f.Name, diff)
						}
						delete(got, f.Name)
					}
				}
				for name := range got {
					t.Errorf("the golden has no %s", name)
				}
				return
			}
			archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool {
				return strings.HasPrefix(f.Name, "want/")
			})
			for _, name := range []string{"want/report", "want/fragments"} {
				archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(got[name])})
			}
			if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// unpack writes an archive as a tree on disk.
func unpack(t *testing.T, files []txtar.File) source.Tree {
	t.Helper()
	tree := source.Tree{Root: t.TempDir()}
	tree.FS = os.DirFS(tree.Root)
	for _, f := range files {
		switch {
		case strings.HasPrefix(f.Name, "want/"):
		case f.Name == "refused":
			for _, line := range strings.Split(strings.TrimSpace(string(f.Data)), "\n") {
				path, why, _ := strings.Cut(line, " ")
				tree.Refused = append(tree.Refused, source.Refusal{Path: path, Why: why})
			}
		default:
			write(t, tree.Root, f.Name, string(f.Data))
		}
	}
	return tree
}

func write(t *testing.T, root, name, data string) {
	t.Helper()
	file := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

// show prints fragments and cluster objects with the place of each leaf.
func show(t *testing.T, result transpile.Result) string {
	t.Helper()
	var b strings.Builder
	for _, f := range result.Fragments {
		fmt.Fprintf(&b, "%s (pool %s, role %s)\n", f.Name, f.Pool,
			f.MachineConfig.Labels["machineconfiguration.openshift.io/role"])
		for _, l := range leaves(t, f) {
			at, _ := f.Origin.Find(l.path)
			fmt.Fprintf(&b, "  %-44s %-40s %s\n", l.path, l.value, at)
		}
	}
	for _, o := range result.Cluster {
		raw, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %s (%s:%d)\n%s", o.Object.GetKind(), o.Object.GetName(), o.File, o.Line, raw)
	}
	return b.String()
}

type leaf struct{ path, value string }

// leaves lists everything a fragment says, but for what no document writes: the Ignition version.
func leaves(t *testing.T, f transpile.Fragment) []leaf {
	t.Helper()
	var out []leaf
	spec := f.MachineConfig.Spec
	if len(spec.Config.Raw) > 0 {
		var ignition any
		if err := json.Unmarshal(spec.Config.Raw, &ignition); err != nil {
			t.Fatal(err)
		}
		walk("$", ignition, &out)
	}
	for i, a := range spec.KernelArguments {
		out = append(out, leaf{"spec.kernelArguments." + strconv.Itoa(i), a})
	}
	for i, e := range spec.Extensions {
		out = append(out, leaf{"spec.extensions." + strconv.Itoa(i), e})
	}
	if spec.KernelType != "" {
		out = append(out, leaf{"spec.kernelType", spec.KernelType})
	}
	return slices.DeleteFunc(out, func(l leaf) bool { return l.path == "$.ignition.version" })
}

func walk(at string, v any, out *[]leaf) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range sortedKeys(v) {
			walk(at+"."+k, v[k], out)
		}
	case []any:
		for i, e := range v {
			walk(at+"."+strconv.Itoa(i), e, out)
		}
	case string:
		if strings.ContainsRune(v, '\n') {
			v = strconv.Quote(v)
		}
		*out = append(*out, leaf{at, v})
	default:
		*out = append(*out, leaf{at, fmt.Sprint(v)})
	}
}

func sortedKeys(m map[string]any) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
