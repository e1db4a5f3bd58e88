package download_test

import (
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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

// TestALoginStaysOnItsPort: a redirect to another port of the registry's host carries no credentials, and one to
// another path does.
func TestALoginStaysOnItsPort(t *testing.T) {
	manifest := `{"layers": [{"digest": "` + digestOf("file") + `", "size": 4}]}`
	const login = "Basic cm9ib3Q6aHVzaA=="
	got := map[string]string{}
	other := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got["other port"] = r.Header.Get("Authorization")
		io.WriteString(w, "file")
	}))
	defer other.Close()
	registry := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != login:
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasPrefix(r.URL.Path, "/moved"):
			got["moved"] = r.Header.Get("Authorization")
			io.WriteString(w, manifest)
		case strings.Contains(r.URL.Path, "/blobs/"):
			http.Redirect(w, r, other.URL+r.URL.Path, http.StatusFound)
		default:
			http.Redirect(w, r, "/moved", http.StatusFound)
		}
	}))
	defer registry.Close()
	host := strings.TrimPrefix(registry.URL, "https://")
	logins, err := download.ParseLogins(fmt.Appendf(nil, `{"auths": {%q: {"auth": "cm9ib3Q6aHVzaA=="}}}`, host))
	if err != nil {
		t.Fatal(err)
	}
	client := download.New(download.Options{
		Authorities: [][]byte{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: registry.Certificate().Raw})},
		Logins:      logins, Agent: "test", Stall: 10 * time.Second, Rate: 1 << 40,
	})
	_, body, err := client.File(t.Context(), machineconfig.Artifact{
		Registry: host, Repository: "x", Digest: digestOf(manifest),
	})
	if err != nil {
		t.Fatal(err)
	}
	body.Close()
	if got["other port"] != "" || got["moved"] != login {
		t.Errorf("the requests carried %q", got)
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
	client := download.New(download.Options{
		Authorities: [][]byte{authority}, Agent: "test", Stall: 10 * time.Second,
		Rate: 1 << 40,
	})
	a := machineconfig.Artifact{
		Registry: strings.TrimPrefix(registry.URL, "https://"), Repository: "x",
		Digest: digestOf(manifest),
	}
	if _, _, err := client.File(t.Context(), a); err == nil ||
		!strings.Contains(err.Error(), "the registry has no file") {
		t.Errorf("it says %v", err)
	}
}

// TestAMirrorThatLiesIsNotTriedAgain has mirrors whose manifest is right, and whose bytes are not.
func TestAMirrorThatLiesIsNotTriedAgain(t *testing.T) {
	file := strings.Repeat("the right bytes ", 1<<16)
	manifest := fmt.Sprintf(`{"layers": [{"digest": %q, "size": %d}]}`, digestOf(file), len(file))
	for says, lie := range map[string]func(w http.ResponseWriter){
		"sends other bytes than the manifest names": func(w http.ResponseWriter) { io.WriteString(w, strings.ToUpper(file)) },
		"unexpected EOF": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", fmt.Sprint(len(file)))
			io.WriteString(w, file[:len(file)/2])
			panic(http.ErrAbortHandler)
		},
	} {
		serve := func(blob func(http.ResponseWriter)) *httptest.Server {
			s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "/manifests/") {
					io.WriteString(w, manifest)
					return
				}
				blob(w)
			}))
			t.Cleanup(s.Close)
			return s
		}
		mirror, source := serve(lie), serve(func(w http.ResponseWriter) { io.WriteString(w, file) })
		host := func(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "https://") }
		conf := filepath.Join(t.TempDir(), "registries.conf")
		text := "[[registry]]\nlocation = '" + host(source) + "'\n[[registry.mirror]]\nlocation = '" + host(mirror) +
			"'"
		if err := errors.Join(os.Mkdir(conf+".d", 0o700), os.WriteFile(conf+".d/10.conf", []byte(text),
			0o600)); err != nil {
			t.Fatal(err)
		}
		authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: source.Certificate().Raw})
		client := download.New(download.Options{
			Authorities: [][]byte{authority}, Agent: "test", Stall: 10 * time.Second, Rate: 1 << 40,
			Mirrors: download.ReadMirrors(conf), Failures: download.NewFailures(),
		})
		a := machineconfig.Artifact{Registry: host(source), Repository: "x", Digest: digestOf(manifest)}
		read := func() (string, error) {
			layer, body, err := client.File(t.Context(), a)
			if err != nil {
				return "", err
			}
			defer body.Close()
			if layer.Size != int64(len(file)) {
				t.Errorf("%s: it has %d bytes", says, layer.Size)
			}
			got, err := io.ReadAll(body)
			return string(got), err
		}
		if _, err := read(); err == nil || !strings.Contains(err.Error(), host(mirror)+"/x: ") ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("from the mirror: %v, want %q", err, says)
		}
		if got, err := read(); err != nil || got != file {
			t.Errorf("%s: then: %d bytes, %v", says, len(got), err)
		}
	}
}

func digestOf(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }
