package git_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
)

const (
	secretOfAnswer = "text-of-the-answer-1f3a"
	storageToken   = "storage-token-88aa"
)

// lfsServer is git's own server with the batch API of Git LFS, and a storage at another host.
type lfsServer struct {
	t       *testing.T
	repo    *repo
	web     *webServer
	storage *httptest.Server
	mu      sync.Mutex
	objects map[string]string
	batches []int // objects in each request
	gets    []string
	// elsewhere: the addresses of objects are at the storage, https://example.com.
	elsewhere bool
	// batch and object answer in place of the server, unless they are nil.
	batch, object http.HandlerFunc
	// change changes the answer of the batch API before it is sent.
	change func(answer map[string]any)
}

func newLFS(t *testing.T) *lfsServer {
	t.Helper()
	s := &lfsServer{t: t, repo: newRepo(t), objects: map[string]string{}}
	s.web = serveHTTPS(t, s.repo.root)
	withGit := s.web.Config.Handler
	s.web.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/cfg.git/info/lfs/objects/batch":
			s.serveBatch(w, r)
		case strings.HasPrefix(r.URL.Path, "/objects/"):
			s.serveObject(w, r)
		default:
			withGit.ServeHTTP(w, r)
		}
	})
	s.storage = httptest.NewUnstartedServer(http.HandlerFunc(s.serveObject))
	s.storage.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.storage.StartTLS()
	t.Cleanup(s.storage.Close)
	return s
}

// serveBatch answers as the specification of the batch API has it.
func (s *lfsServer) serveBatch(w http.ResponseWriter, r *http.Request) {
	if s.batch != nil {
		s.batch(w, r)
		return
	}
	u, p, _ := r.BasicAuth()
	if u != user || p != password {
		http.Error(w, `{"message":"`+secretOfAnswer+`"}`, http.StatusUnauthorized)
		return
	}
	var asked struct {
		Operation string
		Transfers []string
		Objects   []struct {
			OID  string
			Size int64
		}
	}
	if json.NewDecoder(r.Body).Decode(&asked) != nil || asked.Operation != "download" || r.Method != http.MethodPost ||
		r.Header.Get("Accept") != "application/vnd.git-lfs+json" ||
		r.Header.Get("Content-Type") != "application/vnd.git-lfs+json" {
		http.Error(w, `{"message":"no batch request"}`, http.StatusUnprocessableEntity)
		return
	}
	s.mu.Lock()
	s.batches = append(s.batches, len(asked.Objects))
	s.mu.Unlock()
	objects := []any{}
	for _, o := range asked.Objects {
		if _, ok := s.objects[o.OID]; !ok {
			objects = append(objects, map[string]any{"oid": o.OID, "size": o.Size, "error": map[string]any{
				"code":    404,
				"message": secretOfAnswer,
			}})
			continue
		}
		download := map[string]any{"href": s.web.URL + "/objects/" + o.OID}
		if s.elsewhere {
			download = map[string]any{
				"href":   "https://example.com/objects/" + o.OID + "?signature=" + secretOfAnswer,
				"header": map[string]any{"X-Storage": storageToken}, "expires_in": 60,
			}
		}
		objects = append(objects, map[string]any{
			"oid": o.OID, "size": o.Size,
			"actions": map[string]any{"download": download},
		})
	}
	answer := map[string]any{"transfer": "basic", "objects": objects, "hash_algo": "sha256"}
	if s.change != nil {
		s.change(answer)
	}
	w.Header().Set("Content-Type", "application/vnd.git-lfs+json")
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *lfsServer) serveObject(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.gets = append(s.gets, fmt.Sprintf("%s auth=%t storage=%t", r.Host, r.Header.Get("Authorization") != "",
		r.Header.Get("X-Storage") == storageToken))
	s.mu.Unlock()
	if s.object != nil {
		s.object(w, r)
		return
	}
	_, _ = io.WriteString(w, s.objects[filepath.Base(r.URL.Path)])
}

// pointer stores a content on the server, and returns its pointer.
func (s *lfsServer) pointer(content string) string {
	oid := fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
	s.objects[oid] = content
	return pointerTo(oid, len(content))
}

func pointerTo(oid string, size int) string {
	return fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", oid, size)
}

// dial connects to the storage at example.com, as a proxy does that resolves names.
func (s *lfsServer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if strings.HasSuffix(addr, ".invalid:443") {
		return nil, fmt.Errorf("dialing %s", addr)
	}
	if addr == "example.com:443" {
		addr = s.storage.Listener.Addr().String()
	}
	return (&net.Dialer{}).DialContext(ctx, network, addr)
}

