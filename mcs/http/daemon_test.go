package http

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/join"
)

// someDaemon is a small static program for amd64.
func someDaemon(t *testing.T) (*join.Binary, []byte) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-o", "program", "main.go")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOFLAGS=-ldflags=-w")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	content, err := os.ReadFile(filepath.Join(dir, "program"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := join.NewBinary(content)
	if err != nil {
		t.Fatal(err)
	}
	return b, content
}

// TestTheDaemonIsServedToWhoMayReadTheConfig: the same tokens, and no use of them is counted.
func TestTheDaemonIsServedToWhoMayReadTheConfig(t *testing.T) {
	k := &tokens{}
	good := k.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "worker", Uses: 1})
	binary, content := someDaemon(t)
	var audit bytes.Buffer
	h, metrics := Routes(Options{
		Source: filled(t), Tokens: k, Daemons: join.Binaries{binary}, Audit: &audit,
		Log: quiet, Now: atNoon,
	})
	bearer := "Bearer " + good.String()
	for _, c := range []struct {
		path, token, accept string
		status              int
		says                string
	}{
		{"/daemon/amd64/worker", bearer, accept + "3.5.0, */*;q=0.1", 200, `"path":"/usr/local/bin/machine-config-daemon"`},
		{"/daemon/amd64/worker?path=/opt/bin/machine-config-daemon", bearer, "", 200, "ExecStart=/opt/bin/machine-config-daemon start"},
		{"/daemon/amd64/worker?path=/etc/passwd", bearer, "", 400, "cannot be at this path: "},
		{"/daemon/amd64/worker", "", "", 401, "token"},
		{"/daemon/amd64/infra", bearer, "", 403, "pool"},
		{"/daemon/arm64/worker", bearer, "", 404, `for the architecture "arm64", only for amd64`},
		{"/daemon/amd64/worker", bearer, accept + "3.0.0", 406, "3.0.0"},
		{"/daemon/amd64", bearer, "", 404, ""},
	} {
		r := ask(h, "GET", c.path, "Authorization", c.token, "Accept", c.accept)
		body := text(t, r)
		if r.StatusCode != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s gives %d %.300q, want %d with %q", c.path, r.StatusCode, body, c.status, c.says)
		}
		if c.status != 200 {
			continue
		}
		var config struct {
			Storage struct {
				Files []struct{ Contents struct{ Source string } }
			}
		}
		if err := json.Unmarshal([]byte(body), &config); err != nil ||
			r.Header.Get("Content-Length") != strconv.Itoa(len(body)) {
			t.Fatalf("%v, Content-Length %s for %d bytes", err, r.Header.Get("Content-Length"), len(body))
		}
		zipped, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(config.Storage.Files[0].Contents.Source,
			"data:;base64,"))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := gzip.NewReader(bytes.NewReader(zipped))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(plain); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: %d bytes, %v", c.path, len(got), err)
		}
	}
	if r := ask(h, "HEAD", "/daemon/amd64/worker", "Authorization", bearer); r.StatusCode != http.StatusOK ||
		text(t, r) != "" {
		t.Errorf("HEAD gives %d", r.StatusCode)
	}
	if len(k.uses()) > 0 || metrics.Served() > 0 {
		t.Errorf("uses %v, served %d: only configs count", k.uses(), metrics.Served())
	}
	if r := ask(h, "GET", "/config/worker", "Authorization", bearer); r.StatusCode != 200 {
		t.Errorf("the config after the daemon: %d %s", r.StatusCode, text(t, r))
	}
	if first, _, _ := strings.Cut(audit.String(), "\n"); !strings.Contains(first, `"daemon":"amd64"`) ||
		!strings.Contains(first, `"action":"serve"`) || !strings.Contains(first, `"complete":true`) {
		t.Errorf("the audit log has %s", first)
	}
	if r := ask(openRoutes(filled(t)), "GET", "/daemon/amd64/worker"); r.StatusCode != 404 {
		t.Errorf("a server without --daemon answers %d", r.StatusCode)
	}
}
