package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ocistore "github.com/google/go-containerregistry/pkg/registry"
)

// privateRegistry is a registry behind TLS and a password, with one file.
func privateRegistry(t *testing.T, file []byte) (address, ca string) {
	t.Helper()
	store := ocistore.New(ocistore.Logger(log.New(io.Discard, "", 0)))
	put := func(method, path, body string) {
		a := httptest.NewRecorder()
		if store.ServeHTTP(a, httptest.NewRequestWithContext(t.Context(), method, path,
			strings.NewReader(body))); a.Code >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, a.Code, a.Body)
		}
	}
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(file))
	put(http.MethodPost, "/v2/tools/tool/blobs/uploads/?digest="+digest, string(file))
	manifest := fmt.Sprintf(`{"schemaVersion": 2, "layers": [{"digest": %q, "size": %d}]}`, digest, len(file))
	put(http.MethodPut, "/v2/tools/tool/manifests/v1", manifest)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "robot" || password != "geheim" {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		store.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	host := strings.TrimPrefix(s.URL, "https://")
	return fmt.Sprintf("oci://%s/tools/tool:v1@sha256:%x", host, sha256.Sum256([]byte(manifest))),
		host + "=" +
			write(t, "ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
}

// TestANewMachineReadsAPrivateRegistryThroughTheServer is for a server without a cluster, whose credentials are wrong
// at first. It reads the registry through a mirror.
func TestANewMachineReadsAPrivateRegistryThroughTheServer(t *testing.T) {
	file := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	address, ca := privateRegistry(t, file)
	host := strings.Split(ca, "=")[0]
	address = strings.Replace(address, host, "registry.invalid", 1) // The registry of the test is its mirror.
	mirrors := write(t, "registries.conf", "[[registry]]\nlocation = 'registry.invalid'\nblocked = true\n"+
		"[[registry.mirror]]\nlocation = '"+host+"'")
	dir := filepath.Dir(write(t, "worker.yaml", fmt.Sprintf(`apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {name: worker}
spec:
  config:
    ignition: {version: 3.5.0}
    storage:
      files:
        - path: /opt/tool
          contents: {source: %q, verification: {hash: sha512-%x}}
`, address, sha512.Sum512(file))))
	login := func(password string) string {
		return fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, host,
			base64.StdEncoding.EncodeToString([]byte("robot:"+password)))
	}
	credentials := write(t, "config.json", login("falsch"))
	said := logged(t)
	r := start(t, "--from-dir", dir, "--open", "--cache-dir", t.TempDir(), "--registry-ca", ca,
		"--registry-credentials", credentials, "--registries-conf", mirrors)
	for r.ask(t, "/readyz", "").StatusCode != http.StatusOK {
		if t.Context().Err() != nil {
			t.Fatal("it never gets ready")
		}
	}
	var config struct {
		Storage struct {
			Files []struct {
				Path     string
				Contents struct {
					Source      string
					HTTPHeaders []struct{ Name, Value string }
				}
			}
		}
	}
	got := r.ask(t, "/config/worker", "")
	if err := json.NewDecoder(got.Body).Decode(&config); err != nil || got.StatusCode != http.StatusOK {
		t.Fatalf("%d %v", got.StatusCode, err)
	}
	var path, grant string
	for _, f := range config.Storage.Files {
		if u, err := url.Parse(f.Contents.Source); f.Path == "/opt/tool" && err == nil && u.Host == r.address &&
			len(f.Contents.HTTPHeaders) == 1 {
			path, grant = u.RequestURI(), f.Contents.HTTPHeaders[0].Value
		}
	}
	if grant == "" {
		t.Fatalf("the config has %+v", config)
	}
	if got := r.askWith(t, path, ""); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a grant: %d", got.StatusCode)
	}
	if got := r.askWith(t, path, grant); got.StatusCode != http.StatusServiceUnavailable ||
		got.Header.Get("Retry-After") == "" {
		t.Errorf("with wrong credentials: %d", got.StatusCode)
	}
	if err := os.WriteFile(credentials, []byte(login("geheim")), 0o600); err != nil {
		t.Fatal(err)
	}
	// It remembers the failure for some seconds.
	for got = r.askWith(t, path, grant); got.StatusCode == http.StatusServiceUnavailable; got = r.askWith(t, path,
		grant) {
		if t.Context().Err() != nil {
			t.Fatal("it never reads the file")
		}
	}
	if body, err := io.ReadAll(got.Body); err != nil || !bytes.Equal(body, file) {
		t.Errorf("%d: %d bytes, %v", got.StatusCode, len(body), err)
	}
	r.ends(t)
	if text := said(); !strings.Contains(text, "the registry refuses the") || strings.Contains(text, "geheim") ||
		strings.Contains(text, "falsch") ||
		strings.Contains(text, base64.StdEncoding.EncodeToString([]byte("robot:falsch"))) {
		t.Errorf("the log says\n%s", text)
	}
}

func TestCredentialsForRegistriesThatCannotBeRead(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "reading --registry-credentials: open",
		`geheim`:                  "is not JSON",
		`{"auths": ["geheim"]}`:   "is not JSON",
		`{"auths": {"a": "geh"}}`: "is not JSON",
	} {
		file := filepath.Join(t.TempDir(), "away")
		if text != "" {
			file = write(t, "config.json", text)
		}
		cmd := command()
		cmd.SetArgs([]string{
			"--from-dir", folder(t, 1), "--open", "--cert-dir", t.TempDir(), "--registry-credentials",
			file,
		})
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "geh") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for file, want := range map[string]string{
		filepath.Join(t.TempDir(), "away"):                                    "reading --registries-conf: stat",
		write(t, "registries.conf", "[[registry]]\nlocation = 'https://geh'"): "reading --registries-conf: reading ",
	} {
		cmd := command()
		cmd.SetArgs([]string{
			"--from-dir", folder(t, 1), "--open", "--cert-dir", t.TempDir(), "--registries-conf",
			file,
		})
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}
