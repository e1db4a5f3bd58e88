package repository_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git/objects"
	"github.com/bunsen-os/bunsen/source/git/transport"
	"github.com/bunsen-os/bunsen/source/repository"
)

// host is a git host with one private repository, which counts the requests by their kind.
type host struct {
	*httptest.Server
	mu    sync.Mutex
	kinds map[string]int
}

func newHost(t *testing.T, folders int) *host {
	t.Helper()
	root := t.TempDir()
	git := func(stdin string, args ...string) string {
		c := exec.CommandContext(t.Context(), "git", args...)
		c.Dir, c.Stdin = root, strings.NewReader(stdin)
		c.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
		out, err := c.Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	commits := ""
	for n := range 2 {
		commits += fmt.Sprintf("commit refs/heads/main\ncommitter A <a@example.org> %d +0000\ndata 2\nx\n\n",
			1_700_000_000+n)
		for i := range folders {
			text := fmt.Sprintf("%d %d\n", n, i)
			commits += fmt.Sprintf("M 100644 inline clusters/%d/a\ndata %d\n%s\n", i, len(text), text)
		}
	}
	git("", "init", "-q", "--bare", "-b", "main", "cfg.git")
	git(commits, "-C", "cfg.git", "fast-import", "--quiet")
	backend := &cgi.Handler{
		Path: filepath.Join(git("", "--exec-path"), "git-http-backend"), Root: "/", Stderr: io.Discard,
		InheritEnv: []string{"PATH"},
		Env: []string{
			"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_CONFIG_COUNT=2",
			"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*", "GIT_CONFIG_KEY_1=uploadpack.allowFilter",
			"GIT_CONFIG_VALUE_1=true",
		},
	}
	h := &host{kinds: map[string]int{}}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		kind := r.Method
		for _, command := range []string{"ls-refs", "fetch"} {
			if bytes.Contains(body, []byte("command="+command)) {
				kind = command
			}
		}
		if user, password, _ := r.BasicAuth(); user != "me" || password != "pass-word" {
			kind = "refused"
		}
		h.mu.Lock()
		h.kinds[kind]++
		h.mu.Unlock()
		if kind == "refused" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

// take returns the counts, and forgets them.
func (h *host) take() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := fmt.Sprint(h.kinds)
	h.kinds = map[string]int{}
	return out
}

func (h *host) secret(password string) source.Secrets {
	return source.Secrets{Credentials: map[string][]byte{
		"username": []byte("me"), "password": []byte(password),
		"hosts": []byte(h.Listener.Addr().String()),
	}}
}

// TestSourcesOfOneRepository: twenty folders of one repository cost one listing, one request for the history, and each
// its own files. Who has other credentials gets none of that.
func TestSourcesOfOneRepository(t *testing.T) {
	const folders = 20
	h := newHost(t, folders)
	trees, err := repository.Open(filepath.Join(t.TempDir(), "store"), 5)
	if err != nil {
		t.Fatal(err)
	}
	defer trees.Close()
	fetched, err := objects.NewCache(trees.Objects(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	o := &repository.Opener{
		Now: time.Now, Store: trees, Objects: fetched, Servers: &transport.Servers{Now: time.Now},
	}
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	poll := func(i int, s source.Secrets) (repository.Repository, source.Listing, error) {
		repo, err := o.Open(v1alpha1.GitSourceSpec{
			URL: h.URL + "/cfg.git", Path: fmt.Sprintf("clusters/%d", i),
			Ref: v1alpha1.GitRef{Branch: "main"},
		}, s)
		if err != nil {
			t.Fatal(err)
		}
		found, err := repo.List(t.Context(), source.Poll{Source: fmt.Sprint(i), Now: now, Interval: time.Minute})
		return repo, found, err
	}
	var picked source.Picked
	for i := range folders {
		repo, found, err := poll(i, h.secret("pass-word"))
		if err != nil {
			t.Fatal(err)
		}
		if picked, err = source.Pick(found.Refs, v1alpha1.GitRef{Branch: "main"}); err != nil {
			t.Fatal(err)
		}
		if e, err := repo.Evidence(t.Context(), picked); err != nil || len(e.Commit) == 0 {
			t.Fatalf("the evidence: %v, %v", e, err)
		}
		if _, err := repo.Tree(t.Context(), picked); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := h.take(), fmt.Sprintf("map[GET:1 fetch:%d ls-refs:1]", 1+1+folders); got != want {
		t.Errorf("the requests were %s, want %s", got, want)
	}
	for name, other := range map[string]source.Secrets{"no Secret": {}, "another password": h.secret("a-guess")} {
		repo, found, err := poll(0, other)
		if fault.Of(err, "").Reason != v1alpha1.ReasonAuthentication || len(found.Refs) > 0 {
			t.Errorf("%s: the listing is %v, %v", name, found.Refs, err)
		}
		if e, err := repo.Evidence(t.Context(), picked); fault.Of(err, "").Reason != v1alpha1.ReasonAuthentication ||
			len(e.Commit) > 0 {
			t.Errorf("%s: the evidence is %v, %v", name, e, err)
		}
		if got := h.take(); got != "map[refused:2]" {
			t.Errorf("%s: the requests were %s", name, got)
		}
	}
	// A branch that does not exist: the error names those that do.
	repo, err := o.Open(v1alpha1.GitSourceSpec{URL: h.URL + "/cfg.git", Ref: v1alpha1.GitRef{Branch: "nope"}},
		h.secret("pass-word"))
	if err != nil {
		t.Fatal(err)
	}
	found, err := repo.List(t.Context(), source.Poll{
		Source: "nope", Now: now,
		Interval: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := source.Pick(found.Refs, v1alpha1.GitRef{Branch: "nope"}); err == nil ||
		!strings.Contains(err.Error(), "main") {
		t.Errorf("got the error %v", err)
	}
}
