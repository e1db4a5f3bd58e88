package download_test

import (
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/download"
)

// TestRequestsThatALyingRegistryCauses has where a registry may send a client.
func TestRequestsThatALyingRegistryCauses(t *testing.T) {
	reached := false
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer plain.Close()
	to := ""
	registry := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(to, "Bearer") {
			w.Header().Set("WWW-Authenticate", to)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, to, http.StatusFound)
	}))
	defer registry.Close()
	host := strings.TrimPrefix(registry.URL, "https://")
	a := machineconfig.Artifact{Registry: host, Repository: "x", Digest: "sha256:" + strings.Repeat("a", 64)}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: registry.Certificate().Raw})
	client := download.New(download.Options{
		Authorities: [][]byte{authority}, Agent: "test", Stall: 10 * time.Second, Rate: 1 << 40, NoLinkLocal: true,
	})
	for address, want := range map[string]string{
		plain.URL:                                       "redirects from https to http",
		"https://169.254.169.254/latest":                "an address of the local link",
		"https://[fe80::1]/x":                           "an address of the local link",
		"https://[::ffff:169.254.169.254]/x":            "an address of the local link",
		registry.URL:                                    "redirects more than 10 times",
		"https://user:geheim@example.com/":              "not an address for downloads",
		`Bearer realm="https://169.254.169.254/token"`:  "an address of the local link",
		fmt.Sprintf("Bearer realm=%q", plain.URL+"/tk"): "without https",
	} {
		to = address
		_, body, err := client.File(t.Context(), a)
		if err == nil {
			body.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
	if reached {
		t.Error("a request without TLS was sent")
	}
}

// TestARegistryWithoutTheFile names the status.
func TestARegistryWithoutTheFile(t *testing.T) {
	manifest := `{"layers": [{"digest": "sha256:` + strings.Repeat("b", 64) + `", "size": 5}]}`
	registry := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/blobs/") {
			http.NotFound(w, r)
			return
		}
		io.WriteString(w, manifest)
	}))
	defer registry.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: registry.Certificate().Raw})
	client := download.New(download.Options{Authorities: [][]byte{authority}, Agent: "test", Stall: 10 * time.Second, Rate: 1 << 40})
	a := machineconfig.Artifact{Registry: strings.TrimPrefix(registry.URL, "https://"), Repository: "x", Digest: digestOf(manifest)}
	if _, _, err := client.File(t.Context(), a); err == nil || !strings.Contains(err.Error(), "the registry has no file") {
		t.Errorf("it says %v", err)
	}
}

func digestOf(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }
