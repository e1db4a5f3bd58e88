package http

import (
	"bytes"
	"compress/gzip"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/mcs"
)

func TestAnswers(t *testing.T) {
	h := openRoutes(filled(t))
	for _, c := range []struct {
		because, method, path, accept string
		status                        int
		says                          string
	}{
		{"a machine asks for its pool", "GET", "/config/worker", accept + "3.5.0, */*;q=0.1", 200, `"version":"3.5.0"`},
		{"an older machine asks", "GET", "/config/worker", accept + "3.1.0", 200, `"version":"3.1.0"`},
		{"curl asks", "GET", "/config/worker", "*/*", 200, `"version":"3.5.0"`},
		{"only the head", "HEAD", "/config/worker", "", 200, ""},
		{"a pool that does not exist", "GET", "/config/wroker", "", 404, `pool "wroker"`},
		{"no pool", "GET", "/config/", "", 404, "names no pool"},
		{"a pool without a config", "GET", "/config/new", "", 503, "nothing is rendered"},
		{"a pool whose rollout was halted", "GET", "/config/halted", "", 503, "the rollout of rendered-halted-2 was halted"},
		{"a config with a secret that cannot come later", "GET", "/config/locked", "", 403, "bunsen token create --node"},
		{"a version that is not served", "GET", "/config/worker", accept + "2.1.0", 400, "3.0.0, 3.1.0, 3.2.0, 3.3.0, 3.4.0, 3.5.0"},
		{"a config that the version cannot say", "GET", "/config/luks", accept + "3.4.0", 406, "storage.luks[root].cex.enabled"},
		{"a rendered config that is bad", "GET", "/config/bad", "", 500, "the config cannot be served: the server's log says why"},
		{"another method", "POST", "/config/worker", "", 405, ""},
		{"another method", "DELETE", "/healthz", "", 405, ""},
		{"another path", "GET", "/metrics", "", 404, ""},
		{"alive", "GET", "/healthz", "", 200, ""},
		{"alive", "HEAD", "/healthz", "", 200, ""},
		{"ready", "GET", "/readyz", "", 200, ""},
	} {
		r := ask(h, c.method, c.path, "Accept", c.accept)
		body := text(t, r)
		if r.StatusCode != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s: %s %s gives %d %q, want %d with %q", c.because, c.method, c.path, r.StatusCode, body,
				c.status, c.says)
		}
		if got := r.Header.Get("Retry-After"); (got != "") != (c.status == 503) {
			t.Errorf("%s: Retry-After is %q", c.because, got)
		}
		if strings.HasPrefix(c.path, "/config") && c.status != 405 &&
			(r.Header.Get("Vary") != vary || r.Header.Get("Cache-Control") == "") {
			t.Errorf("%s: a cache is told Vary %q, Cache-Control %q", c.because, r.Header.Get("Vary"),
				r.Header.Get("Cache-Control"))
		}
		if r.StatusCode == 200 && strings.HasPrefix(c.path, "/config") &&
			r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: Content-Type is %q", c.because, r.Header.Get("Content-Type"))
		}
	}
}

// What is wrong with a config may quote it, and who asks may be one who gets no secrets.
func TestWhatIsWrongWithAConfigIsNotToldToWhoAsks(t *testing.T) {
	s := mcs.NewPools()
	s.SetSynced()
	unit := `{"name":"db.service","contents":"[Service] Environment=DB_PASSWORD=` + hush + `\n"}`
	if err := s.Set("worker", withIgnition("rendered-worker-1", `"systemd":{"units":[`+unit+`]}`)); err == nil {
		t.Fatal("the bad config was taken for a good one")
	}
	r := ask(openRoutes(s), "GET", "/config/worker")
	if body := text(t, r); r.StatusCode != 500 || strings.Contains(body, hush) {
		t.Errorf("answered %d %q", r.StatusCode, body)
	}
}

func TestHeadSaysWhatGetSends(t *testing.T) {
	h := openRoutes(filled(t))
	get, head := ask(h, "GET", "/config/worker"), ask(h, "HEAD", "/config/worker")
	body := text(t, get)
	if get.Header.Get("Content-Length") != strconv.Itoa(len(body)) {
		t.Errorf("Content-Length is %s for %d bytes", get.Header.Get("Content-Length"), len(body))
	}
	for _, key := range []string{"Content-Length", "Content-Type", "ETag", "Vary"} {
		if g, h := get.Header.Get(key), head.Header.Get(key); g != h || g == "" {
			t.Errorf("%s: GET says %q, HEAD %q", key, g, h)
		}
	}
}

