package agent_test

import (
	"context"
	"crypto/sha512"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/download"
	"github.com/bunsen-os/bunsen/mcd/agent"
	"github.com/bunsen-os/bunsen/mcd/fetch"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// fileServer serves `contents of /NAME`, slowly while hold is set.
type fileServer struct {
	mu       sync.Mutex
	away     bool
	hold     chan struct{}
	begun    chan struct{}
	requests int
}

func (s *fileServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests++
	away, hold := s.away, s.hold
	s.mu.Unlock()
	if away {
		http.NotFound(w, r)
		return
	}
	text := "contents of " + r.URL.Path
	w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	if hold != nil {
		fmt.Fprint(w, text[:4])
		w.(http.Flusher).Flush()
		s.begun <- struct{}{}
		select {
		case <-hold:
		case <-r.Context().Done():
		}
		text = text[4:]
	}
	fmt.Fprint(w, text)
}

func (s *fileServer) set(away bool, hold chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away, s.hold, s.requests = away, hold, 0
}

// nextRig is a node whose daemon downloads for the next config.
type nextRig struct {
	t      *testing.T
	dir    string
	server *fileServer
	c      *cluster
	a      *agent.Agent
	fetch  *fetch.Syncer
	os     *imageHost
	// reported is called when the agent says that it works; nil for nothing.
	reported func()
}

func newNextRig(t *testing.T) *nextRig {
	t.Helper()
	files := &fileServer{begun: make(chan struct{}, 9)}
	server := httptest.NewServer(files)
	t.Cleanup(server.Close)
	r := newNextRigOf(t, files)
	for _, file := range []string{"a", "b", "c"} {
		sum := sha512.Sum512([]byte("contents of /" + file))
		r.c.add(t, "rendered-"+file, "", func(spec *mcfgv1.MachineConfigSpec) {
			spec.Config.Raw = fmt.Appendf(nil,
				`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/opt/%s","contents":{"source":"%s/%s?token=geheim","verification":{"hash":"sha512-%x"}}}]}}`, file, server.URL, file, sum)
		})
	}
	r.desire("rendered-a")
	return r
}

// newNextRigOf is a machine without a config.
func newNextRigOf(t *testing.T, files *fileServer) *nextRig {
	t.Helper()
	r := &nextRig{t: t, dir: t.TempDir(), server: files, c: newCluster()}
	h, root, err := linux.OpenSimulated(r.dir, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	r.os = &imageHost{OperatingSystem: h.OS}
	h.OS = r.os
	r.fetch = fetch.NewSyncer(fetch.NewFetcher(h, func(a fetch.Access) fetch.Web {
		return download.New(download.Options{
			Proxy: a.Proxy, Authorities: a.Authorities, Logins: a.Logins,
			Agent: "test", Stall: time.Minute, Rate: 1 << 40,
		})
	}), h.OS)
	r.a = agent.New(agent.Config{
		Node: "worker-0", Cluster: r.c, Host: h, Fetch: r.fetch,
		Log: slog.New(slog.DiscardHandler), Reported: func() {
			if r.reported != nil {
				r.reported()
			}
		},
	})
	t.Cleanup(func() { // nothing writes below a directory that goes
		unlock := r.fetch.Lock()
		r.fetch.Stop()
		unlock()
	})
	return r
}

// desire lets the daemon update, as often as it takes.
func (r *nextRig) desire(config string) {
	r.t.Helper()
	r.c.desire(config)
	delete(r.c.annotations, v1alpha1.NextConfigAnnotation)
	for range 10 {
		r.sync()
		if is := report.NodeOf(r.c.annotations); is.State == "Done" && is.Current == config {
			return
		}
	}
	r.t.Fatalf("it does not come to %s: %v", config, r.c.annotations)
}

func (r *nextRig) sync() {
	syncOnce(r.t.Context(), r.a) //nolint:errcheck // the node says how it went
}

// next names the next config, and waits until the daemon has tried.
func (r *nextRig) next(config string) {
	r.t.Helper()
	r.c.annotations[v1alpha1.NextConfigAnnotation] = v1alpha1.NextConfig{Config: config, Since: time.Now()}.String()
	r.sync()
	r.tried()
}

// tried waits for the next attempt, and lets the daemon report.
func (r *nextRig) tried() {
	r.t.Helper()
	select {
	case <-r.fetch.Changed():
	case <-time.After(30 * time.Second):
		r.t.Fatal("no attempt ends")
	}
	r.sync()
}

func (r *nextRig) reports(config, problem string) {
	r.t.Helper()
	is, err := v1alpha1.ParseFetchReport(r.c.annotations[v1alpha1.FetchedAnnotation])
	if err != nil || is.Config != config || (is.Problem == "") != (problem == "") ||
		!strings.Contains(is.Problem, problem) {
		r.t.Errorf("it reports %+v, %v; want %s %q", is, err, config, problem)
	}
	if strings.Contains(fmt.Sprint(r.c.annotations), "geheim") {
		r.t.Errorf("a token is on the Node: %v", r.c.annotations)
	}
}

// stored counts complete contents.
func (r *nextRig) stored(want int) {
	r.t.Helper()
	names, err := filepath.Glob(r.dir + "/var/lib/machine-config-daemon/content/sha512-*")
	if err != nil || len(names) != want {
		r.t.Errorf("the store has %v, want %d", names, want)
	}
}

// TestADaemonDownloadsForTheNextConfig: the node stays Done and in service all the time. After the assignment, it needs
// no server.
func TestADaemonDownloadsForTheNextConfig(t *testing.T) {
	r := newNextRig(t)
	r.server.set(true, nil)
	r.c.told = nil
	r.next("rendered-b")
	r.c.says(t, "Done", "rendered-a")
	r.reports("rendered-b", "/b?…: the server answers 404")
	first := r.c.annotations[v1alpha1.FetchedAnnotation]
	r.tried() // again, by itself
	if again := r.c.annotations[v1alpha1.FetchedAnnotation]; again != first {
		t.Errorf("the same problem is reported anew: %s, before %s", again, first)
	}
	r.server.set(false, nil)
	r.tried()
	r.reports("rendered-b", "")
	r.c.says(t, "Done", "rendered-a")
	if all := strings.Join(r.c.told, "\n"); strings.Contains(all, "state=Working") ||
		strings.Contains(all, "desiredDrain") {
		t.Errorf("it reports\n%s", all)
	}
	if _, err := os.Stat(r.dir + "/opt/b"); !os.IsNotExist(err) {
		t.Errorf("the file is in force already: %v", err)
	}
	r.server.set(true, nil)
	r.desire("rendered-b")
	r.reports("", "")
	if text, err := os.ReadFile(r.dir + "/opt/b"); err != nil || string(text) != "contents of /b" ||
		r.server.requests != 0 {
		t.Errorf("it has %q, %v after %d requests", text, err, r.server.requests)
	}
	r.stored(2) // that of the config in force, and that of the one before
}

// TestTheNextConfigChanges: the daemon deletes contents that no config needs, and the report.
func TestTheNextConfigChanges(t *testing.T) {
	r := newNextRig(t)
	r.next("rendered-b")
	r.reports("rendered-b", "")
	r.stored(2)
	r.next("rendered-c")
	r.reports("rendered-c", "")
	r.stored(2)
	delete(r.c.annotations, v1alpha1.NextConfigAnnotation)
	r.sync()
	r.reports("", "")
	r.stored(1)
	r.c.told = nil
	r.sync()
	if len(r.c.told) > 0 {
		t.Errorf("at rest, it reports %v", r.c.told)
	}
	r.c.annotations[v1alpha1.NextConfigAnnotation] = "rendered-gone 2026-01-02T12:00:00Z"
	r.sync()
	r.reports("rendered-gone", "not found")
	r.c.says(t, "Done", "rendered-a")
}

// TestTheDaemonGoesOnWhileItDownloads: it reports drift, and an assignment ends the download in the background. The
// file is complete, although two downloads wrote it.
func TestTheDaemonGoesOnWhileItDownloads(t *testing.T) {
	r := newNextRig(t)
	hold := make(chan struct{})
	r.server.set(false, hold)
	r.c.annotations[v1alpha1.NextConfigAnnotation] = "rendered-b 2026-01-02T12:00:00Z"
	r.sync()
	<-r.server.begun
	r.reports("", "")
	if err := os.WriteFile(r.dir+"/opt/a", []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.sync()
	r.c.says(t, "Degraded", "rendered-a", `content mismatch for file "/opt/a"`)
	if err := os.WriteFile(r.dir+"/opt/a", []byte("contents of /a"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.sync()
	r.c.says(t, "Done", "rendered-a")
	r.server.set(false, nil)
	r.desire("rendered-b")
	if text, err := os.ReadFile(r.dir + "/opt/b"); err != nil || string(text) != "contents of /b" {
		t.Errorf("it has %q, %v", text, err)
	}
	close(hold)
}

// TestADaemonStartsAgainWhileItDownloads: the download continues, and the report stays until the next one.
func TestADaemonStartsAgainWhileItDownloads(t *testing.T) {
	r := newNextRig(t)
	hold := make(chan struct{})
	r.server.set(false, hold)
	r.c.annotations[v1alpha1.NextConfigAnnotation] = "rendered-b 2026-01-02T12:00:00Z"
	r.sync()
	<-r.server.begun
	unlock := r.fetch.Lock()
	r.fetch.Stop()
	unlock()
	close(hold)
	r.server.set(false, nil)
	r.next("rendered-b")
	r.reports("rendered-b", "")
	r.stored(2)
}

// imageHost is an OS that downloads images, or cannot.
type imageHost struct {
	host.OperatingSystem
	err        error
	downloaded []string
	// If stalls is true, a download ends only with its context.
	stalls bool
}

func (o *imageHost) Download(ctx context.Context, image string) error {
	if o.stalls {
		<-ctx.Done()
		return ctx.Err()
	}
	o.downloaded = append(o.downloaded, image)
	return o.err
}

// TestARevertEndsADownloadThatStalls: the download of an OS image has no end of its own for an hour.
func TestARevertEndsADownloadThatStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newNextRigOf(t, nil)
		for _, name := range []string{"rendered-old", "rendered-os"} {
			r.c.add(t, name, "", func(spec *mcfgv1.MachineConfigSpec) {
				spec.OSImageURL = "registry.example/os@sha256:" + name
			})
		}
		r.desire("rendered-old")
		r.c.desire("rendered-os")
		r.c.told = nil
		begin := time.Now()
		r.os.stalls = true
		r.reported = func() {
			if time.Since(begin) > 10*time.Minute {
				r.c.desire("rendered-old")
			}
		}
		r.sync()
		if took := time.Since(begin); took < 10*time.Minute || took > 11*time.Minute {
			t.Errorf("the download ended after %s", took)
		}
		all := strings.Join(r.c.told, "\n")
		if !strings.Contains(all, "downloading the OS image registry.example/os@sha256:rendered-os before the") {
			t.Errorf("it reports\n%s", all)
		}
		r.sync()
		r.c.says(t, "Done", "rendered-old")
	})
}

// TestAnOSImageIsDownloadedBeforeTheDrain: once, and a failure holds the node in service. A machine that cannot
// download one without staging it does that later.
func TestAnOSImageIsDownloadedBeforeTheDrain(t *testing.T) {
	r := newNextRig(t)
	r.c.add(t, "rendered-os", "", func(spec *mcfgv1.MachineConfigSpec) {
		spec.OSImageURL = "registry.example/os@sha256:2"
	})
	r.os.err = errors.New("rpm-ostree rebase: the registry answers 503")
	r.next("rendered-os")
	r.reports("rendered-os", "downloading the OS image registry.example/os@sha256:2: rpm-ostree rebase: the registry "+
		"answers 503")
	r.c.says(t, "Done", "rendered-a")

	r.c.desire("rendered-os") // by a controller that does not wait
	r.c.told = nil
	r.sync()
	r.c.says(t, "Working", "rendered-a", "waiting for the content of rendered-os before the node is drained: "+
		"downloading the OS image")
	r.reports("rendered-os", "answers 503")
	if all := strings.Join(r.c.told, "\n"); strings.Contains(all, "desiredDrain") {
		t.Errorf("it reports\n%s", all)
	}
	r.os.err, r.os.downloaded = nil, nil
	r.desire("rendered-os")
	if len(r.os.downloaded) != 1 {
		t.Errorf("it downloads %v", r.os.downloaded)
	}

	r = newNextRig(t)
	r.c.add(t, "rendered-os", "", func(spec *mcfgv1.MachineConfigSpec) {
		spec.OSImageURL = "registry.example/os@sha256:2"
	})
	r.os.err = host.ErrUnsupported
	r.next("rendered-os")
	r.reports("rendered-os", "")
}
