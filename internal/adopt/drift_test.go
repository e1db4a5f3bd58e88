package adopt_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/adopt"
)

const driftedConfig = "rendered-worker-77b0cfa4c32a9bb34b9b4b4b4b4b4b4b"

// TestADifferenceBecomesADocument: what a node has at a path, as Butane of its pool.
func TestADifferenceBecomesADocument(t *testing.T) {
	mode, unit := int32(0o640), "/etc/systemd/system/a.service"
	for sentence, c := range map[string]struct {
		x     v1alpha1.DriftExport
		units []string
		want  []string
	}{
		"a file has its mode and owner":                     {v1alpha1.DriftExport{Path: "/etc/a", Type: "file", Mode: &mode, GID: 7, Contents: []byte("x")}, nil, []string{"path: /etc/a", "mode: 0640", "overwrite: true", "group:\n        id: 7", "inline: x"}},
		"a directory":                                       {v1alpha1.DriftExport{Path: "/etc/a", Type: "dir", Mode: &mode, UID: 7}, nil, []string{"directories:\n    - path: /etc/a", "mode: 0640", "user:\n        id: 7"}},
		"a link":                                            {v1alpha1.DriftExport{Path: "/etc/a", Type: "link", Target: "/b"}, nil, []string{"links:\n    - path: /etc/a", "target: /b"}},
		"a mask of a unit of the config":                    {v1alpha1.DriftExport{Path: unit, Type: "link", Target: "/dev/null"}, []string{"a.service"}, []string{"units:\n    - name: a.service\n      mask: true"}},
		"the file of a unit of the config":                  {v1alpha1.DriftExport{Path: unit, Type: "file", Mode: &mode, Contents: []byte("x")}, []string{"a.service"}, []string{"units:\n    - name: a.service\n      contents: x"}},
		"a drop-in of a unit of the config":                 {v1alpha1.DriftExport{Path: unit + ".d/b.conf", Type: "file", Mode: &mode, Contents: []byte("x")}, []string{"a.service"}, []string{"- name: a.service", "dropins:\n        - name: b.conf\n          contents: x"}},
		"a unit's file that the config has as a plain file": {v1alpha1.DriftExport{Path: unit, Type: "file", Mode: &mode, Contents: []byte("x")}, nil, []string{"files:\n    - path: " + unit}},
	} {
		t.Run(sentence, func(t *testing.T) {
			r, _, err := adopt.ImportDrift(adopt.Drift{
				Node: "n1", Config: driftedConfig,
				Item: v1alpha1.DriftItem{Name: c.x.Path}, Export: c.x, Units: c.units,
			}, adopt.Options{})
			if err != nil {
				t.Fatal(err)
			}
			files := slices.Sorted(maps.Keys(r.Files))
			text := string(r.Files[files[0]])
			if len(files) != 1 || !strings.HasPrefix(files[0], "pools/worker/99-drift-etc-") ||
				!strings.HasPrefix(text, "# "+c.x.Path+" as node/n1 has it, where it differs from "+driftedConfig+
					".\nvariant:") {
				t.Errorf("%v:\n%s", files, text)
			}
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
		})
	}
}

// TestTheEnablementOfAUnitBecomesADocument: a unit is enabled, disabled or masked.
func TestTheEnablementOfAUnitBecomesADocument(t *testing.T) {
	for actual, want := range map[string]string{
		"enabled": "enabled: true", "disabled": "enabled: false", "masked": "mask: true",
	} {
		r, _, err := adopt.ImportDrift(adopt.Drift{Node: "n1", Config: driftedConfig, Item: v1alpha1.DriftItem{
			Name: "a.service", Kind: v1alpha1.DriftEnablement, Actual: &v1alpha1.DriftEntry{Type: actual},
		}}, adopt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range r.Files {
			if !strings.Contains(string(text), "units:\n    - name: a.service\n      "+want) {
				t.Errorf("%s: no %q in %s:\n%s", actual, want, name, text)
			}
		}
	}
}

// TestWhatCannotBecomeADocument: each error says what is wrong.
func TestWhatCannotBecomeADocument(t *testing.T) {
	for sentence, c := range map[string]struct {
		d    adopt.Drift
		want string
	}{
		"a path that is not there":       {adopt.Drift{Config: driftedConfig, Item: v1alpha1.DriftItem{Name: "/etc/a"}}, "bunsen explain /etc/a --pool worker"},
		"a device":                       {adopt.Drift{Config: driftedConfig, Item: v1alpha1.DriftItem{Name: "/etc/a"}, Export: v1alpha1.DriftExport{Type: "other"}}, "a device, pipe or socket"},
		"an account":                     {adopt.Drift{Config: driftedConfig, Item: v1alpha1.DriftItem{Name: "user/core", Kind: v1alpha1.DriftAccount, Why: "its shell"}}, "its shell"},
		"a config that no pool rendered": {adopt.Drift{Config: "my-config", Item: v1alpha1.DriftItem{Name: "/etc/a"}, Export: v1alpha1.DriftExport{Path: "/etc/a", Type: "dir"}}, "the pool to change is not known"},
	} {
		t.Run(sentence, func(t *testing.T) {
			c.d.Export.Path = c.d.Item.Name
			if _, _, err := adopt.ImportDrift(c.d, adopt.Options{}); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
