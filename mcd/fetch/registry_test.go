package fetch_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/vincent-petithory/dataurl"

	ign "github.com/bunsen-os/bunsen/api/ignition"
)

// push puts a file into a registry, as `oras push` does, and returns its address in configs.
func push(t *testing.T, store http.Handler, host string, file []byte) string {
	t.Helper()
	put := func(method, path string, body string) {
		a := httptest.NewRecorder()
		store.ServeHTTP(a, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
		if a.Code >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, a.Code, a.Body)
		}
	}
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(file))
	put(http.MethodPost, "/v2/tools/large/blobs/uploads/?digest="+digest, string(file))
	manifest := fmt.Sprintf(`{"schemaVersion": 2, "layers": [{"digest": %q, "size": %d}]}`, digest, len(file))
	put(http.MethodPut, "/v2/tools/large/manifests/v1", manifest)
	return fmt.Sprintf("https://oci.bunsen.invalid/%s/tools/large:v1@sha256:%x", host, sha256.Sum256([]byte(manifest)))
}

// A file of a registry comes as any other: interrupted in the middle, it continues, and only the right bytes count.
func TestAFileComesFromARegistry(t *testing.T) {
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	var ranges []string
	interrupted := false
	m := newMachine(t, t.TempDir(), func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			fmt.Fprint(w, `{"access_token": "t"}`)
			return
		}
		if r.Header.Get("Authorization") != "Bearer t" {
			w.Header().Set("WWW-Authenticate", `Bearer realm="https://`+r.Host+`/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if strings.Contains(r.URL.Path, "/blobs/") {
			ranges = append(ranges, r.Header.Get("Range"))
			if !interrupted {
				interrupted = true
				w.Header().Set("Content-Length", fmt.Sprint(len(large)))
				w.Write(large[:len(large)/2])
				panic(http.ErrAbortHandler)
			}
		}
		store.ServeHTTP(w, r)
	})
	address := push(t, store, strings.TrimPrefix(m.server.URL, "https://"), large)
	c := m.config(address, sha512Of(large), "")
	err := m.fetch(c)
	if err == nil || !strings.Contains(err.Error(), "downloading oci://"+strings.TrimPrefix(address,
		"https://oci.bunsen.invalid/")) {
		t.Fatalf("interrupted: %v", err)
	}
	if err := m.fetch(c); err != nil {
		t.Fatal(err)
	}
	m.has(large)
	if len(ranges) != 2 || ranges[0] != "" || ranges[1] == "" {
		t.Errorf("the ranges are %q", ranges)
	}
	other := m.config(address, sha512Of([]byte("other")), "")
	if err := m.fetch(other); err == nil || !strings.Contains(err.Error(), "the server has other contents") {
		t.Errorf("another hash: %v", err)
	}
	gone := m.config(strings.Replace(address, "@sha256:", "@sha256:0", 1)[:len(address)], sha512Of([]byte("gone")), "")
	if err := m.fetch(gone); err == nil || !strings.Contains(err.Error(), "the registry has no artifact") {
		t.Errorf("no such artifact: %v", err)
	}
}

// Mirrors are those of the machine, and those of the config that it gets. A registry that does not exist has a mirror
// that is away, and one that has the file.
func TestAFileComesFromAMirror(t *testing.T) {
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	m := newMachine(t, t.TempDir(), store.ServeHTTP)
	host := strings.TrimPrefix(m.server.URL, "https://")
	address := strings.Replace(push(t, store, host, large), host, "127.0.0.1:2", 1)
	table := func(mirror string) string {
		return "[[registry]]\nlocation = '127.0.0.1:2'\n[[registry.mirror]]\nlocation = '127.0.0.1:1'\n" +
			"[[registry.mirror]]\nlocation = '" + mirror + "'\n"
	}
	write := func(name, text string) {
		t.Helper()
		at := filepath.Join(m.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	c := m.config(address, sha512Of(large), "")
	write("etc/containers/registries.conf", "[[")
	write("etc/containers/registries.conf.d/10-mirrors.conf", table("127.0.0.1:1/other"))
	err := m.fetch(c)
	for _, want := range []string{
		"127.0.0.1:1/tools/large: ", "127.0.0.1:1/other/tools/large: ", "127.0.0.1:2/tools/large: ",
		"reading /etc/containers/registries.conf: it is not valid TOML",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no mirror has it: %v, want %q", err, want)
		}
	}
	source := "data:," + dataurl.EscapeString(table(host))
	c.Ignition.Storage.Files = append(c.Ignition.Storage.Files, ign.File{
		Node:          ign.Node{Path: "/etc/containers/registries.conf.d/10-mirrors.conf"},
		FileEmbedded1: ign.FileEmbedded1{Contents: ign.Resource{Source: &source}},
	})
	if err := m.fetch(c); err != nil {
		t.Fatal(err)
	}
	m.has(large)
}
