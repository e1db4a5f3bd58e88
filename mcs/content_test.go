package mcs

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// storedHash is the hash of a file of the content store.
var storedHash = "sha512-" + strings.Repeat("0a", 64)

// withStored is a config with a file of the content store, a remote file and an inline one.
func withStored(ignition string) *mcfgv1.MachineConfig {
	mc := &mcfgv1.MachineConfig{}
	mc.Name = "rendered-worker-1"
	file := func(path, source, hash string) string {
		return `{"path":"` + path + `","mode":420,"contents":{"source":"` + source + `","verification":{"hash":"` +
			hash + `"}}}`
	}
	mc.Spec.Config.Raw = []byte(`{"ignition":{"version":"3.5.0"` + ignition + `},"storage":{"files":[` +
		strings.Join([]string{
			file("/opt/tool", machineconfig.StoredSource(storedHash), storedHash),
			file("/opt/other", "https://example.com/other", storedHash),
			`{"path":"/etc/motd","mode":420,"contents":{"source":"data:,hello"}}`,
		}, ",") + `]}}`)
	return mc
}

func anAccess() *ContentAccess {
	return &ContentAccess{
		Server: "https://10.0.0.1:22623", CA: []byte("-----BEGIN CERTIFICATE-----\n"),
		Expires: time.Unix(0, 0), Grant: func(hash string) string { return "grant-for." + hash[:10] + "/+" },
	}
}

// file is the contents of a file in a composed config of any version.
type file struct {
	Path     string
	Contents struct {
		Source       string
		HTTPHeaders  []struct{ Name, Value string }
		Verification struct{ Hash string }
	}
}

func composed(t *testing.T, in Input, v Version) (files map[string]file, cas []string, noProxy []string) {
	t.Helper()
	body, err := Compose(in, v)
	if err != nil {
		t.Fatalf("%s: %v", v, err)
	}
	if err := CheckBy(v, body.Head); err != nil {
		t.Errorf("%s: the parser of the version says %v", v, err)
	}
	var config struct {
		Ignition struct {
			Security struct {
				TLS struct{ CertificateAuthorities []struct{ Source string } }
			}
			Proxy struct{ NoProxy []string }
		}
		Storage struct{ Files []file }
	}
	if err := json.Unmarshal(body.Head, &config); err != nil {
		t.Fatal(err)
	}
	files = map[string]file{}
	for _, f := range config.Storage.Files {
		files[f.Path] = f
	}
	for _, ca := range config.Ignition.Security.TLS.CertificateAuthorities {
		cas = append(cas, ca.Source)
	}
	return files, cas, config.Ignition.Proxy.NoProxy
}

// TestANewMachineReadsTheContentStoreFromTheServer is for every version of Ignition.
func TestANewMachineReadsTheContentStoreFromTheServer(t *testing.T) {
	for _, v := range []Version{V2_2, V3_0, V3_1, V3_2, V3_3, V3_4, V3_5} {
		for _, withhold := range []bool{false, true} {
			files, cas, _ := composed(t, Input{
				Pool: "worker", Rendered: withStored(""), Withhold: withhold,
				Content: anAccess(),
			}, v)
			tool := files["/opt/tool"].Contents
			want, grant := "https://10.0.0.1:22623/content/"+storedHash, anAccess().Grant(storedHash)
			if v == V2_2 || v == V3_0 {
				u, err := url.Parse(tool.Source)
				if err != nil || u.Query().Get("grant") != grant || len(tool.HTTPHeaders) != 0 {
					t.Errorf("%s: it comes from %s with headers %v", v, tool.Source, tool.HTTPHeaders)
				} else if u.RawQuery = ""; u.String() != want {
					t.Errorf("%s: it comes from %s", v, u)
				}
			} else if tool.Source != want || len(tool.HTTPHeaders) != 1 ||
				tool.HTTPHeaders[0].Name != "Authorization" || tool.HTTPHeaders[0].Value != "Bunsen-Content "+grant {
				t.Errorf("%s: it comes from %s with headers %v", v, tool.Source, tool.HTTPHeaders)
			}
			if tool.Verification.Hash != storedHash {
				t.Errorf("%s: Ignition verifies %q", v, tool.Verification.Hash)
			}
			if got := files["/opt/other"].Contents; got.Source != "https://example.com/other" ||
				len(got.HTTPHeaders) != 0 {
				t.Errorf("%s: a remote file gets %+v", v, got)
			}
			if len(cas) != 1 || !strings.HasPrefix(cas[0], "data:") {
				t.Errorf("%s: it trusts %v", v, cas)
			}
		}
	}
}

func TestTheConfigsOwnCAsAndProxiesStay(t *testing.T) {
	own := `,"security":{"tls":{"certificateAuthorities":[{"source":"data:,own"}]}},"proxy":{"httpsProxy":"https://proxy.example.com","noProxy":["a.example.com"]}`
	_, cas, noProxy := composed(t, Input{Pool: "worker", Rendered: withStored(own), Content: anAccess()}, Newest)
	if len(cas) != 2 || cas[0] != "data:,own" {
		t.Errorf("it trusts %v", cas)
	}
	if strings.Join(noProxy, " ") != "a.example.com 10.0.0.1" {
		t.Errorf("it reaches %v without the proxy", noProxy)
	}
	same := strings.Replace(own, "data:,own", "data:,-----BEGIN%20CERTIFICATE-----%0A", 1)
	if _, cas, _ := composed(t, Input{Pool: "worker", Rendered: withStored(same), Content: anAccess()},
		Newest); len(cas) != 1 {
		t.Errorf("the server's CA is there %d times", len(cas))
	}
	access := anAccess()
	access.CA = nil
	if _, cas, _ := composed(t, Input{Pool: "worker", Rendered: withStored(""), Content: access},
		Newest); len(cas) != 0 {
		t.Errorf("without a known CA it trusts %v", cas)
	}
}

func TestAServerWithoutAContentStoreSaysSo(t *testing.T) {
	_, err := Compose(Input{Pool: "worker", Rendered: withStored("")}, Newest)
	missing := new(NoContentStoreError)
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "/opt/tool") ||
		strings.Contains(err.Error(), "/opt/other") {
		t.Errorf("it says %v", err)
	}
	without := withStored("")
	without.Spec.Config.Raw = []byte(`{"ignition":{"version":"3.5.0"}}`)
	if _, err := Compose(Input{Pool: "worker", Rendered: without}, Newest); err != nil {
		t.Error(err)
	}
}

func TestASecretFileOfTheContentStoreIsWithheld(t *testing.T) {
	rendered := withStored("")
	rendered.Annotations = map[string]string{v1alpha1.SecretPathsAnnotation: "/opt/tool"}
	body, err := Compose(Input{Pool: "worker", Rendered: rendered, Withhold: true, Content: anAccess()}, Newest)
	if err != nil || len(body.Withheld) != 1 || strings.Contains(string(body.Head), "grant-for") {
		t.Errorf("%v, %v", body.Withheld, err)
	}
}
