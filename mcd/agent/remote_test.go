package agent_test

import (
	"crypto/sha512"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/internal/download"
	"github.com/bunsen-os/bunsen/mcd/agent"
	"github.com/bunsen-os/bunsen/mcd/fetch"

	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// TestANodeWaitsForRemoteFilesUndrained: it says what it waits for, downloads when the server is back, and goes back
// without the server.
func TestANodeWaitsForRemoteFilesUndrained(t *testing.T) {
	var away bool
	var requests int
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		if away {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(w, "contents of %s", r.URL.Path)
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	h, root, err := linux.OpenSimulated(dir, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	fetcher := fetch.NewSyncer(fetch.NewFetcher(h, func(a fetch.Access) fetch.Web {
		return download.New(download.Options{
			Proxy: a.Proxy, Authorities: a.Authorities, Logins: a.Logins,
			Agent: "test", Stall: time.Minute, Rate: 1 << 40,
		})
	}), h.OS)
	c := newCluster()
	add := func(name, file string) {
		sum := sha512.Sum512([]byte("contents of /" + file))
		ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{
			Type:  "CERTIFICATE",
			Bytes: server.Certificate().Raw,
		}))
		c.add(t, name, "", func(spec *mcfgv1.MachineConfigSpec) {
			spec.Config.Raw = fmt.Appendf(nil,
				`{"ignition":{"version":"3.5.0","security":{"tls":{"certificateAuthorities":[{"source":"data:;base64,%s"}]}}},
			 "storage":{"files":[{"path":"/opt/%s","contents":{"source":"%s/%s?token=geheim","verification":{"hash":"sha512-%x"}}}]}}`, ca, file, server.URL, file, sum)
		})
	}
	add("rendered-a", "a")
	add("rendered-b", "b")
	// sync lets the agent work until it is done, or fails.
	sync := func(config string) (err error) {
		t.Helper()
		c.desire(config)
		c.told = nil
		for range 10 {
			a := agent.New(agent.Config{
				Node: "worker-0", Cluster: c, Host: h, Fetch: fetcher,
				Log: slog.New(slog.DiscardHandler),
			})
			if _, err = syncOnce(t.Context(), a); err != nil && !errors.Is(err, agent.ErrRebooting) {
				return err
			}
			if is := report.NodeOf(c.annotations); is.State == "Done" && is.Current == config {
				return nil
			}
		}
		return err
	}
	if err := sync("rendered-a"); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(dir + "/opt/a"); err != nil || string(text) != "contents of /a" || requests != 1 {
		t.Fatalf("it has %q, %v after %d requests", text, err, requests)
	}

	away = true
	for range 3 {
		if err := sync("rendered-b"); err == nil {
			t.Fatal("it does not wait")
		}
		c.says(t, "Working", "rendered-a", "waiting for the content of rendered-b", "before the node is drained",
			server.URL+"/b?…", "answers 404")
		if all := strings.Join(c.told, "\n"); strings.Contains(all, "desiredDrain") || strings.Contains(all, "geheim") {
			t.Errorf("it reports\n%s", all)
		}
	}
	if _, err := os.Stat(dir + "/opt/a"); err != nil {
		t.Error(err)
	}
	if err := sync("rendered-a"); err != nil { // The commit was reverted meanwhile.
		t.Fatal(err)
	}
	c.says(t, "Done", "rendered-a")

	away = false
	if err := sync("rendered-b"); err != nil {
		t.Fatal(err)
	}
	c.says(t, "Done", "rendered-b")
	if _, err := os.Stat(dir + "/opt/a"); !os.IsNotExist(err) {
		t.Errorf("/opt/a is there: %v", err)
	}
	away, requests = true, 0
	if err := sync("rendered-a"); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(dir + "/opt/a"); err != nil || string(text) != "contents of /a" || requests != 0 {
		t.Errorf("it has %q, %v after %d requests", text, err, requests)
	}
	if err := os.WriteFile(dir+"/opt/a", []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	a := agent.New(agent.Config{
		Node: "worker-0", Cluster: c, Host: h, Fetch: fetcher,
		Log: slog.New(slog.DiscardHandler),
	})
	if _, err := syncOnce(t.Context(), a); err != nil {
		t.Error(err)
	}
	c.says(t, "Degraded", "rendered-a", `content mismatch for file "/opt/a"`)
}
