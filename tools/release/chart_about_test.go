package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestTheChartSaysWhatItContains: what a catalogue shows of the chart is what the chart has.
func TestTheChartSaysWhatItContains(t *testing.T) {
	out := t.TempDir()
	const images = `{"bunsen": "r/b@sha256:1", "machine-config-controller": "r/c@sha256:2",` +
		` "machine-config-server": "r/s@sha256:3", "machine-config-daemon": "r/d@sha256:4"}`
	if err := os.WriteFile(filepath.Join(out, "images.json"), []byte(images), 0o600); err != nil {
		t.Fatal(err)
	}
	for version, prerelease := range map[string]string{"v1.2.3": "false", "v1.2.3-rc.1": "true"} {
		files, err := chartFiles("../..", out, version)
		if err != nil {
			t.Fatal(err)
		}
		var about struct {
			Version, AppVersion string
			Annotations         map[string]string
		}
		if err := yaml.UnmarshalStrict([]byte(files["Chart.yaml"]), &about); err != nil &&
			!strings.Contains(err.Error(), "unknown field") {
			t.Fatal(err)
		}
		if about.AppVersion != version || "v"+about.Version != version ||
			about.Annotations["artifacthub.io/prerelease"] != prerelease {
			t.Errorf("%s: %+v", version, about)
		}
		var crds []struct{ Kind, Version, Name, DisplayName, Description string }
		if err := yaml.UnmarshalStrict([]byte(about.Annotations["artifacthub.io/crds"]), &crds); err != nil {
			t.Fatal(err)
		}
		var named []string
		for _, c := range crds {
			if c.Kind == "" || c.Version == "" || c.Description == "" || c.Description == c.Kind {
				t.Errorf("the CRD %s has no description: %+v", c.Name, c)
			}
			named = append(named, "templates/crds/customresourcedefinition_"+c.Name+".yaml")
		}
		var there []string
		for name := range files {
			if strings.HasPrefix(name, "templates/crds/") {
				there = append(there, name)
			}
		}
		slices.Sort(there)
		if slices.Sort(named); !slices.Equal(named, there) {
			t.Errorf("it names %q and has %q", named, there)
		}
		var shown []struct{ Name, Image string }
		if err := yaml.UnmarshalStrict([]byte(about.Annotations["artifacthub.io/images"]), &shown); err != nil ||
			len(shown) != 4 || shown[0].Image != "r/b@sha256:1" {
			t.Errorf("its images are %v: %v", shown, err)
		}
	}
}