func TestTheETagStaysAsLongAsTheBodyDoes(t *testing.T) {
	s := filled(t)
	h := openRoutes(s)
	tag := func(header ...string) string { return ask(h, "GET", "/config/worker", header...).Header.Get("ETag") }
	put := func(name, contents string) {
		if err := s.Set("worker", rendered(name, contents)); err != nil {
			t.Fatal(err)
		}
	}
	first := tag()
	put("rendered-worker-1", "a")
	if again := tag(); again != first || len(first) != 34 {
		t.Errorf("the same config has ETag %s, then %s", first, again)
	}
	if older, zipped := tag("Accept", accept+"3.1.0"), tag("Accept-Encoding", "gzip"); older == first ||
		zipped == first || older == zipped {
		t.Errorf("forms share an ETag: %s, %s, %s", first, older, zipped)
	}
	for _, header := range []string{first, "W/" + first, `"x", ` + first, "*"} {
		r := ask(h, "GET", "/config/worker", "If-None-Match", header)
		if body := text(t, r); r.StatusCode != 304 || body != "" || r.Header.Get("ETag") != first {
			t.Errorf("If-None-Match %s: %d with %d bytes and ETag %s", header, r.StatusCode, len(body),
				r.Header.Get("ETag"))
		}
	}
	put("rendered-worker-2", "b")
	if r := ask(h, "GET", "/config/worker", "If-None-Match", first); r.StatusCode != 200 ||
		r.Header.Get("ETag") == first {
		t.Errorf("a new config is answered %d with ETag %s", r.StatusCode, r.Header.Get("ETag"))
	}
}

func TestWhatIsZippedSaysTheSame(t *testing.T) {
	h := openRoutes(filled(t))
	plain := text(t, ask(h, "GET", "/config/worker"))
	for header, zipped := range map[string]bool{
		"gzip": true, "br;q=1, gzip;q=0.5": true, "": false, "gzip;q=0": false,
		"br": false,
	} {
		r := ask(h, "GET", "/config/worker", "Accept-Encoding", header)
		body := text(t, r)
		if got := r.Header.Get("Content-Encoding"); (got == "gzip") != zipped || r.StatusCode != 200 ||
			r.Header.Get("Content-Length") != strconv.Itoa(len(body)) {
			t.Errorf("Accept-Encoding %q: %d, Content-Encoding %q, Content-Length %s of %d", header, r.StatusCode, got,
				r.Header.Get("Content-Length"), len(body))
		}
		if zipped {
			body = unzip(t, body)
		}
		if body != plain {
			t.Errorf("Accept-Encoding %q: got %s", header, body)
		}
	}
}

func unzip(t testing.TB, body string) string {
	t.Helper()
	plain, err := inflate(body)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

func inflate(body string) (string, error) {
	r, err := gzip.NewReader(strings.NewReader(body))
	if err != nil {
		return "", err
	}
	all, err := io.ReadAll(r)
	return string(all), err
}

func TestBeforeThePoolsAreKnownNoMachineIsTurnedAwayForGood(t *testing.T) {
	h := openRoutes(mcs.NewPools())
	for path, want := range map[string]int{"/config/worker": 503, "/readyz": 503, "/healthz": 200} {
		if r := ask(h, "GET", path); r.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, r.StatusCode, want)
		}
	}
}

// TestAServerThatLostTheAPIServerStillServes: a load balancer prefers others, and machines get what the server knows.
func TestAServerThatLostTheAPIServerStillServes(t *testing.T) {
	pools := filled(t)
	pools.SetCutOff(true)
	h := openRoutes(pools)
	for path, want := range map[string]int{"/config/worker": 200, "/readyz": 503, "/healthz": 200} {
		if r := ask(h, "GET", path, "Accept", accept+"3.4.0"); r.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, r.StatusCode, want)
		}
	}
}

func TestEachAnswerIsOneLogLine(t *testing.T) {
	var written bytes.Buffer
	o := open(filled(t))
	o.Log = slog.New(slog.NewJSONHandler(&written, nil))
	h, _ := Routes(o)
	ask(h, "GET", "/config/worker", "Accept", accept+"3.4.0")
	ask(h, "GET", "/config/no%0A%22such", "Accept", accept+"3.4.0")
	got := lines(t, &written)
	if len(got) != 2 {
		t.Fatalf("%d lines: %v", len(got), got)
	}
	for key, want := range map[string]any{
		"pool": "worker", "config": "rendered-worker-1", "commit": "main@sha1:01",
		"version": "3.4.0", "remote": "192.0.2.1:1234", "status": 200.0,
	} {
		if got[0][key] != want {
			t.Errorf("%s is %v, want %v", key, got[0][key], want)
		}
	}
}

func TestWhatHasNoSecretsMayBeKeptByWhoGotIt(t *testing.T) {
	for _, c := range []struct {
		because string
		source  Source
		access  Access
		want    string
	}{
		{"secrets are left out", filled(t), Access{Open: true}, "private, no-cache"},
		{"secrets are served", filled(t), Access{Open: true, SecretsToAll: true}, "no-store"},
		{"there is a bootstrap token", joining(t, filled(t)), Access{Open: true}, "no-store"},
	} {
		h, _ := Routes(Options{Source: c.source, Access: c.access, BootstrapTokens: &minter{}, Log: quiet, Now: atNoon})
		for _, method := range []string{"GET", "HEAD"} {
			r := ask(h, method, "/config/worker")
			if got := r.Header.Get("Cache-Control"); got != c.want || r.StatusCode != http.StatusOK {
				t.Errorf("%s: %s is answered %d with Cache-Control %q, want %q", c.because, method, r.StatusCode, got,
					c.want)
			}
		}
	}
}
