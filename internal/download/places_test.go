package download_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/download"
)

// fail makes a server answer requests whose path contains a part with a status.
func (w *world) fail(part string, status int) {
	inner := w.Config.Handler
	w.Config.Handler = http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, part) {
			out.WriteHeader(status)
			return
		}
		inner.ServeHTTP(out, r)
	})
}

// TestMirrorsComeBeforeTheRegistry has what a mirror may answer. The registry and the mirror have the same file.
func TestMirrorsComeBeforeTheRegistry(t *testing.T) {
	for sentence, c := range map[string]struct {
		mirror, source func(*world)
		conf           string // more of the table of the registry
		fromMirror     bool
		want           []string
	}{
		"a mirror has the file":              {fromMirror: true},
		"a mirror is away":                   {mirror: func(w *world) { w.Close() }},
		"a mirror has no such file":          {mirror: func(w *world) { w.fail("/manifests/", 404) }},
		"a mirror has the manifest alone":    {mirror: func(w *world) { w.fail("/blobs/", 404) }},
		"a mirror is broken":                 {mirror: func(w *world) { w.fail("/v2/", 500) }},
		"a mirror lies about the manifest":   {mirror: func(w *world) { w.manifest = []byte(`{"layers": []}`) }},
		"a mirror names another realm":       {mirror: func(w *world) { w.realm = "http://token.example.com" }},
		"a mirror is for tags":               {conf: "pull-from-mirror = 'tag-only'"},
		"a registry that is away is no loss": {source: func(w *world) { w.Close() }, fromMirror: true},
		"a blocked registry with a mirror that is away": {
			mirror: func(w *world) { w.fail("/v2/", 503) }, conf: "[[registry]]\nprefix = 'SOURCE/tools/x'\n" +
				"blocked = true\n[[registry.mirror]]\nlocation = 'MIRROR/tools/x'",
			want: []string{"MIRROR/tools/x: the registry answers 503", "SOURCE/tools/x: blocked in registries.conf"},
		},
		"both fail": {
			mirror: func(w *world) { w.fail("/manifests/", 404) }, source: func(w *world) { w.fail("/blobs/", 500) },
			want: []string{"MIRROR/tools/x: the registry has no artifact", "SOURCE/tools/x: the registry answers 500 " +
				"for the file"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			source, mirror := newWorld(t), newWorld(t)
			a := source.push(t, "v1", []byte("the file"))
			mirror.push(t, "v1", []byte("the file"))
			for _, fault := range []struct {
				do func(*world)
				to *world
			}{{c.mirror, mirror}, {c.source, source}} {
				if fault.do != nil {
					fault.do(fault.to)
				}
			}
			names := strings.NewReplacer("SOURCE", source.host, "MIRROR", mirror.host)
			conf := names.Replace("[[registry]]\nlocation = 'SOURCE'\n[[registry.mirror]]\nlocation = 'MIRROR'\n" +
				c.conf)
			r := source.reader(nil)
			r.Mirrors = download.ParseMirrors(download.MirrorFile{Name: "a.conf", Text: []byte(conf)})
			if err := r.Mirrors.Err(); err != nil {
				t.Fatal(err)
			}
			_, text, err := read(t, r, a, nil)
			if len(c.want) == 0 {
				if err != nil || text != "the file" || c.fromMirror != (len(source.seen) == 0) {
					t.Errorf("%q, %v, and the registry got %q", text, err, source.seen)
				}
				return
			}
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), names.Replace(want)) {
					t.Errorf("the error is %v, want %q", err, names.Replace(want))
				}
			}
		})
	}
}

// TestAMirrorGetsItsOwnCredentials also finds out a digest through a mirror.
func TestAMirrorGetsItsOwnCredentials(t *testing.T) {
	source, mirror := newWorld(t), newWorld(t)
	mirror.login = "robot:hush"
	a := mirror.push(t, "v1", []byte("private"))
	a.Registry = source.host
	source.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the registry got credentials of its mirror")
		}
		http.NotFound(httptest.NewRecorder(), r)
	})
	r := source.reader(download.Logins{mirror.host: "robot:hush"})
	r.Mirrors = download.ParseMirrors(download.MirrorFile{
		Name: "a.conf",
		Text: []byte("[[registry]]\nlocation = '" + source.host +
			"'\n[[registry.mirror]]\nlocation = '" + mirror.host + "'"),
	})
	if _, text, err := read(t, r, a, nil); err != nil || text != "private" {
		t.Errorf("%q, %v", text, err)
	}
	tagged := machineconfig.Artifact{Registry: a.Registry, Repository: a.Repository, Tag: "v1"}
	if found, err := r.Resolve(t.Context(), tagged); err != nil || found != a {
		t.Errorf("the tag is %v, %v; want %v", found, err, a)
	}
}

// TestAMirrorThatFailedComesLast forgets the failure later.
func TestAMirrorThatFailedComesLast(t *testing.T) {
	now := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	source, mirror := newWorld(t), newWorld(t)
	a := source.push(t, "v1", []byte("the file"))
	mirror.push(t, "v1", []byte("the file"))
	r := source.reader(nil)
	r.Failures = &download.PlaceFailures{Now: func() time.Time { return now }}
	r.Mirrors = download.ParseMirrors(download.MirrorFile{
		Name: "a.conf",
		Text: []byte("[[registry]]\nlocation = '" + source.host +
			"'\n[[registry.mirror]]\nlocation = '" + mirror.host + "'"),
	})
	from := func() string {
		t.Helper()
		answer, err := r.Open(t.Context(), a, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.From
	}
	if at := from(); at != mirror.host+"/tools/x" {
		t.Errorf("at first it is from %s", at)
	}
	r.Failures.Add(mirror.host + "/tools/x")
	if at := from(); at != source.host+"/tools/x" {
		t.Errorf("after a failure it is from %s", at)
	}
	source.Close()
	if at := from(); at != mirror.host+"/tools/x" {
		t.Errorf("without the registry it is from %s", at)
	}
	now = now.Add(time.Hour)
	if at := from(); at != mirror.host+"/tools/x" {
		t.Errorf("later it is from %s", at)
	}
}
