package kinds_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/kinds"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

const head = "apiVersion: machineconfiguration.openshift.io/v1\nkind: ContainerRuntimeConfig\n" +
	"metadata: {name: a, annotations: {bunsen.dev/container-runtime: crio}}\nspec:\n  containerRuntimeConfig:\n    "

func translate(settings string) (kinds.ObjectOutput, []origin.Finding) {
	return kinds.TranslateContainerRuntime(kinds.ObjectInput{
		Pool: "worker", Source: []byte(head + settings + "\n"),
		Origin: origin.Map{At: map[string]origin.Pos{"$": {File: "a.yaml", Line: 1}}},
	})
}

// OpenShift encodes one table for each setting with this library.
func TestADropInHasTheTextThatTheTOMLEncoderOfOpenShiftWrites(t *testing.T) {
	for _, c := range []struct {
		setting, file, key string
		value              any
	}{
		{"logLevel: debug", "01-ctrcfg-logLevel", "log_level", "debug"},
		{"pidsLimit: 2048", "01-ctrcfg-pidsLimit", "pids_limit", int64(2048)},
		{"pidsLimit: 0", "01-ctrcfg-pidsLimit", "pids_limit", int64(0)},
		{"logSizeMax: 1G", "01-ctrcfg-logSizeMax", "log_size_max", int64(1_000_000_000)},
		{"logSizeMax: 50Mi", "01-ctrcfg-logSizeMax", "log_size_max", int64(50 << 20)},
		{"defaultRuntime: crun", "01-ctrcfg-defaultRuntime", "default_runtime", "crun"},
	} {
		var want bytes.Buffer
		if err := toml.NewEncoder(&want).
			Encode(map[string]any{"crio": map[string]any{"runtime": map[string]any{c.key: c.value}}}); err != nil {
			t.Fatal(err)
		}
		out, findings := translate(c.setting)
		files := out.Config.Ignition.Storage.Files
		if len(findings) > 0 || len(files) != 1 {
			t.Errorf("%s: %v, %d files", c.setting, findings, len(files))
			continue
		}
		text, err := machineconfig.Contents(files[0].Contents)
		if err != nil || string(text) != want.String() || files[0].Path != "/etc/crio/crio.conf.d/"+c.file {
			t.Errorf("%s: %s has %q, want %q, %v", c.setting, files[0].Path, text, want.String(), err)
		}
	}
}

func TestStorageConfIsTOMLWithTheSize(t *testing.T) {
	out, findings := translate("overlaySize: 8G")
	if len(findings) > 0 || len(out.Config.Ignition.Storage.Files) != 1 ||
		out.Config.Ignition.Storage.Files[0].Path != "/etc/containers/storage.conf" {
		t.Fatal(findings, out.Config.Ignition.Storage.Files)
	}
	text, err := machineconfig.Contents(out.Config.Ignition.Storage.Files[0].Contents)
	var read struct {
		Storage struct {
			Driver  string
			Options struct{ Size string }
		}
	}
	if err == nil {
		err = toml.Unmarshal(text, &read)
	}
	if err != nil || read.Storage.Driver != "overlay" || read.Storage.Options.Size != "8G" {
		t.Errorf("%+v, %v", read, err)
	}
}

func FuzzContainerRuntime(f *testing.F) {
	f.Add(head + "pidsLimit: 100\n    logSizeMax: 1e9\n    overlaySize: 1.5G\n")
	f.Add(strings.ReplaceAll(head, "crio", "containerd") + "logLevel: \"a\\\"b\"\n")
	f.Fuzz(func(t *testing.T, source string) {
		out, findings := kinds.TranslateContainerRuntime(kinds.ObjectInput{Pool: "worker", Source: []byte(source)})
		if origin.Fatal(findings) != !out.Config.HasIgnition {
			t.Errorf("%+v and %v", out, findings)
		}
		for _, file := range out.Config.Ignition.Storage.Files {
			text, err := machineconfig.Contents(file.Contents)
			if err == nil {
				err = toml.Unmarshal(text, &map[string]any{})
			}
			if err != nil {
				t.Errorf("%s: %v", file.Path, err)
			}
		}
	})
}
