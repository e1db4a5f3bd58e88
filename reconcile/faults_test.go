package reconcile_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/reconcile/gitsource"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/git/objects"
	"github.com/bunsen-os/bunsen/source/repository"
)

var updateGolden = flag.Bool("update", false, "rewrite the golden files")

// host is git's own http server behind TLS, with a fault that a test switches on.
type host struct {
	*httptest.Server
	t     *testing.T
	root  string
	git   http.Handler
	good  tls.Certificate
	bad   tls.Certificate
	fault atomic.Pointer[gitFault] // nil: none
	n     atomic.Int64
}

// gitFault is one thing that goes wrong.
type gitFault struct {
	name string
	// fetches limits the fault to requests for objects; otherwise it concerns each request.
	fetches bool
	// answer replaces the answer of the server. git answers as usual.
	answer func(h *host, w http.ResponseWriter, r *http.Request)
	// url replaces the address of the repository.
	url string
	// certificate replaces the one of the server.
	certificate func(t *testing.T) tls.Certificate
	// clients requires a client certificate.
	clients bool
	// change is a git command that changes the repository; undo is the one that repairs it.
	change, undo string
	// pack limits what a fetch may bring, in bytes.
	pack int64
}

// faults are what git hosts do on bad days.
func faults() []gitFault {
	status := func(code int, header ...string) func(*host, http.ResponseWriter, *http.Request) {
		return func(h *host, w http.ResponseWriter, _ *http.Request) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			fmt.Fprintf(w, "request %d failed", h.n.Add(1))
		}
	}
	page := func(kind, body string) func(*host, http.ResponseWriter, *http.Request) {
		return func(_ *host, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			fmt.Fprint(w, body)
		}
	}
	const result = "application/x-git-upload-pack-result"
	hang := func(_ *host, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	reset := func(*host, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	return []gitFault{
		{name: "every request is answered with 500", answer: status(500)},
		{name: "every request is answered with 502", answer: status(502)},
		{name: "every request is answered with 503", answer: status(503)},
		{name: "the server is busy and says for how long", answer: status(503, "Retry-After", "240")},
		{name: "the server limits requests", answer: status(429)},
		{name: "the server limits requests and says for how long", answer: status(429, "Retry-After", "150")},
		{name: "the credentials are refused", answer: status(401)},
		{name: "the credentials have no right", answer: status(403)},
		{name: "the repository is gone", answer: status(404)},
		{name: "a login page", answer: page("text/html", "<html>Log in</html>")},
		{name: "a redirect to a login page", answer: status(302, "Location", "/login?session=4711")},
		{name: "an empty answer", answer: page("application/x-git-upload-pack-advertisement", "")},
		{name: "an answer that is not git's protocol", answer: page("application/x-git-upload-pack-advertisement", "no git here")},
		{name: "the server hangs", answer: hang},
		{name: "the server resets each connection", answer: reset},
		{name: "the server is down", url: "https://127.0.0.1:1/cfg.git"},
		{name: "objects are answered with 500", fetches: true, answer: status(500)},
		{name: "objects are answered with 403", fetches: true, answer: status(403)},
		{name: "the server hangs at the pack", fetches: true, answer: hang},
		{
			name: "the connection is reset in the middle of the pack", fetches: true,
			answer: cut(func(w http.ResponseWriter, all []byte) {
				_, _ = w.Write(all[:len(all)/2])
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}),
		},
		{name: "the pack ends early", fetches: true, answer: cut(func(w http.ResponseWriter, all []byte) { _, _ = w.Write(all[:len(all)-30]) })},
		{name: "the pack is damaged", fetches: true, answer: cut(func(w http.ResponseWriter, all []byte) {
			all[len(all)-40] ^= 0xff
			_, _ = w.Write(all)
		})},
		{name: "the server does not know the object", fetches: true, answer: page(result, "0032ERR upload-pack: not our ref 11111111111111111")},
		{name: "the server has no memory for the pack", fetches: true, answer: page(result, "000dpackfile\n0021\x03pack-objects out of memory\n0000")},
		{name: "the server cannot read an object", fetches: true, answer: page(result, "000dpackfile\n0047\x03aborting due to possible repository corruption on the remote side.0000")},
		{name: "the certificate has expired", certificate: func(t *testing.T) tls.Certificate { return certificate(t, -time.Minute, "127.0.0.1") }},
		{name: "the certificate is for another name", certificate: func(t *testing.T) tls.Certificate { return certificate(t, time.Hour, "git.example.org") }},
		{name: "the certificate has an unknown authority", certificate: func(t *testing.T) tls.Certificate { return certificate(t, time.Hour, "127.0.0.1") }},
		{name: "the server requires a client certificate", clients: true},
		{name: "the branch was deleted", change: "update-ref -d refs/heads/main", undo: "update-ref refs/heads/main refs/keep/two"},
		{name: "the pack is too large", pack: 100, undo: "update-ref refs/heads/main refs/keep/three"},
	}
}

// cut answers as git does, with a changed body.
func cut(write func(w http.ResponseWriter, all []byte)) func(*host, http.ResponseWriter, *http.Request) {
	return func(h *host, w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		h.git.ServeHTTP(rec, r)
		w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
		write(w, rec.Body.Bytes())
	}
}

// certificate makes a certificate for a name or address that signed itself.
func certificate(t *testing.T, valid time.Duration, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(valid)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: until.Add(-2 * time.Hour), NotAfter: until,
		IsCA: true, BasicConstraintsValid: true,
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// newHost serves a copy of a repository.
func newHost(t *testing.T, from string) *host {
	t.Helper()
	h := &host{t: t, root: t.TempDir(), good: certificate(t, time.Hour, "127.0.0.1")}
	if err := os.CopyFS(filepath.Join(h.root, "cfg.git"), os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	h.git = &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"), Root: "/", Stderr: io.Discard,
		Logger: log.New(io.Discard, "", 0),
		Env: []string{
			"GIT_PROJECT_ROOT=" + h.root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1",
			"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_COUNT=2",
			"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*", "GIT_CONFIG_KEY_1=uploadpack.allowFilter",
			"GIT_CONFIG_VALUE_1=true",
		}, InheritEnv: []string{"PATH"},
	}
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(h.serve))
	h.Config.ErrorLog = log.New(io.Discard, "", 0) // broken connections are what the test is for
	var bad sync.Once
	h.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := &tls.Config{Certificates: []tls.Certificate{h.good}}
		if f := h.fault.Load(); f != nil && f.certificate != nil {
			bad.Do(func() { h.bad = f.certificate(t) })
			c.Certificates = []tls.Certificate{h.bad}
		} else if f != nil && f.clients {
			c.ClientAuth = tls.RequireAnyClientCert
		}
		return c, nil
	}, Certificates: []tls.Certificate{h.good}}
	h.StartTLS()
	t.Cleanup(h.Close)
	return h
}

