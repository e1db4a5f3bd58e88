package machineconfig_test

import (
	"errors"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

var anyDigest = "sha256:" + strings.Repeat("ab", 32)

func TestAddressesInRegistries(t *testing.T) {
	for address, want := range map[string]string{
		"oci://registry.example.com/tools/x@" + anyDigest:         "",
		"oci://registry.example.com:5000/tools/x:v1@" + anyDigest: "",
		"oci://10.0.0.1:5000/x:v1.2_3@" + anyDigest:               "",
		"oci://[fd00::1]:5000/x@" + anyDigest:                     "",
		"oci://registry.example.com/x":                            "names no digest",
		"oci://registry.example.com/x:v1":                         "names no digest",
		"oci://registry.example.com/x@sha256:00":                  "not sha256:HEX",
		"oci://registry.example.com/x@sha512:" + anyDigest[7:]:    "not sha256:HEX",
		"oci://registry.example.com/@" + anyDigest:                "not an address",
		"oci://registry.example.com/../x@" + anyDigest:            "not an address",
		"oci://registry.example.com/x?token=1@" + anyDigest:       "not an address",
		"oci://user:password@registry.example.com/x@" + anyDigest: "not an address",
		"oci://registry.example.com/X@" + anyDigest:               "not an address",
		"oci:registry.example.com/x@" + anyDigest:                 "not an address",
		"oci://registry.example.com/x\u202e@" + anyDigest:         "not an address",
	} {
		a, err := machineconfig.ParseArtifact(address)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", address, err, want)
			}
			continue
		}
		if err != nil || a.String() != address {
			t.Errorf("%s: %v, %v", address, a, err)
			continue
		}
		again, is, err := machineconfig.ArtifactOf(a.Source())
		if again != a || !is || err != nil || machineconfig.CheckAddress(a.Source()) != nil {
			t.Errorf("%s: %v, %t, %v", address, again, is, err)
		}
		if shown := machineconfig.ShownAddress(a.Source()); shown != address {
			t.Errorf("%s is shown as %s", address, shown)
		}
	}
	if _, err := machineconfig.ParseArtifact("oci://registry.example.com/x:v1"); !errors.Is(err,
		machineconfig.ErrNoDigest) {
		t.Error(err)
	}
	if _, is, _ := machineconfig.ArtifactOf("https://registry.example.com/x@" + anyDigest); is {
		t.Error("an https address is an artifact")
	}
}

// A MachineConfig names files in registries as people write them, in the contents of files alone.
func TestAConfigNamesFilesInRegistries(t *testing.T) {
	address, hash := "oci://registry.example.com/x:v1@"+anyDigest, "sha256-"+strings.Repeat("cd", 32)
	contents := `{"source": "` + address + `", "verification": {"hash": "` + hash + `"}}`
	for _, version := range []string{"3.1.0", "3.5.0"} {
		c, err := machineconfig.Parse(specOf(`{"ignition": {"version": "` + version +
			`"}, "storage": {"files": [{"path": "/a", "mode": 420, "contents": ` + contents + `}]}}`))
		if err != nil {
			t.Fatal(err)
		}
		if bad := machineconfig.Check(c); len(bad) > 0 {
			t.Error(bad)
		}
		files := machineconfig.RemoteFiles(c)
		if len(files) != 1 || machineconfig.ShownAddress(files[0].URL) != address || files[0].Hash != hash {
			t.Errorf("the remote files are %v", files)
		}
		raw, err := c.IgnitionJSON()
		if err != nil {
			t.Fatal(err)
		}
		again, err := machineconfig.Parse(specOf(string(raw)))
		if err != nil || len(machineconfig.RemoteFiles(again)) != 1 {
			t.Errorf("again: %v, %v", machineconfig.RemoteFiles(again), err)
		}
	}
	for sentence, rest := range map[string]string{
		"appended":     `"storage": {"files": [{"path": "/a", "append": [` + contents + `]}]}`,
		"merged":       `"ignition": {"version": "3.5.0", "config": {"merge": [` + contents + `]}}`,
		"of a CA":      `"ignition": {"version": "3.5.0", "security": {"tls": {"certificateAuthorities": [` + contents + `]}}}`,
		"of a volume":  `"storage": {"luks": [{"name": "x", "device": "/dev/x", "keyFile": ` + contents + `}]}`,
		"not a string": `"storage": {"files": [{"path": "/a", "contents": {"source": ["` + address + `"]}}]}`,
	} {
		if !strings.Contains(rest, `"ignition"`) {
			rest = `"ignition": {"version": "3.5.0"}, ` + rest
		}
		if _, err := machineconfig.Parse(specOf("{" + rest + "}")); err == nil {
			t.Errorf("contents %s: no error", sentence)
		}
	}
	c, err := machineconfig.Parse(
		specOf(`{"ignition": {"version": "3.5.0"}, "storage": {"files": [{"path": "/a", "contents": {"source": "oci://registry.example.com/x:v1", "verification": {"hash": "` + hash + `"}}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if bad := machineconfig.Check(c); len(bad) != 1 || !strings.Contains(bad[0].Error(),
		"files[0] /a contents: its source names no digest") {
		t.Error(bad)
	}
}

func specOf(raw string) (spec mcfgv1.MachineConfigSpec) {
	spec.Config.Raw = []byte(raw)
	return spec
}
