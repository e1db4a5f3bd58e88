package http

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/mcs"
)

var quiet = slog.New(slog.DiscardHandler)

// rendered is a config with one file.
func rendered(name, contents string) *mcfgv1.MachineConfig {
	mc := &mcfgv1.MachineConfig{}
	mc.Name = name
	mc.Annotations = map[string]string{"bunsen.dev/revision": "main@sha1:01"}
	mc.Spec.Config.Raw = []byte(`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/a","contents":{"source":"data:,` + contents + `"}}]}}`)
	return mc
}

// shelf has a pool that serves, one with nothing rendered, one with a bad config, and one that old versions cannot say.
func shelf() *Shelf {
	s := NewShelf()
	put := func(pool string, mc *mcfgv1.MachineConfig) {
		s.Put(pool, NewOffer(mcs.Input{Pool: pool, Rendered: mc}))
	}
	put("worker", rendered("rendered-worker-1", "a"))
	bad := rendered("rendered-bad-1", "")
	bad.Spec.Config.Raw = []byte(`{"ignition":{"version":"2.2.0"}}`)
	put("bad", bad)
	luks := rendered("rendered-luks-1", "")
	luks.Spec.Config.Raw = []byte(`{"ignition":{"version":"3.5.0"},"storage":{"luks":[{"name":"root","device":"/dev/a","cex":{"enabled":true}}]}}`)
	put("luks", luks)
	s.Put("new", nil)
	s.SetReady()
	return s
}

// ask sends one request to a handler.
func ask(h http.Handler, method, path string, header ...string) *http.Response {
	r := httptest.NewRequest(method, "https://host:22623"+path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func text(t testing.TB, r *http.Response) string {
	t.Helper()
	all, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

const accept = "application/vnd.coreos.ignition+json;version="

func TestAnswers(t *testing.T) {
	h := Routes(shelf(), quiet)
	for _, c := range []struct {
		because, method, path, accept string
		status                        int
		says                          string
	}{
		{"a machine asks for its pool", "GET", "/config/worker", accept + "3.5.0, */*;q=0.1", 200, `"version":"3.5.0"`},
		{"an older machine asks", "GET", "/config/worker", accept + "3.1.0", 200, `"version":"3.1.0"`},
		{"curl asks", "GET", "/config/worker", "*/*", 200, `"version":"3.5.0"`},
		{"the pool is the last element", "GET", "/config/a/b/worker", "", 200, `"version":"3.5.0"`},
		{"a slash at the end", "GET", "/config/worker/", "", 200, `"version":"3.5.0"`},
		{"only the head", "HEAD", "/config/worker", "", 200, ""},
		{"a pool that does not exist", "GET", "/config/wroker", "", 404, `pool "wroker"`},
		{"no pool", "GET", "/config/", "", 404, "names no pool"},
		{"a pool without a config", "GET", "/config/new", "", 503, "nothing is rendered"},
		{"a version that is not served", "GET", "/config/worker", accept + "2.2.0", 400, "3.0.0, 3.1.0, 3.2.0, 3.3.0, 3.4.0, 3.5.0"},
		{"a config that the version cannot say", "GET", "/config/luks", accept + "3.4.0", 406, "storage.luks[root].cex.enabled"},
		{"a rendered config that is bad", "GET", "/config/bad", "", 500, "rendered-bad-1"},
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
			t.Errorf("%s: %s %s gives %d %q, want %d with %q", c.because, c.method, c.path, r.StatusCode, body, c.status, c.says)
		}
		if got := r.Header.Get("Retry-After"); (got != "") != (c.status == 503) {
			t.Errorf("%s: Retry-After is %q", c.because, got)
		}
		if r.StatusCode == 200 && strings.HasPrefix(c.path, "/config") && r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: Content-Type is %q", c.because, r.Header.Get("Content-Type"))
		}
	}
}

func TestHeadSaysWhatGetSends(t *testing.T) {
	h := Routes(shelf(), quiet)
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
	s := shelf()
	h := Routes(s, quiet)
	tag := func(accept string) string {
		return ask(h, "GET", "/config/worker", "Accept", accept).Header.Get("ETag")
	}
	first := tag("")
	s.Put("worker", NewOffer(mcs.Input{Pool: "worker", Rendered: rendered("rendered-worker-1", "a")}))
	if again := tag(""); again != first || len(first) != 34 {
		t.Errorf("the same config has ETag %s, then %s", first, again)
	}
	if older := tag(accept + "3.1.0"); older == first {
		t.Error("two versions share an ETag")
	}
	for _, header := range []string{first, "W/" + first, `"x", ` + first, "*"} {
		r := ask(h, "GET", "/config/worker", "If-None-Match", header)
		if body := text(t, r); r.StatusCode != 304 || body != "" || r.Header.Get("ETag") != first {
			t.Errorf("If-None-Match %s: %d with %d bytes and ETag %s", header, r.StatusCode, len(body), r.Header.Get("ETag"))
		}
	}
	s.Put("worker", NewOffer(mcs.Input{Pool: "worker", Rendered: rendered("rendered-worker-2", "b")}))
	if r := ask(h, "GET", "/config/worker", "If-None-Match", first); r.StatusCode != 200 || r.Header.Get("ETag") == first {
		t.Errorf("a new config is answered %d with ETag %s", r.StatusCode, r.Header.Get("ETag"))
	}
}

func TestBeforeThePoolsAreKnownNoMachineIsTurnedAwayForGood(t *testing.T) {
	h := Routes(NewShelf(), quiet)
	for path, want := range map[string]int{"/config/worker": 503, "/readyz": 503, "/healthz": 200} {
		if r := ask(h, "GET", path); r.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, r.StatusCode, want)
		}
	}
}

