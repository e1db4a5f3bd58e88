package render

import (
	"encoding/json"
	"math/rand"
	"testing"

	"github.com/ghodss/yaml"
	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestPiecesMakeTheTextOfTheWhole holds the text put together from pieces, new ones and kept ones, against the text
// written in one go.
func TestPiecesMakeTheTextOfTheWhole(t *testing.T) {
	r := rand.New(rand.NewSource(7))
	var old pieces
	for n := range 3000 {
		spec := mcfgv1.MachineConfigSpec{KernelArguments: []string{}, Extensions: []string{}, KernelType: oddText(r), Config: runtime.RawExtension{Raw: oddConfig(t, r)}}
		want, err := yaml.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		now := pieces{}
		got, err := now.hashed(spec, old)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Fatalf("config %d (-whole +pieces):\n%s", n, cmp.Diff(string(want), string(got)))
		}
		old = now
	}
}

func oddConfig(t *testing.T, r *rand.Rand) []byte {
	t.Helper()
	config := map[string]any{"ignition": map[string]any{"version": "3.5.0"}}
	list := func() (items []any) {
		for range r.Intn(4) {
			items = append(items, map[string]any{"path": oddText(r), "mode": r.Intn(512), "contents": map[string]any{"source": oddText(r)}, "append": []any{map[string]any{}}})
		}
		return items
	}
	if r.Intn(4) > 0 {
		config["storage"] = map[string]any{"files": list(), "links": list(), "a": oddText(r)}
	}
	if r.Intn(4) > 0 {
		config["systemd"] = map[string]any{"units": list(), "z": oddText(r)}
	}
	if r.Intn(8) == 0 {
		config["passwd"] = []any{"items-of-files"}
	}
	if r.Intn(8) == 0 {
		config["rare"] = []string{"\u2028", "\u2029", "\u0085"}[r.Intn(3)]
	}
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// oddText is text of which YAML has to think how to write it.
func oddText(r *rand.Rand) string {
	parts := []string{"a", " ", "\n", "\n\n", ": ", "# ", "'", `"`, "\\", "\t", "ä", "😀", "- ", "{", "true", "0644", "~", "<&>", "\r", "items-of-files", "\n    - items-of-files\n", "a long run of words that goes on and on and on until every line that folds has folded "}
	text := ""
	for range r.Intn(6) {
		text += parts[r.Intn(len(parts))]
	}
	return text
}
