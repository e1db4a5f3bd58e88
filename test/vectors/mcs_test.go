package vectors_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/mcs"
	mcshttp "github.com/bunsen-os/bunsen/mcs/http"
)

// serverVectors were recorded from the original server's handler, over a stub that serves one config to every pool but
// `missing`, with nothing appended.
type serverVectors struct {
	Accept   []serverAccept
	Requests []serverRequest
}

// serverAccept is what GET /config/worker gives for an Accept header.
type serverAccept struct {
	Accept  string
	Body    string
	Status  int
	Version string
}

// serverRequest is what a request without an Accept header gives.
type serverRequest struct {
	Method, Path  string
	Status        int
	ContentType   string
	ContentLength string
	Location      string
	BodyLen       int
}

// serverExceptions are the vectors that we answer otherwise on purpose, by Accept header or by method and path, with
// our status and version and the reason. docs/differences.md tells users the same.
var serverExceptions = map[string]struct {
	status  int
	version string
	because string
}{
	"accept ":                                     {200, "3.5.0", noVersion},
	"accept application/json":                     {200, "3.5.0", noVersion},
	"accept " + ignitionType:                      {200, "3.5.0", noVersion},
	"accept " + ignitionType + ";version=abc":     {200, "3.5.0", noVersion},
	"accept " + ignitionType + `;version="3.3.0"`: {200, "3.5.0", noVersion},
	"GET /config/":                                {404, "", "the path names no pool; the stub serves whatever name it is given, a real cluster answers 500 for a pool called config"},
	"GET /config/a/b/worker":                      {404, "", "a proxy may allow pools by the beginning of a path, so one path names one pool"},
}

const (
	ignitionType = "application/vnd.coreos.ignition+json"
	noVersion    = "who names no version gets the newest that is rendered: nothing that boots today reads Ignition 2 " +
		"only, and people who look with curl see what machines get"
)

func TestServer(t *testing.T) {
	vectors := load[serverVectors](t, "mcs.json")
	used := map[string]bool{}
	for _, v := range vectors.Accept {
		name := "accept " + v.Accept
		status, version, body := askServer(t, v.Accept)
		if d, ok := serverExceptions[name]; ok {
			used[name] = true
			if status != d.status || version != d.version {
				t.Errorf("%s: %d %q, want %d %q: %s", name, status, version, d.status, d.version, d.because)
			}
			if status == v.Status && version == v.Version {
				t.Errorf("%s is no exception any more: take it out of the table", name)
			}
			continue
		}
		if status != v.Status || version != v.Version {
			t.Errorf("%s: %d %q, the original gives %d %q", name, status, version, v.Status, v.Version)
		}
		if diff := cmp.Diff(jsonOf(t, v.Body), body); diff != "" {
			t.Errorf("%s: -original +ours\n%s", name, diff)
		}
	}
	for _, v := range vectors.Requests {
		name := v.Method + " " + v.Path
		d, ok := serverExceptions[name]
		if used[name] = ok; ok {
			if d.status == v.Status {
				t.Errorf("%s is no exception any more: take it out of the table", name)
			}
			v.Status = d.status
		}
		replay(t, name, v)
	}
	for name, d := range serverExceptions {
		if !used[name] {
			t.Errorf("no vector is called %q (%s)", name, d.because)
		}
	}
}

// server serves the vectors' config to whoever asks for pool worker's, as the original does.
func server(t *testing.T) http.Handler {
	t.Helper()
	mc := &mcfgv1.MachineConfig{}
	mc.Name = "rendered-worker-1"
	mc.Spec.Config.Raw = []byte(
		`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/a","overwrite":true,"mode":420,"contents":{"source":"data:,1"}}]}}`)
	pools := mcs.NewPools()
	if err := pools.Set("worker", mc); err != nil {
		t.Fatal(err)
	}
	pools.SetSynced()
	handler, _ := mcshttp.Routes(mcshttp.Options{
		Source: pools, Access: mcshttp.Access{Open: true},
		Log: slog.New(slog.DiscardHandler),
	})
	return handler
}

// askServer returns status, version and the config without the files that we append and the recorded stub does not.
func askServer(t *testing.T, accept string) (int, string, any) {
	t.Helper()
	r := httptest.NewRequest("GET", "https://host/config/worker", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	server(t).ServeHTTP(w, r)
	if w.Code != 200 {
		return w.Code, "", nil
	}
	var config struct {
		Ignition struct{ Version string } `json:"ignition"`
		Storage  struct {
			Files []map[string]any `json:"files"`
		} `json:"storage"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &config); err != nil {
		t.Fatal(err)
	}
	appended := []any{mcs.NodeAnnotationsPath, mcs.EncapsulatedPath}
	config.Storage.Files = slices.DeleteFunc(config.Storage.Files, func(f map[string]any) bool {
		return slices.Contains(appended, f["path"])
	})
	rest, err := json.Marshal(map[string]any{
		"ignition": map[string]string{"version": config.Ignition.Version},
		"storage":  map[string]any{"files": config.Storage.Files},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, config.Ignition.Version, jsonOf(t, string(rest))
}

// replay compares all but the bodies: ours have more files, and our errors a line that says why.
func replay(t *testing.T, name string, want serverRequest) {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(want.Method, "https://host/", nil)
	r.URL.Path = want.Path
	server(t).ServeHTTP(w, r)
	if w.Code != want.Status || w.Header().Get("Location") != want.Location {
		t.Errorf("%s: %d to %q, the original gives %d to %q", name, w.Code, w.Header().Get("Location"), want.Status,
			want.Location)
	}
	if got := w.Header().Get("Content-Type"); want.Status < 400 && got != want.ContentType {
		t.Errorf("%s: Content-Type %q, the original gives %q", name, got, want.ContentType)
	}
	if got := w.Header().Get("Content-Length"); want.Status < 300 && got != strconv.Itoa(w.Body.Len()) {
		t.Errorf("%s: Content-Length %q of %d bytes", name, got, w.Body.Len())
	}
	if want.Status >= 400 && want.Method != "HEAD" && w.Body.Len() == 0 {
		t.Errorf("%s: an error without a reason", name)
	}
}

func jsonOf(t *testing.T, text string) any {
	t.Helper()
	if text == "" {
		return nil
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}
