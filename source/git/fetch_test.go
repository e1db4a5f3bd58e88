package git_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/git/objects"
	"github.com/bunsen-os/bunsen/source/repository"
)

// meter counts what a server sends, and can break its answers.
type meter struct {
	mu       sync.Mutex
	bytes    int
	requests []string
	limit    int // of all bytes; 0: none
}

func (m *meter) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bytes, m.requests, m.limit = 0, nil, 0
}

// wants returns how many objects all requests together asked for, and whether one asked for files by name.
func (m *meter) wants() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.requests, "\n")
}

type meteredWriter struct {
	http.ResponseWriter
	m *meter
}

func (w meteredWriter) Write(b []byte) (int, error) {
	w.m.mu.Lock()
	w.m.bytes += len(b)
	over := w.m.limit > 0 && w.m.bytes > w.m.limit
	w.m.mu.Unlock()
	if over {
		panic(http.ErrAbortHandler) // the connection breaks
	}
	return w.ResponseWriter.Write(b)
}

// metered serves repositories over https and counts.
func metered(t *testing.T, root string) (*webServer, *meter) {
	t.Helper()
	s, m := serveHTTPS(t, root), &meter{}
	handler := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		m.mu.Lock()
		m.requests = append(m.requests, string(body))
		m.mu.Unlock()
		handler.ServeHTTP(meteredWriter{w, m}, r)
	})
	return s, m
}

