package fromgit_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/internal/fromgit"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/repository"
)

// remote is a repository behind git's own HTTP server, over TLS, for who has the password or the token.
type remote struct {
	t          *testing.T
	bare, work string
	server     *httptest.Server
	away       atomic.Bool
	fetches    atomic.Int32
}

const (
	user     = "machines"
	password = "correct horse"
	bearer   = "tok-4711"
)

func newRemote(t *testing.T) *remote {
	t.Helper()
	root := t.TempDir()
	r := &remote{t: t, bare: filepath.Join(root, "os.git"), work: filepath.Join(root, "work")}
	r.git(root, "init", "-q", "--bare", "-b", "main", r.bare)
	r.git(root, "init", "-q", "-b", "main", r.work)
	r.git(r.work, "remote", "add", "origin", r.bare)
	path := r.git(root, "--exec-path")
	backend := &cgi.Handler{
		Path: filepath.Join(path, "git-http-backend"), Root: "/", Stderr: io.Discard,
		Logger: log.New(io.Discard, "", 0), InheritEnv: []string{"PATH"},
		Env: []string{
			"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		},
	}
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		name, pass, _ := req.BasicAuth()
		switch {
		case r.away.Load():
			panic(http.ErrAbortHandler)
		case (name != user || pass != password) && req.Header.Get("Authorization") != "Bearer "+bearer:
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		case req.Method == http.MethodPost:
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return
			}
			req.Body = io.NopCloser(bytes.NewReader(body))
			if bytes.Contains(body, []byte("command=fetch")) {
				r.fetches.Add(1)
			}
		}
		backend.ServeHTTP(w, req)
	}))
	r.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.server.StartTLS()
	t.Cleanup(r.server.Close)
	return r
}

func (r *remote) url() string { return r.server.URL + "/os.git" }

func (r *remote) git(dir string, args ...string) string {
	r.t.Helper()
	c := exec.Command("git", args...)
	c.Dir, c.Env = dir, append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z",
		"GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
	out, err := c.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// push commits what the work tree holds besides the files of a txtar archive, and returns the commit's hash.
func (r *remote) push(subject, files string) string {
	r.t.Helper()
	for _, f := range txtar.Parse([]byte(files)).Files {
		put(r.t, filepath.Join(r.work, filepath.FromSlash(f.Name)), f.Data)
	}
	return r.commit(subject)
}

// commit commits and pushes what the work tree holds.
func (r *remote) commit(subject string) string {
	r.t.Helper()
	r.git(r.work, "add", "-A")
	r.git(r.work, "commit", "-q", "--allow-empty", "-m", subject)
	r.git(r.work, "push", "-q", "--force", "origin", "HEAD", "--tags")
	return r.git(r.work, "rev-parse", "HEAD")
}

func put(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, data, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// secret is a folder of credentials: those that the remote wants, with changes; an empty one takes a file away.
func (r *remote) secret(changes map[string]string) string {
	r.t.Helper()
	dir := r.t.TempDir()
	files := map[string]string{
		"username": user + "\n", "password": password + "\n",
		"ca.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw})),
	}
	for name, data := range changes {
		files[name] = data
	}
	for name, data := range files {
		if data != "" {
			put(r.t, filepath.Join(dir, name), []byte(data))
		}
	}
	return dir
}

// machine is a server's disk: what is there survives a restart.
type machine struct {
	t      *testing.T
	dir    string
	config fromgit.Config
	log    lines
	trees  atomic.Int32 // how often a tree was asked for
}

// newMachine follows a remote with its credentials.
func newMachine(t *testing.T, from *remote) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir()}
	m.config = fromgit.Config{
		URL: from.url(), Credentials: from.secret(nil), Version: "v1", Last: filepath.Join(m.dir, "last-good.json"),
		Log: slog.New(slog.NewTextHandler(&m.log, nil)),
	}
	return m
}

// open is a start of the process; its end is the returned function.
func (m *machine) open() (*fromgit.Repository, func()) {
	m.t.Helper()
	trees, err := repository.Open(filepath.Join(m.dir, "trees"), 3)
	if err != nil {
		m.t.Fatal(err)
	}
	c := m.config
	c.Open = m.connect(trees)
	r, err := fromgit.New(c)
	if err != nil {
		m.t.Fatal(err)
	}
	var once sync.Once
	end := func() { once.Do(func() { _ = trees.Close() }) }
	m.t.Cleanup(end)
	return r, end
}

// connect opens remotes as the command does, over a store; without one, over a new one for each.
func (m *machine) connect(trees *repository.Store) fromgit.Open {
	return func(a fromgit.Access) (fromgit.Remote, error) {
		on := trees
		if on == nil {
			var err error
			if on, err = repository.Open(m.t.TempDir(), 2); err != nil {
				return nil, err
			}
			m.t.Cleanup(func() { _ = on.Close() })
		}
		r, err := (&repository.Opener{Store: on}).OpenGit(git.Config{URL: a.URL, Secret: a.Secret, Verify: a.Verify})
		r.Path, r.Trust = a.Path, a.Trust
		return counted{r, &m.trees}, err
	}
}

// counted counts trees.
type counted struct {
	fromgit.Remote
	trees *atomic.Int32
}

// Tree counts and passes on.
func (c counted) Tree(ctx context.Context, p source.Picked) (source.Tree, error) {
	c.trees.Add(1)
	return c.Remote.Tree(ctx, p)
}

// lines is a log that may be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to the log.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// take returns what was logged since the last time, without the time.
func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out strings.Builder
	for line := range strings.Lines(l.text.String()) {
		_, line, _ = strings.Cut(line, "level=")
		out.WriteString(line)
	}
	l.text.Reset()
	return out.String()
}
