package arch

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestTheControlPlaneIsBuiltFromTheSameModules: a package that both the programs and the embedded control plane link is
// compiled once only if both modules require the same version. With other versions the first make run takes half as
// long again.
func TestTheControlPlaneIsBuiltFromTheSameModules(t *testing.T) {
	programs, plane := requiredVersions(t, root), requiredVersions(t, filepath.Join(root, "standalone"))
	shared := 0
	for module, version := range plane {
		if ours, ok := programs[module]; ok {
			shared++
			if ours != version {
				t.Errorf("go.mod requires %s %s, standalone/go.mod %s: run go get %[1]s@VERSION in one of them, then "+
					"go mod tidy in both", module, ours, version)
			}
		}
	}
	if shared < 50 {
		t.Errorf("both modules require only %d modules: this test does not read go.mod as it is written now", shared)
	}
}

// requiredVersions returns the version of each module that a go.mod requires, after its replacements.
func requiredVersions(t *testing.T, dir string) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	type version struct{ Path, Version string }
	var mod struct {
		Require []version
		Replace []struct{ Old, New version }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, r := range mod.Require {
		versions[r.Path] = r.Version
	}
	for _, r := range mod.Replace {
		if _, ok := versions[r.Old.Path]; ok && r.Old.Path == r.New.Path {
			versions[r.Old.Path] = r.New.Version
		}
	}
	return versions
}