func (s *lfsServer) tree(limits source.Limits, earlier string) (source.Tree, error) {
	s.t.Helper()
	r, err := git.New(git.Config{
		URL: s.web.URL + "/cfg.git", Secret: s.web.secret(nil), LFS: true, Connect: s.dial,
		Limits: limits,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return r.Tree(s.t.Context(), pick(s.t, r, v1alpha1.GitRef{}), "", source.Destination{
		Dir:     s.t.TempDir(),
		Earlier: earlier,
	})
}

// TestContentsOfLFS: a tree has the contents that pointers name, and the digest of a commit with the contents
// themselves.
func TestContentsOfLFS(t *testing.T) {
	s := newLFS(t)
	want := map[string]string{
		"plain": "plain", "a/b/big": noise(70_000), "a/tool!": "the tool", "copy": noise(70_000),
		"empty": "", ".lfsconfig": "[lfs]\n\turl = https://elsewhere.example.org/lfs\n",
	}
	for i := range 150 {
		want[fmt.Sprintf("many/%d", i)] = fmt.Sprint("content ", i)
	}
	s.repo.commit("whole", want)
	whole, err := remote(t, s.web.URL+"/cfg.git", s.web.secret(nil)).Tree(t.Context(),
		source.Picked{Hash: s.repo.git(s.repo.work, "rev-parse", "HEAD")}, "", source.Destination{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	pointers := map[string]string{}
	for name, content := range want {
		pointers[name] = s.pointer(content)
	}
	pointers["plain"], pointers[".lfsconfig"] = want["plain"], want[".lfsconfig"]
	s.repo.commit("pointers", pointers)
	for name, elsewhere := range map[string]bool{"https://example.com": true, s.web.URL: false} {
		s.elsewhere, s.batches, s.gets = elsewhere, nil, nil
		got, err := s.tree(source.Limits{}, "")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(files(t, whole.Root), files(t, got.Root)); diff != "" || got.Digest != whole.Digest ||
			len(got.Refused) > 0 {
			t.Errorf("%s: digest %s, want %s, refused %v; the files: -want +got\n%s", name, got.Digest, whole.Digest,
				got.Refused, diff)
		}
		if diff := cmp.Diff([]int{100, 52}, s.batches); diff != "" {
			t.Errorf("%s: objects in each request: -want +got\n%s", name, diff)
		}
		seen := map[string]int{}
		for _, get := range s.gets {
			seen[get]++
		}
		one := fmt.Sprintf("%s auth=%t storage=%t", strings.TrimPrefix(name, "https://"), !elsewhere, elsewhere)
		if diff := cmp.Diff(map[string]int{one: 152}, seen); diff != "" {
			t.Errorf("%s: requests: -want +got\n%s", name, diff)
		}
		// Without LFS, the same commit has no content of them.
		refused, err := remote(t, s.web.URL+"/cfg.git", s.web.secret(nil)).Tree(t.Context(),
			source.Picked{Hash: got.Commit.Hash}, "", source.Destination{Dir: t.TempDir()})
		if err != nil || len(refused.Refused) != len(want)-2 {
			t.Errorf("without LFS: %v, %d refused", err, len(refused.Refused))
		}
	}
}

// TestEarlierContentsOfLFS: a content that the earlier tree has is linked without a request, and only if it is the one
// of the pointer.
func TestEarlierContentsOfLFS(t *testing.T) {
	s := newLFS(t)
	s.repo.commit("one", map[string]string{
		"a": s.pointer("content of a"), "d/b": s.pointer("content of b"),
		"c": s.pointer("content of c"),
	})
	earlier, err := s.tree(source.Limits{}, "")
	if err != nil {
		t.Fatal(err)
	}
	s.repo.commit("two", map[string]string{"c": s.pointer("CONTENT of c")})
	if err := os.WriteFile(filepath.Join(earlier.Root, "a"), []byte("CONTENT of a"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.batches, s.gets = nil, nil
	got, err := s.tree(source.Limits{}, earlier.Root)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a": "content of a", "c": "CONTENT of c", "d/b": "content of b"},
		files(t, got.Root)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{"d/b"}, linkedFiles(t, got.Root)); diff != "" || len(s.gets) != 2 {
		t.Errorf("%d requests; linked -want +got\n%s", len(s.gets), diff)
	}
}

// TestFilesThatOnlyLookLikePointers: a pointer has one form, and its content is never read as a pointer again.
func TestFilesThatOnlyLookLikePointers(t *testing.T) {
	s := newLFS(t)
	good := s.pointer("content")
	oid := strings.Repeat("0", 64)
	s.repo.commit("one", map[string]string{
		"good": good, "crlf": strings.ReplaceAll(good, "\n", "\r\n"), "version": strings.Replace(good, "v1", "v2", 1),
		"extension": strings.Replace(good, "oid", "ext-0-foo sha256:"+oid+"\noid", 1), "more": good + "x y\n",
		"size":  strings.Replace(good, "size 7", "size -7", 1),
		"huge":  strings.Replace(good, "size 7", "size 99999999999999999999", 1),
		"upper": strings.Replace(pointerTo(strings.Repeat("A", 64), 3), "a", "A", 1),
		"empty": pointerTo(oid, 0), "twice": s.pointer(good), "long": good + strings.Repeat("x", 2000),
		"path": pointerTo("../../../../etc/passwd", 1),
	})
	got, err := s.tree(source.Limits{}, "")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"good": "content", "long": good + strings.Repeat("x", 2000)},
		files(t, got.Root)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if len(got.Refused) != 10 {
		t.Errorf("refused: %v", got.Refused)
	}
}

// TestLFSNeedsHTTPS: no other address may have Git LFS.
func TestLFSNeedsHTTPS(t *testing.T) {
	for _, url := range []string{
		"ssh://git@host/cfg", "git@host:cfg", "http://host/cfg", "/srv/cfg.git",
		"/srv/cfg.bundle",
	} {
		_, err := git.New(git.Config{URL: url, LFS: true, Secret: map[string][]byte{}})
		wantFault(t, err, fault.Stalled, v1alpha1.ReasonInvalidSpec, "https only", "remove LFS from spec.include")
	}
}
