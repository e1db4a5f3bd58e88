package once

import (
	"strings"
	"testing"
)

const (
	okIgnition = `{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/etc/motd","contents":{"source":"data:,hi"}}]}}`
	okConfig   = `apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: 10-edge
spec:
  kernelArguments: [quiet]
  config:
    ignition: {version: 3.5.0}
    storage:
      files:
        - path: /etc/motd
          contents: {source: "data:,hi"}
`
)

func TestWhatCanBeRead(t *testing.T) {
	for _, c := range []struct{ says, text, name, ignition string }{
		{"Ignition in JSON", okIgnition, "ignition-3a2fd9be27c1", "3.4.0"},
		{"Ignition in YAML, as some keep it", "ignition:\n  version: 3.5.0\n", "ignition-", "3.5.0"},
		{"a MachineConfig in YAML", okConfig, "10-edge", "3.5.0"},
		{"a MachineConfig in JSON", `{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"MachineConfig","metadata":{"name":"x"},"spec":{"osImageURL":"registry.example/os:2"}}`, "x", ""},
	} {
		t.Run(c.says, func(t *testing.T) {
			mc, err := Read("f", []byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(mc.Name, strings.TrimRight(c.name, "0123456789abcdef")) ||
				!strings.Contains(string(mc.Spec.Config.Raw), c.ignition) {
				t.Errorf("%s %s", mc.Name, mc.Spec.Config.Raw)
			}
			again, err := Read("g", []byte(c.text))
			if err != nil || again.Name != mc.Name {
				t.Errorf("the same config has another name: %s, %v", again.Name, err)
			}
		})
	}
}

func TestEveryMistakeIsNamedWithItsPlace(t *testing.T) {
	for _, c := range []struct {
		says, text string
		want       []string
	}{
		{"nothing", "", []string{"f: it is empty"}},
		{"no YAML", "a: [", []string{"f: line 1"}},
		{"a list", "- a\n", []string{"f:1:1: it is no object"}},
		{"two documents", okConfig + "---\n" + okConfig, []string{"more than one document"}},
		{"something else", "hello: world\n", []string{"f:1:1: it is neither Ignition"}},
		{"another kind", "kind: Pod\n", []string{`f:1:7: kind "Pod"`}},
		{"Butane", "variant: fcos\nversion: 1.6.0\n", []string{"f:1:10: it is a Butane document", "butane"}},
		{"an old Ignition", `{"ignition":{"version":"2.2.0"}}`, []string{"f:1:1", "2.2.0", "Butane"}},
		{"a config without a name, of another group, with a key that nobody knows", "apiVersion: v1\nkind: MachineConfig\nspec: {}\n", []string{"f:1:13: apiVersion has to be", "f: metadata.name is missing"}},
		{"a key that nobody knows", okConfig + "  kernelArgs: []\n", []string{`unknown field "kernelArgs"`}},
		{
			"two mistakes in the Ignition of a MachineConfig, with their lines",
			strings.Replace(strings.Replace(okConfig, "path: /etc/motd", "path: etc/motd", 1), "3.5.0}",
				"3.5.0}\n    systemd:\n      units:\n        - name: x\n", 1),
			[]string{"f:15:", "storage.files.0.path", "path not absolute", "f:11:", "systemd.units.0.name"},
		},
		{
			"a mistake in pretty JSON, with its line",
			"{\n  \"ignition\": {\"version\": \"3.4.0\"},\n  \"storage\": {\n    \"files\": [\n" +
				"      {\"path\": \"relative\"}\n    ]\n  }\n}\n",
			[]string{"f:5:16: storage.files.0.path: path not absolute"},
		},
		{"contents from elsewhere", `{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/x","contents":{"source":"https://example.com/x"}}]}}`, []string{"/etc/x", "source"}},
	} {
		t.Run(c.says, func(t *testing.T) {
			_, err := Read("f", []byte(c.text))
			if err == nil {
				t.Fatal("it was read")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %q in:\n%v", want, err)
				}
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		okIgnition, okConfig, "kind: MachineConfig", "&a [*a]",
		"{ignition: {version: 3.5.0}, storage: {files: [{}]}}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		mc, err := Read("f", []byte(text))
		if err == nil && mc.Name == "" {
			t.Error("a config without a name")
		}
	})
}
