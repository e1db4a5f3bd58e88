package adopt_test

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/adopt"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// dump prints MachineConfigs and cluster objects as `oc get -o json` does.
func dump(t testing.TB, mcs []*mcfgv1.MachineConfig, cluster []transpile.ClusterObject) adopt.Input {
	t.Helper()
	list := map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{}}
	var items []any
	for _, mc := range mcs {
		mc.TypeMeta = metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfig"}
		items = append(items, mc)
	}
	for _, o := range cluster {
		items = append(items, o.Object.Object)
	}
	list["items"] = items
	data, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return adopt.Input{Name: "dump.json", Data: data}
}

func TestEveryExampleComesBack(t *testing.T) {
	dirs, err := filepath.Glob("../../examples/*/pools")
	if err != nil || len(dirs) == 0 {
		t.Fatal("no examples:", err)
	}
	for _, dir := range dirs {
		root := filepath.Dir(dir)
		t.Run(filepath.Base(root), func(t *testing.T) {
			result := transpile.Fragments(source.Tree{Root: root, FS: os.DirFS(root)})
			if result.Report.Fatal() {
				t.Fatal(result.Report)
			}
			comesBack(t, root, result)
		})
	}
}

// comesBack imports what a repository gives, and wants all of it.
func comesBack(t *testing.T, root string, result transpile.Result) {
	t.Helper()
	in := dump(t, transpile.MachineConfigs(result.Fragments), result.Cluster)
	repo, findings := imported(t, adopt.Options{}, in)
	rendersEqual(t, repo, findings)
	for _, o := range repo.Objects {
		if o.Skipped != "" && !strings.Contains(o.Skipped, "of single nodes") { // skipped.txtar is about these
			t.Errorf("%s is not imported: %s", o, o.Skipped)
		}
	}
	for _, f := range findings {
		if f.Rule == "encoding" && butaneEncoded(t, root, result, f) {
			t.Errorf("what Butane wrote is encoded otherwise: %s", f)
		}
	}
	bothWays(t, in)
}

// butaneEncoded tells whether Butane chose all encodings of the MachineConfig that a finding is about: its document is
// Butane, and does not bring data: URLs of its own.
func butaneEncoded(t *testing.T, root string, result transpile.Result, f adopt.Finding) bool {
	t.Helper()
	i := slices.IndexFunc(result.Fragments, func(x transpile.Fragment) bool {
		return "MachineConfig "+x.Name == f.Object
	})
	if i < 0 {
		t.Fatalf("a finding about nothing: %s", f)
	}
	if path.Ext(result.Fragments[i].File) != ".bu" {
		return false
	}
	document, err := os.ReadFile(filepath.Join(root, result.Fragments[i].File))
	if err != nil {
		t.Fatal(err)
	}
	return !strings.Contains(string(document), "source:")
}

func TestEveryTestOfTranspileComesBack(t *testing.T) {
	files, err := filepath.Glob("../../transpile/testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no goldens:", err)
	}
	imports := 0
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		root := t.TempDir()
		for _, f := range archive.Files {
			if strings.HasPrefix(f.Name, "want/") || f.Name == "refused" {
				continue
			}
			full := filepath.Join(root, filepath.FromSlash(f.Name))
			if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(full, f.Data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		result := transpile.Fragments(source.Tree{Root: root, FS: os.DirFS(root)})
		if result.Report.Fatal() || len(result.Fragments) == 0 {
			continue
		}
		imports++
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { comesBack(t, root, result) })
	}
	if imports < 10 {
		t.Errorf("only %d of %d repositories were imported", imports, len(files))
	}
}

// vectorFiles are the replayed answers that hold MachineConfigs.
var vectorFiles = []string{"render.json", "reconcilable.json", "daemon.json"}

func TestEveryVectorComesBack(t *testing.T) {
	for _, file := range vectorFiles {
		data, err := os.ReadFile(filepath.Join("../../test/vectors/testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		var all any
		if err := json.Unmarshal(data, &all); err != nil {
			t.Fatal(err)
		}
		var groups [][]*mcfgv1.MachineConfig
		groupsOf(t, all, &groups)
		if len(groups) == 0 {
			t.Errorf("%s has no MachineConfigs", file)
		}
		for i, mcs := range groups {
			if _, err := render.Merge("worker", mcs, render.Defaults{}); err != nil && len(mcs) > 0 &&
				strings.Contains(err.Error(), "invalid") {
				continue // No repository can have it: validate refuses what the renderer does.
			}
			t.Run(file+"/"+strconv.Itoa(i), func(t *testing.T) { bothWays(t, dump(t, mcs, nil)) })
		}
	}
}

// groupsOf finds lists of MachineConfigs, and Ignition configs that stand alone, wherever the vectors have them.
func groupsOf(t *testing.T, v any, out *[][]*mcfgv1.MachineConfig) {
	t.Helper()
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			groupsOf(t, e, out)
		}
	case map[string]any:
		if list, ok := v["machineConfigs"].([]any); ok {
			*out = append(*out, machineConfigs(t, list))
			return
		}
		if head, ok := v["ignition"].(map[string]any); ok && head["version"] != nil {
			*out = append(*out,
				machineConfigs(t,
					[]any{map[string]any{
						"name": "10-worker-a", "role": "worker",
						"spec": map[string]any{"config": v},
					}}))
			return
		}
		for _, e := range v {
			groupsOf(t, e, out)
		}
	}
}

func machineConfigs(t *testing.T, list []any) (out []*mcfgv1.MachineConfig) {
	t.Helper()
	raw, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	var items []struct {
		Name, Role string
		Spec       mcfgv1.MachineConfigSpec
	}
	if err := json.Unmarshal(raw, &items); err != nil {
		t.Fatal(err)
	}
	for _, i := range items {
		out = append(out,
			&mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
				Name:   i.Name,
				Labels: map[string]string{v1alpha1.RoleLabel: i.Role},
			}, Spec: i.Spec})
	}
	return out
}