// cached is a remote that keeps objects in a directory.
func cached(t *testing.T, dir string, c git.Config) *git.Remote {
	t.Helper()
	cache, err := objects.NewCache(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	c.Cache = cache
	r, err := newRemote(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestAFetchBringsOnlyWhatIsNewAndBelowThePath reads one history in steps, and compares every tree with what git itself
// checks out.
func TestAFetchBringsOnlyWhatIsNewAndBelowThePath(t *testing.T) {
	r := newRepo(t)
	content := map[string]string{"elsewhere/large": noise(3 << 20)}
	for i := range 300 {
		content[fmt.Sprintf("prod/d%02d/f%03d", i%20, i)] = fmt.Sprintf("file %d\n%s", i, noise(200))
	}
	one := r.commit("one", content)
	web, m := metered(t, r.root)
	dir := t.TempDir()
	fresh := func() *git.Remote {
		return cached(t, dir, git.Config{URL: web.URL + "/cfg.git", Secret: web.secret(nil), PackBytes: 1 << 20})
	}
	tree := func(hash, path string) source.Tree {
		t.Helper()
		m.reset()
		got, err := fresh().Tree(t.Context(), source.Picked{Hash: hash, Ref: "main"}, path,
			source.Destination{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		whole := t.TempDir()
		r.git(r.work, "--work-tree="+whole, "checkout", "-q", hash, "--", path)
		r.git(r.work, "reset", "-q") // the index alone: the work tree is the other one
		if diff := cmp.Diff(files(t, filepath.Join(whole, path)), files(t, got.Root)); diff != "" {
			t.Fatalf("-git +got\n%s", diff)
		}
		return got
	}
	tree(one, "prod")
	if m.bytes > 200<<10 {
		t.Errorf("the first fetch of 300 small files took %d bytes", m.bytes)
	}
	two := r.commit("two", map[string]string{"prod/d03/f003": "changed", "elsewhere/other": noise(2 << 20)})
	tree(two, "prod")
	if m.bytes > 5<<10 {
		t.Errorf("a changed file took %d bytes", m.bytes)
	}
	tree(one, "prod")
	if m.bytes > 1<<10 {
		t.Errorf("a commit that is on disk took %d bytes", m.bytes)
	}
	three := r.commit("three", map[string]string{"prod/new": "new"})
	tree(three, "prod/d03")
	tree(three, "prod")

	t.Run("objects that were damaged on disk are fetched again", func(t *testing.T) {
		packs, err := filepath.Glob(filepath.Join(dir, "*", "objects", "pack", "*.pack"))
		if err != nil || len(packs) == 0 {
			t.Fatal(packs, err)
		}
		for _, p := range packs {
			data, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			for i := 40; i < len(data)-30; i += 7 {
				data[i] ^= 0x55
			}
			if err := os.Chmod(p, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		tree(three, "prod")
		tree(r.commit("four", map[string]string{"prod/f": "4"}), "prod")
	})
	t.Run("a history that the server forgot costs one whole fetch", func(t *testing.T) {
		r.git(r.work, "checkout", "-q", "--orphan", "again")
		hash := r.commit("a new history", map[string]string{"prod/new": "newer"})
		r.git(r.bare, "update-ref", "refs/heads/main", hash)
		r.git(r.bare, "reflog", "expire", "--expire=now", "--all")
		r.git(r.bare, "gc", "-q", "--prune=now")
		tree(hash, "prod")
	})
}

// TestAFetchContinuesWhereItEnded: a slow connection makes progress although no fetch ends in time.
func TestAFetchContinuesWhereItEnded(t *testing.T) {
	r := newRepo(t)
	content := map[string]string{}
	for i := range 2500 {
		content[fmt.Sprintf("prod/d%02d/f%04d", i%50, i)] = fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, i)))
	}
	hash := r.commit("one", content)
	web, m := metered(t, r.root)
	config := git.Config{URL: web.URL + "/cfg.git", Secret: web.secret(nil)}
	if _, err := cached(t, t.TempDir(), config).Tree(t.Context(), source.Picked{Hash: hash, Ref: "main"}, "prod",
		source.Destination{Dir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	whole := m.bytes
	remote := cached(t, t.TempDir(), config)
	var last int
	for tries := 1; ; tries++ {
		m.reset()
		m.limit = whole - 5<<10
		tree, err := remote.Tree(t.Context(), source.Picked{Hash: hash, Ref: "main"}, "prod",
			source.Destination{Dir: t.TempDir()})
		if err == nil {
			if len(files(t, tree.Root)) != len(content) || tries == 1 {
				t.Errorf("after %d tries there are %d files", tries, len(files(t, tree.Root)))
			}
			return
		}
		wantFault(t, err, fault.Retry, v1alpha1.ReasonUnreachable)
		wants := strings.Count(m.wants(), "want ")
		if tries > 5 || wants == last {
			t.Fatalf("try %d asked for %d objects, as many as the one before: %v", tries, wants, err)
		}
		last = wants
	}
}

// TestNoFileIsFetchedBeforeTheSignatureIsRight asks a server that records each request.
func TestNoFileIsFetchedBeforeTheSignatureIsRight(t *testing.T) {
	r := newRepo(t)
	one := r.commit("one", map[string]string{"prod/a": "a"})
	two := r.commit("two", map[string]string{"prod/a": "b"})
	three := r.commit("three", map[string]string{"prod/a": "c"})
	web, m := metered(t, r.root)
	refused := fault.NewStalled(v1alpha1.ReasonSignature, errors.New("nobody signed this"))
	var seen source.Evidence
	remote := cached(t, t.TempDir(), git.Config{
		URL: web.URL + "/cfg.git", Secret: web.secret(nil),
		Verify: func(e source.Evidence) (string, error) {
			seen = e
			return "", refused
		},
	})
	_, err := remote.Tree(t.Context(), source.Picked{Hash: three, Ref: "main", Applied: one}, "prod",
		source.Destination{Dir: t.TempDir()})
	wantFault(t, err, fault.Stalled, v1alpha1.ReasonSignature, "nobody signed this")
	if len(seen.Added) != 2 || seen.Descent != source.Descends || seen.Applied != one ||
		!bytes.Contains(seen.Added[1], []byte("two")) {
		t.Errorf("the check was asked about %+v", seen)
	}
	text := m.wants()
	if !strings.Contains(text, "filter tree:0") || strings.Count(text, "command=fetch") != 1 {
		t.Errorf("the requests were %q", text)
	}
	_ = two
}

// TestTheObjectOfATagIsEvidence: the signature of a release is on its tag.
func TestTheObjectOfATagIsEvidence(t *testing.T) {
	r := newRepo(t)
	r.commit("one", map[string]string{"a": "a"})
	r.git(r.work, "tag", "-a", "v1.2.3", "-m", "release")
	r.git(r.work, "push", "-q", "origin", "v1.2.3")
	web, old := serveHTTPS(t, r.root), serveVersion0(t, r.root)
	for name, remote := range map[string]*git.Remote{
		"path":      remote(t, r.bare, nil),
		"https":     remote(t, web.URL+"/cfg.git", web.secret(nil)),
		"version 0": remote(t, old.URL+"/cfg.git", old.secret(nil)),
	} {
		for _, want := range []v1alpha1.GitRef{{Tag: "v1.2.3"}, {SemVer: "~1.2"}} {
			e, err := remote.Evidence(t.Context(), pick(t, remote, want))
			if err != nil || !bytes.Contains(e.Tag, []byte("tag v1.2.3\n")) || e.Ref != "refs/tags/v1.2.3" {
				t.Errorf("%s: %q, %v", name, e.Tag, err)
			}
		}
	}
}

// TestAPollAsksForOneRefOfMany: a monorepo has tens of thousands of refs.
func TestAPollAsksForOneRefOfMany(t *testing.T) {
	r := newRepo(t)
	hash := r.commit("one", map[string]string{"a": "a"})
	var refs strings.Builder
	refs.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	for i := range 60_000 {
		fmt.Fprintf(&refs, "%s refs/heads/topic-%05d\n", hash, i)
	}
	if err := os.WriteFile(filepath.Join(r.bare, "packed-refs"), []byte(refs.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	web, m := metered(t, r.root)
	remote := remote(t, web.URL+"/cfg.git", web.secret(nil))
	for _, want := range []v1alpha1.GitRef{
		{Branch: "main"},
		{},
		{Branch: "topic-00042"},
		{Name: "refs/heads/topic-59999"},
		{Commit: hash},
	} {
		m.reset()
		listed, err := repository.Repository{Remote: remote, Ref: &want}.List(t.Context(), source.Poll{})
		if err != nil {
			t.Fatal(err)
		}
		picked, err := source.Pick(listed.Refs, want)
		if err != nil || picked.Hash != hash || m.bytes > 4<<10 {
			t.Errorf("%+v: %+v, %v, %d bytes", want, picked, err, m.bytes)
		}
	}
	nope := v1alpha1.GitRef{Branch: "nope"}
	refused, err := repository.Repository{Remote: remote, Ref: &nope}.List(t.Context(), source.Poll{})
	if _, pickErr := source.Pick(refused.Refs, nope); err != nil ||
		!strings.Contains(fmt.Sprint(pickErr), "the repository has: main, topic-00000") {
		t.Errorf("a missing branch: %v, %v", err, pickErr)
	}
}

// TestAServerThatFiltersNothingIsReadWhole: correct, only slower.
func TestAServerThatFiltersNothingIsReadWhole(t *testing.T) {
	r := newRepo(t)
	one := r.commit("one", map[string]string{"prod/a": "a", "b": "b"})
	two := r.commit("two", map[string]string{"prod/a": "b", "b": "b"})
	web, old := serveHTTPS(t, r.root), serveVersion0(t, r.root)
	plain := serveWithoutFilter(t, r.root)
	refusing := serve(t, r.root, "GIT_CONFIG_COUNT=3", "GIT_CONFIG_KEY_2=uploadpackfilter.allow",
		"GIT_CONFIG_VALUE_2=false")
	for name, server := range map[string]*webServer{
		"filters": web, "no filters": plain, "refused filters": refusing,
		"version 0": old,
	} {
		remote := cached(t, t.TempDir(), git.Config{URL: server.URL + "/cfg.git", Secret: server.secret(nil)})
		for _, p := range []source.Picked{{Hash: one}, {Hash: two, Applied: one}, {Hash: one, Applied: two}} {
			p.Ref, p.FullName = "main", "refs/heads/main"
			tree, err := remote.Tree(t.Context(), p, "prod", source.Destination{Dir: t.TempDir()})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := files(t, tree.Root)["a"]; got != map[string]string{one: "a", two: "b"}[p.Hash] {
				t.Errorf("%s: got %q", name, got)
			}
			e, err := remote.Evidence(t.Context(), p)
			want := map[string]source.Descent{one: source.Rewritten, two: source.Descends}[p.Hash]
			if p.Applied == "" || name == "version 0" && p.Hash == one {
				want = source.Unknown // nothing to compare with; or no ref points at the commit
			}
			if err != nil || e.Descent != want {
				t.Errorf("%s: %v, %v, want %v", name, e.Descent, err, want)
			}
		}
	}
}

// TestAHistoryThatIsTooLargeIsUnknown: the commit itself is still read, over each transport.
func TestAHistoryThatIsTooLargeIsUnknown(t *testing.T) {
	r := newRepo(t)
	one := r.commit("one", map[string]string{"a": "1"})
	for i := range 5 {
		r.commit(fmt.Sprintf("more %d %x", i, noise(2000)), nil)
	}
	last := r.commit("last", nil)
	defer git.LimitCommits(objects.Limits{Bytes: 1000, Unpacked: 4000, Objects: 100})()
	web, shell, old := serveHTTPS(t, r.root), serveSSH(t, r.root, false), serveVersion0(t, r.root)
	for name, remote := range map[string]*git.Remote{
		"https":     remote(t, web.URL+"/cfg.git", web.secret(nil)),
		"ssh":       remote(t, "ssh://git@"+shell.addr+"/cfg.git", shell.secret(nil)),
		"version 0": remote(t, old.URL+"/cfg.git", old.secret(nil)),
	} {
		e, err := remote.Evidence(t.Context(), source.Picked{
			Hash: last, Ref: "main", FullName: "refs/heads/main",
			Applied: one,
		})
		if err != nil || e.Descent != source.Unknown || len(e.Added) != 1 || !bytes.Contains(e.Commit, []byte("last")) {
			t.Errorf("%s: %v with %d commits, %v", name, e.Descent, len(e.Added), err)
		}
	}
}
