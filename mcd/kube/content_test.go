package kube

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	web "github.com/bunsen-os/bunsen/internal/download"
	"github.com/bunsen-os/bunsen/mcd/fetch"
)

// over sends requests as the daemon does.
func over(c *http.Client) fetch.Web { return web.Over(c, "daemon/1", 10*time.Second, 1<<40) }

// TestReadingAFileOfTheContentStore has answers of servers, and says what a node does with them.
func TestReadingAFileOfTheContentStore(t *testing.T) {
	hash := "sha512-" + strings.Repeat("0a", 64)
	for says, c := range map[string]struct {
		set    func(r *serverRig)
		status int
		why    string
	}{
		"the server sends it":               {func(r *serverRig) { r.answer = say(200, "bytes") }, 200, ""},
		"the server sends a part":           {func(r *serverRig) { r.answer = say(206, "bytes") }, 206, ""},
		"the node has all of it":            {func(r *serverRig) { r.answer = say(416, "bytes") }, 416, ""},
		"the node's configs do not name it": {func(r *serverRig) { r.answer = say(403, "node worker-0 may not read file") }, 0, "answers 403 Forbidden: node worker-0 may not read file"},
		"the server is too old":             {func(r *serverRig) { r.answer = say(404, "404 page not found") }, 0, "update the machine-config-server"},
		"a chunk is missing":                {func(r *serverRig) { r.answer = say(503, "the server cannot send the file\nsecond line") }, 0, "answers 503 Service Unavailable: the server cannot send the file"},
		"the server is down":                {func(r *serverRig) { r.server.Close() }, 0, "does not answer"},
		"a redirect to another server":      {func(r *serverRig) { r.answer = say(302, "", "Location", "https://evil.example.com/") }, 0, "answers 302"},
		"a server with the CA of another":   {func(r *serverRig) { r.published["urls"] = r.serve(newAuthority(t)).URL }, 0, "does not answer"},
		"the first server is down, and the other is not": {func(r *serverRig) {
			r.published["server"] = "https://127.0.0.1:1"
			r.answer = say(200, "bytes")
		}, 200, ""},
		"no server is known": {func(r *serverRig) { r.published = nil }, 0, "no machine-config-server is known"},
	} {
		t.Run(says, func(t *testing.T) {
			r := newServerRig(t)
			c.set(r)
			head, body, err := r.cluster.Content(t.Context(), hash, map[string]string{"Range": "bytes=1-"}, over)
			if c.why != "" {
				if err == nil || !strings.Contains(err.Error(), c.why) || strings.Contains(err.Error(), "second line") {
					t.Errorf("it says %v, want %q", err, c.why)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(body)
			if bad := body.Close(); err != nil || bad != nil || head.Status != c.status || string(text) != "bytes" {
				t.Errorf("%d %q, %v, %v", head.Status, text, err, bad)
			}
			if r.asked[0] != "system:node:worker-0 /node/content/"+hash {
				t.Errorf("it asked %q", r.asked)
			}
		})
	}
}

// TestOnlyReadsOfTheAgentSaveWhereServersAre: a download in the background has no lock of the machine, and may not
// write its disk. The agent's next read saves what the download found out.
func TestOnlyReadsOfTheAgentSaveWhereServersAre(t *testing.T) {
	r := newServerRig(t)
	var saves []string
	r.cluster.FindServers(ServerOptions{
		Save: func(_ context.Context, text []byte) error { saves = append(saves, string(text)); return nil },
	})
	download := func() {
		t.Helper()
		before := len(saves)
		r.answer = say(200, "bytes")
		_, body, err := r.cluster.Content(t.Context(), "sha512-"+strings.Repeat("0a", 64), nil, over)
		if err != nil {
			t.Fatal(err)
		}
		if err := body.Close(); err != nil || len(saves) != before {
			t.Errorf("a download saved %q, %v", saves[before:], err)
		}
	}
	move := func() {
		ca := newAuthority(t)
		r.server.Close()
		r.server = r.serve(ca)
		r.published = map[string]string{"ca.crt": string(ca.pem), "urls": r.server.URL}
	}
	saved := func(read string, count int, err error) {
		t.Helper()
		if err != nil || len(saves) != count || !strings.Contains(saves[count-1], r.server.URL) {
			t.Errorf("%s: saved %q, %v", read, saves, err)
		}
	}
	config := func() error {
		_, err := r.cluster.Config(t.Context(), named("1"))
		return err
	}

	download()
	r.answer = give("1")
	saved("a config", 1, config())
	move()
	download()
	saved("a config of the cache", 2, config())
	saved("the same again", 2, config())
	move()
	download()
	r.answer = say(200, `{"config":"rendered-worker-1","revision":"r1"}`)
	_, err := r.cluster.Secrets(t.Context(), "rendered-worker-1")
	saved("secrets", 3, err)
}
