package hashing_test

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/pem"
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

	"github.com/bunsen-os/bunsen/internal/cli/hashing"
)

// newRegistry is a registry behind TLS, and a function that pushes a file with a tag and returns the digest.
func newRegistry(t *testing.T) (host, ca string, push func(tag, file string) string) {
	t.Helper()
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewTLSServer(store)
	t.Cleanup(server.Close)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	put := func(method, path, body string) {
		a := httptest.NewRecorder()
		store.ServeHTTP(a, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
		if a.Code >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, a.Code, a.Body)
		}
	}
	return strings.TrimPrefix(server.URL, "https://"), ca, func(tag, file string) string {
		digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(file)))
		put(http.MethodPost, "/v2/x/blobs/uploads/?digest="+digest, file)
		manifest := fmt.Sprintf(`{"schemaVersion": 2, "layers": [{"digest": %q, "size": %d}]}`, digest, len(file))
		put(http.MethodPut, "/v2/x/manifests/"+tag, manifest)
		return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(manifest)))
	}
}

// For a tag, the command writes the digest that the tag names, and the hash of the file. If the tag moves, both change.
func TestHashOfAFileInARegistry(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	host, ca, push := newRegistry(t)
	first := push("v1", "first")
	path := document(t, "source: 'oci://"+host+"/x:v1'")
	run := func(o hashing.Options) []hashing.Result {
		t.Helper()
		o.CAFile = ca
		all, err := o.Run(t.Context(), []string{path})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	has := func(digest, file string) {
		t.Helper()
		text, err := os.ReadFile(path)
		want := "source: 'oci://" + host + "/x:v1@" + digest + "'"
		if err != nil || !strings.Contains(string(text), want) ||
			!strings.Contains(string(text), fmt.Sprintf("sha512-%x", sha512.Sum512([]byte(file)))) {
			t.Errorf("%v\n%s\nwant %s and %s", err, text, want, fmt.Sprintf("sha512-%x", sha512.Sum512([]byte(file))))
		}
	}
	if all := run(hashing.Options{Missing: true}); len(all) != 1 || !all[0].Changed {
		t.Errorf("the results are %+v", all)
	}
	has(first, "first")
	if all := run(hashing.Options{Check: true}); all[0].Changed {
		t.Errorf("the results are %+v", all)
	}
	second := push("v1", "second")
	if all := run(hashing.Options{Check: true}); !all[0].Changed {
		t.Errorf("after a move of the tag, the results are %+v", all)
	}
	has(first, "first")
	run(hashing.Options{})
	has(second, "second")
}
