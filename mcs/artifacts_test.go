package mcs

import (
	"net/url"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

const aDigest = "sha256:05b3abf2579a5eb66403cd78be557fd860633a1fe2103c7642030defe32c657f"

func withArtifact(address string) *mcfgv1.MachineConfig {
	contents := `{"source":"` + address + `","verification":{"hash":"` + storedHash + `"}}`
	return rendered(`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/opt/tool","contents":` + contents +
		`}]}}`)
}

// TestANewMachineReadsARegistryFromTheServer is for every version of Ignition, because none of them can read a
// registry.
func TestANewMachineReadsARegistryFromTheServer(t *testing.T) {
	for address, want := range map[string]string{
		"oci://registry.example.com/tools/tool:v1@" + aDigest: "registry.example.com/tools/tool@" + aDigest,
		"oci://registry.example.com:5000/tool@" + aDigest:     "registry.example.com:5000/tool@" + aDigest,
		"oci://[fd00::1]:5000/tool@" + aDigest:                "[fd00::1]:5000/tool@" + aDigest,
	} {
		for _, v := range Versions() {
			access, asked := anAccess(), ""
			access.Grant = func(name string) string { asked = name; return "grant" }
			files, cas, _ := composed(t, Input{Pool: "worker", Rendered: withArtifact(address), Content: access}, v)
			tool := files["/opt/tool"].Contents
			u, err := url.Parse(tool.Source)
			if err != nil || u.Scheme+"://"+u.Host != access.Server || u.Path != "/content/oci/"+want ||
				asked != "oci://"+want {
				t.Errorf("%s: %s: it comes from %s, with the grant for %s, %v", address, v, tool.Source, asked, err)
			}
			if inQuery := v == V2_2 || v == V3_0; inQuery != (u.Query().Get("grant") == "grant") ||
				inQuery == (len(tool.HTTPHeaders) == 1) {
				t.Errorf("%s: %s: the grant is at another place: %s %v", address, v, tool.Source, tool.HTTPHeaders)
			}
			if tool.Verification.Hash != storedHash || len(cas) != 1 {
				t.Errorf("%s: %s: Ignition verifies %q, and trusts %v", address, v, tool.Verification.Hash, cas)
			}
			if name := ContentName(strings.TrimPrefix(u.Path, "/content/")); name != asked {
				t.Errorf("%s: %s: the server reads %q", address, v, name)
			}
		}
	}
	if _, err := Compose(Input{Pool: "worker", Rendered: withArtifact("oci://registry.example.com/tool@" + aDigest)},
		Newest); err == nil {
		t.Error("a server that reads no registries sends the config")
	}
}

// TestPathsThatNameNoFile has what a client may send in place of a name.
func TestPathsThatNameNoFile(t *testing.T) {
	for _, path := range []string{
		"", "oci/", "oci/registry.example.com", "oci/registry.example.com/tool", "oci/registry.example.com/tool:v1",
		"oci/registry.example.com/tool:v1@" + aDigest,
		"oci/registry.example.com/tool@sha256:00", "oci/registry.example.com/../tool@" + aDigest,
		"oci/user:password@registry.example.com/tool@" + aDigest,
		"oci/registry.example.com/tool@" + aDigest + "/", "oci/registry.example.com/tool@" + aDigest + "\n",
		"oci/registry.example.com/tool@" + strings.ToUpper(aDigest),
		"oci/oci://registry.example.com/tool@" + aDigest, "oci://registry.example.com/tool@" + aDigest,
		storedHash + "/", "x/" + storedHash, "oci/" + storedHash,
	} {
		if name := ContentName(path); name != "" {
			t.Errorf("%q names %q", path, name)
		}
	}
}