func TestEachAnswerIsOneLogLine(t *testing.T) {
	var lines bytes.Buffer
	h := Routes(shelf(), slog.New(slog.NewJSONHandler(&lines, nil)))
	ask(h, "GET", "/config/worker", "Accept", accept+"3.4.0")
	ask(h, "GET", "/config/no%0A%22such", "Accept", accept+"3.4.0")
	got := strings.Split(strings.TrimSpace(lines.String()), "\n")
	if len(got) != 2 {
		t.Fatalf("%d lines: %s", len(got), lines.String())
	}
	var line map[string]any
	if err := json.Unmarshal([]byte(got[0]), &line); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"pool": "worker", "config": "rendered-worker-1", "commit": "main@sha1:01", "version": "3.4.0", "remote": "192.0.2.1:1234", "status": 200.0} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
}

func TestMachinesNeverSeeHalfOfAChange(t *testing.T) {
	s := shelf()
	server := httptest.NewServer(Routes(s, quiet))
	defer server.Close()
	var clients sync.WaitGroup
	stop := make(chan struct{})
	for i := range 4 {
		clients.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				r, err := http.NewRequest("GET", server.URL+"/config/worker", nil)
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("Accept", accept+"3."+strconv.Itoa((i+n)%6)+".0")
				response, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				body := text(t, response)
				_ = response.Body.Close()
				if problem := torn(body); problem != "" || response.StatusCode != 200 {
					t.Errorf("%d %s: %s", response.StatusCode, problem, body)
					return
				}
			}
		})
	}
	for i := range 50 {
		text := strconv.Itoa(i)
		next := NewOffer(mcs.Input{Pool: "worker", Rendered: rendered("rendered-worker-"+text, text)})
		last, err := s.Offer("worker")
		if err != nil {
			t.Fatal(err)
		}
		if err := next.Prepare(last); err != nil {
			t.Fatal(err)
		}
		s.Put("worker", next)
	}
	close(stop)
	clients.Wait()
}

// torn tells what is wrong with a body whose file and name do not belong together.
func torn(body string) string {
	var config struct {
		Storage struct {
			Files []struct{ Contents struct{ Source string } }
		}
	}
	if err := json.Unmarshal([]byte(body), &config); err != nil {
		return err.Error()
	}
	files := config.Storage.Files
	if len(files) != 3 {
		return fmt.Sprintf("%d files", len(files))
	}
	text := strings.TrimPrefix(files[0].Contents.Source, "data:,")
	if text == "a" {
		text = "1"
	}
	for _, f := range files[1:] {
		if !strings.Contains(f.Contents.Source, "rendered-worker-"+text+"%22") {
			return "the files are of two configs"
		}
	}
	return ""
}

func FuzzConfigPath(f *testing.F) {
	h := Routes(shelf(), quiet)
	for _, seed := range []string{"worker", "", "..", "a%2fworker", "//", "worker/..", "%00", "a?b", "\xff", "%"} {
		f.Add(seed, "*/*")
	}
	f.Fuzz(func(t *testing.T, rest, accept string) {
		r := httptest.NewRequest("GET", "https://host/config/x", nil)
		r.URL.Path = "/config/" + rest
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch w.Code {
		case 200, 307, 400, 404, 406, 500, 503:
		default:
			t.Errorf("%q, %q: %d", rest, accept, w.Code)
		}
		if w.Code == 200 && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%q, %q: the config is no JSON", rest, accept)
		}
		if w.Code == 500 && poolOf(r.URL.Path) != "bad" {
			t.Errorf("%q, %q: %s", rest, accept, w.Body)
		}
	})
}