func (h *host) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if f := h.fault.Load(); f != nil && f.answer != nil &&
		(!f.fetches || bytes.Contains(body, []byte("command=fetch"))) {
		f.answer(h, w, r)
		return
	}
	h.git.ServeHTTP(w, r)
}

// run runs git in the served repository.
func (h *host) run(command string) {
	h.t.Helper()
	if out, err := exec.Command("git", append([]string{"-C", filepath.Join(h.root, "cfg.git")},
		strings.Fields(command)...)...).CombinedOutput(); err != nil {
		h.t.Fatalf("git %s: %v\n%s", command, err, out)
	}
}

// counting counts the tries to list and to fetch.
type counting struct {
	gitsource.Repository
	lists, fetches *int
}

// List counts a listing.
func (c counting) List(ctx context.Context, poll source.Poll) (source.Listing, error) {
	*c.lists++
	return c.Repository.List(ctx, poll)
}

// Evidence counts a fetch, because the controller fetches the commits first.
func (c counting) Evidence(ctx context.Context, p source.Picked) (source.Evidence, error) {
	*c.fetches++
	return c.Repository.Evidence(ctx, p)
}

// TestWhatGitHostsDoOnBadDays: with each fault, ten minutes pass in which the controller tries as often as it wants to.
// It tries a few times, says once what is wrong and what to do, keeps the applied commit, and continues by itself
// afterwards. The golden file has the advice and the counts.
func TestWhatGitHostsDoOnBadDays(t *testing.T) {
	for _, name := range []string{"GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"} {
		t.Setenv(name, "2026-01-02T03:04:05Z") // the controller varies its pauses by the hash of the commit
	}
	at := newCheckout(t, "")
	at.run("update-ref", "refs/keep/one", "HEAD")
	at.unsigned("third")
	at.run("update-ref", "refs/keep/two", "HEAD")
	at.unsigned("fourth")
	at.run("update-ref", "refs/keep/three", "HEAD")
	at.run("update-ref", "refs/heads/main", "refs/keep/one")
	all := faults()
	said := make([]string, len(all))
	t.Run("faults", func(t *testing.T) {
		for i, f := range all {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				said[i] = playFault(t, newHost(t, filepath.Join(at.dir, ".git")), f)
			})
		}
	})
	golden := filepath.Join("testdata", "faults.golden")
	got := strings.Join(said, "\n")
	if *updateGolden {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// volatile is what differs between runs: addresses, hashes of commits, whose time is now, the end of a certificate,
// and how a connection broke.
var volatile = regexp.MustCompile(
	`https://127\.0\.0\.1:[0-9]+|127\.0\.0\.1:[0-9]+|\b[0-9a-f]{40}\b|sha1:[0-9a-f]{8}\b|is after [0-9TZ:-]+|in the middle of an answer; the controller tries again \([^)]*\)`)

// playFault returns the advice and the counts.
func playFault(t *testing.T, h *host, f gitFault) string {
	w := newWorld(t)
	controllertest.Modify(w.Cluster, w.GitSource(), func(s *v1alpha1.GitSource) {
		s.Spec.Ref.Branch = "main"
		s.Spec.Timeout = metav1.Duration{Duration: 20 * time.Second}
	})
	dir := filepath.Join(t.TempDir(), "store")
	trees, err := repository.Open(dir, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = trees.Close() })
	cache, err := objects.NewCache(trees.Objects(), w.Now)
	if err != nil {
		t.Fatal(err)
	}
	var lists, fetches int
	w.source.Open = func(v1alpha1.GitSourceSpec, source.Secrets) (gitsource.Repository, error) {
		c := git.Config{
			URL: h.URL + "/cfg.git",
			Secret: map[string][]byte{"ca.crt": pem.EncodeToMemory(&pem.Block{
				Type:  "CERTIFICATE",
				Bytes: h.good.Certificate[0],
			})},
		}
		if f := h.fault.Load(); f != nil {
			c.URL, c.PackBytes = cmp.Or(f.url, c.URL), f.pack
		}
		repo, err := (&repository.Opener{Store: trees, Objects: cache}).OpenGit(c)
		repo.URL, repo.Ref = "u", &v1alpha1.GitRef{Branch: "main"}
		return counting{repo, &lists, &fetches}, err
	}
	w.follow()
	controllertest.Contains(t, "Ready before the fault", w.Condition("Ready"), "True|Succeeded")
	applied := w.GitSource().Status.AppliedRevision

	h.run("update-ref refs/heads/main refs/keep/two")
	if f.change != "" {
		h.run(f.change)
	}
	h.fault.Store(&f)
	limit := func(d time.Duration) {
		controllertest.Modify(w.Cluster, w.GitSource(), func(s *v1alpha1.GitSource) { s.Spec.Timeout.Duration = d })
	}
	if strings.Contains(f.name, "hangs") {
		limit(time.Second) // A request that the server answers must end in this time too, on a busy machine.
	}
	w.tick()
	w.Events.Lines, w.Writes.Done, lists, fetches = nil, nil, 0, 0
	for end := w.Now.Add(10 * time.Minute); w.Now.Before(end); {
		w.Now = w.Now.Add(max(w.follow().RequeueAfter, time.Second))
	}
	writes := len(slices.DeleteFunc(w.Writes.Done, func(what string) bool { return !strings.Contains(what, "status") }))
	events := len(w.Events.Lines)
	tries := lists
	if fetches > 0 {
		tries = fetches
	}
	if tries > 14 || events > 2 || writes > 2 {
		t.Errorf("%d tries, %d events, %d writes: %q", tries, events, writes, w.Events.Lines)
	}
	controllertest.Equal(t, "the revision in force", w.GitSource().Status.AppliedRevision, applied)
	said := volatile.ReplaceAllString(w.Condition("Ready"), "X")

	h.fault.Store(nil)
	limit(20 * time.Second)
	if f.undo != "" {
		h.run(f.undo)
	}
	for end := w.Now.Add(20 * time.Minute); w.Now.Before(end) && w.GitSource().Status.AppliedRevision == applied; {
		result := w.follow()
		if w.GitSource().Status.AppliedRevision == applied {
			w.Now = w.Now.Add(max(result.RequeueAfter, time.Second))
		}
	}
	controllertest.Contains(t, "Ready afterwards", w.Condition("Ready"), "True|Succeeded")
	controllertest.Equal(t, "another revision is in force", w.GitSource().Status.AppliedRevision != applied, true)
	return fmt.Sprintf("%s: %d tries, %d events, %d writes of the status\n  %s\n", f.name, tries, events, writes, said)
}
