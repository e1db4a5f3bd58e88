package machineconfig

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestOneNameHasOneContent holds configs in which keys stand twice against the honest one: some have its name, because
// the hash is over the last value of each key, and then have to be its content, too.
func TestOneNameHasOneContent(t *testing.T) {
	const file = `{"path":"/etc/a","mode":420,"contents":{"source":"data:,x"}}`
	const honest = `{"ignition":{"version":"3.5.0"},"storage":{"files":[` + file +
		`]},"systemd":{"units":[{"name":"a.service","enabled":true}]}}`
	want, content := nameAndContent(t, honest)
	for because, c := range map[string]struct {
		config string
		same   bool
	}{
		"the honest config":                     {honest, true},
		"with blanks":                           {` { "systemd" : {"units":[{"enabled":true,"name":"a.service"}]}, "storage":{"files":[` + file + `]},"ignition":{"version":"3.5.0"}}`, true},
		"a section twice, links in the first":   {`{"ignition":{"version":"3.5.0"},"storage":{"links":[{"path":"/etc/b","target":"/root"}]},"storage":{"files":[` + file + `]},"systemd":{"units":[{"name":"a.service","enabled":true}]}}`, true},
		"a unit's contents in a list before":    {`{"ignition":{"version":"3.5.0"},"storage":{"files":[` + file + `]},"systemd":{"units":[{"name":"b.service","contents":"[Service]"}],"units":[{"name":"a.service","enabled":true}]}}`, true},
		"a config to merge in a section before": {`{"ignition":{"version":"3.5.0","config":{"merge":[{"source":"data:,x"}]}},"ignition":{"version":"3.5.0"},"storage":{"files":[` + file + `]},"systemd":{"units":[{"name":"a.service","enabled":true}]}}`, true},
		"the other section last":                {`{"ignition":{"version":"3.5.0"},"storage":{"files":[` + file + `]},"storage":{"links":[]},"systemd":{"units":[{"name":"a.service","enabled":true}]}}`, false},
		"a key in capitals":                     {`{"ignition":{"version":"3.5.0"},"Storage":{"links":[]},"storage":{"files":[` + file + `]},"systemd":{"units":[{"name":"a.service","enabled":true}]}}`, false},
		"a merge key of YAML":                   {`{"ignition":{"version":"3.5.0"},"<<":{"storage":{"files":[` + file + `]}},"systemd":{"units":[{"name":"a.service","enabled":true}]}}`, false},
	} {
		name, is := nameAndContent(t, c.config)
		if (name == want) != c.same {
			t.Errorf("%s: the name is %s, that of the honest config %s", because, name, want)
		}
		if diff := cmp.Diff(content, is); c.same && diff != "" {
			t.Errorf("%s (-honest +this):\n%s", because, diff)
		}
	}
	if _, err := KeysOnce(mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: []byte(`{} {}`)}}); err == nil {
		t.Error("two configs one after the other are taken")
	}
	if spec, err := KeysOnce(mcfgv1.MachineConfigSpec{KernelType: "x"}); err != nil || spec.KernelType != "x" ||
		spec.Config.Raw != nil {
		t.Errorf("no config: %+v, %v", spec, err)
	}
}

// nameAndContent is the name and the parsed content of a config, as a daemon takes it.
func nameAndContent(t *testing.T, config string) (string, string) {
	t.Helper()
	spec, err := KeysOnce(mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: []byte(config)}})
	if err != nil {
		t.Fatal(err)
	}
	name, err := RenderedName("worker", spec)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := Parse(spec)
	if err != nil {
		return name, err.Error()
	}
	text, err := json.Marshal(parsed)
	if err != nil {
		t.Fatal(err)
	}
	return name, string(text)
}
