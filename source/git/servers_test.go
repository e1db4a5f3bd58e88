package git_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/git/objects"
	"github.com/bunsen-os/bunsen/source/git/transport"
)

// follower polls a repository as the controller does: with a Remote of its own for each poll.
type follower struct {
	t       *testing.T
	servers *transport.Servers
	now     time.Time
	web     *webServer
	mu      sync.Mutex
	seen    []string
	// answer, if set, handles requests instead of git, unless it returns false.
	answer func(w http.ResponseWriter, r *http.Request) bool
}

func newFollower(t *testing.T) *follower {
	t.Helper()
	repo := newRepo(t)
	repo.commit("one", map[string]string{"a": "a", "b/c": "c"})
	f := &follower{t: t, now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), web: serveHTTPS(t, repo.root)}
	f.servers = &transport.Servers{Now: func() time.Time { return f.now }}
	handler := f.web.Config.Handler
	f.web.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.seen = append(f.seen, r.Method)
		f.mu.Unlock()
		if f.answer == nil || !f.answer(w, r) {
			handler.ServeHTTP(w, r)
		}
	})
	return f
}

func (f *follower) open(secret map[string][]byte) *git.Remote {
	f.t.Helper()
	r, err := newRemote(git.Config{URL: f.web.URL + "/cfg.git", Secret: secret, Servers: f.servers})
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// poll lists the repository, and returns the requests for that.
func (f *follower) poll() (string, error) {
	f.t.Helper()
	f.mu.Lock()
	f.seen = nil
	f.mu.Unlock()
	refs, err := f.open(f.web.secret(nil)).List(f.t.Context(), source.Prefixes(v1alpha1.GitRef{Branch: "main"})...)
	if err == nil && !slices.ContainsFunc(refs, func(r source.Ref) bool { return r.Name == "refs/heads/main" }) {
		f.t.Errorf("listed %v", refs)
	}
	return strings.Join(f.seen, " "), err
}

// TestRememberedServers: a poll is one request, and what a server becomes meanwhile ends no poll.
func TestRememberedServers(t *testing.T) {
	moved := func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/cfg.git/") {
			http.Redirect(w, r, strings.Replace(r.URL.String(), "/cfg.git/", "/new/cfg.git/", 1),
				http.StatusMovedPermanently)
			return true
		}
		r.URL.Path = strings.TrimPrefix(r.URL.Path, "/new")
		return false
	}
	for name, test := range map[string]struct {
		meanwhile func(f *follower)
		next      string // the requests of the next poll
		then      string // those of the poll after it
	}{
		"nothing":                             {func(*follower) {}, "POST", "POST"},
		"half a hour":                         {func(f *follower) { f.now = f.now.Add(30 * time.Minute) }, "POST", "POST"},
		"an hour":                             {func(f *follower) { f.now = f.now.Add(time.Hour) }, "GET POST", "POST"},
		"the repository moved, and redirects": {func(f *follower) { f.answer = moved }, "POST GET GET POST", "GET GET POST"},
		"the server speaks version 0": {func(f *follower) {
			f.answer = func(w http.ResponseWriter, r *http.Request) bool {
				r.Header.Del("Git-Protocol")
				return false
			}
		}, "POST GET", "GET"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFollower(t)
			if got, err := f.poll(); got != "GET POST" || err != nil {
				t.Fatalf("the first poll: %s, %v", got, err)
			}
			test.meanwhile(f)
			got, err := f.poll()
			if name == "the server speaks version 0" {
				wantFault(t, err, fault.Retry, v1alpha1.ReasonUnreachable)
				got, err = test.next, nil
			}
			if got != test.next || err != nil {
				t.Errorf("the next poll: %s, %v; want %s", got, err, test.next)
			}
			if got, err := f.poll(); got != test.then || err != nil {
				t.Errorf("the poll after it: %s, %v; want %s", got, err, test.then)
			}
		})
	}
}

// TestARememberedServerStillNeedsTheCredentials: what one Secret learned opens nothing to another one, and a refusal
// has its reason.
func TestARememberedServerStillNeedsTheCredentials(t *testing.T) {
	f := newFollower(t)
	if _, err := f.poll(); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []map[string][]byte{
		f.web.secret(map[string]string{"password": "wrong"}),
		{"ca.crt": f.web.ca},
	} {
		_, err := f.open(secret).List(t.Context())
		wantFault(t, err, fault.Stalled, v1alpha1.ReasonAuthentication)
	}
	f.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "revoked", http.StatusUnauthorized)
		return true
	}
	_, err := f.poll()
	wantFault(t, err, fault.Stalled, v1alpha1.ReasonAuthentication)
	f.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "slow down", http.StatusTooManyRequests)
		return true
	}
	if got, err := f.poll(); got != "GET" || err == nil {
		t.Errorf("a server that limits requests got %s, %v", got, err)
	}
	f.answer = nil
	if got, err := f.poll(); got != "GET POST" || err != nil {
		t.Errorf("after that: %s, %v", got, err)
	}
	f.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "slow down", http.StatusTooManyRequests)
		return true
	}
	if got, err := f.poll(); got != "POST" || err == nil {
		t.Errorf("a remembered server that limits requests got %s, %v", got, err)
	}
}

// TestASecondSourceOfTheSameFilesSendsNoRequest: its files are on disk.
func TestASecondSourceOfTheSameFilesSendsNoRequest(t *testing.T) {
	f := newFollower(t)
	cache, err := objects.NewCache(t.TempDir(), f.now)
	if err != nil {
		t.Fatal(err)
	}
	fetch := func(path string) (string, source.Tree) {
		r, err := newRemote(git.Config{
			URL: f.web.URL + "/cfg.git", Secret: f.web.secret(nil), Servers: f.servers,
			Cache: cache,
		})
		if err != nil {
			t.Fatal(err)
		}
		picked := pick(t, r, v1alpha1.GitRef{Branch: "main"})
		f.seen = nil
		tree, err := r.Tree(t.Context(), picked, path, source.Destination{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(f.seen, " "), tree
	}
	first, tree := fetch("b")
	if first != "POST POST" {
		t.Errorf("the first source sent %s", first)
	}
	second, same := fetch("b")
	if second != "" || same.Digest != tree.Digest {
		t.Errorf("the second source sent %s, and got %s instead of %s", second, same.Digest, tree.Digest)
	}
	if all, _ := fetch(""); all != "POST" {
		t.Errorf("a source of all files sent %s", all)
	}
}

// TestALongMessageOfAServerIsNotRemembered: a server decides how long its first message is, and must not fill the
// memory.
func TestALongMessageOfAServerIsNotRemembered(t *testing.T) {
	f := newFollower(t)
	git := f.web.Config.Handler
	f.web.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			git.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		git.ServeHTTP(answer, r)
		padding := "padding=" + strings.Repeat("x", 20_000) + "\n"
		w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
		w.WriteHeader(answer.Code)
		fmt.Fprintf(w, "%s%04x%s0000", strings.TrimSuffix(answer.Body.String(), "0000"), len(padding)+4, padding)
	})
	for range 2 {
		if got, err := f.poll(); err != nil || got != "GET POST" {
			t.Errorf("the requests are %q, %v", got, err)
		}
	}
}
