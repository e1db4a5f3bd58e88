package copies

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/contentstore"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
)

// cluster is an API server with files of the content store.
type cluster struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string]any // by resource and name
	reads   map[string]int
	down    bool
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{objects: map[string]any{}, reads: map[string]int{}}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := strings.TrimPrefix(r.URL.Path, "/apis/bunsen.dev/v1alpha1/")
	c.reads[strings.Split(key, "/")[0]]++
	w.Header().Set("Content-Type", "application/json")
	object, ok := c.objects[key]
	switch {
	case c.down:
		w.WriteHeader(http.StatusInternalServerError)
		return
	case !ok:
		w.WriteHeader(http.StatusNotFound)
		object = metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure",
			Reason: metav1.StatusReasonNotFound, Code: 404,
		}
	}
	_ = json.NewEncoder(w).Encode(object)
}

// add stores a file, and returns its hash and the names of its chunks.
func (c *cluster) add(t *testing.T, data []byte) (hash string, chunks []string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for part := range chunked(data) {
		chunk, err := contentstore.NewChunk(part)
		if err != nil {
			t.Fatal(err)
		}
		chunk.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ContentChunk"}
		c.objects["contentchunks/"+chunk.Name] = chunk
		chunks = append(chunks, chunk.Name)
	}
	is := contentstore.NewContent(hashed(data), int64(len(data)), chunks)
	is.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Content"}
	c.objects["contents/"+is.Name] = is
	return is.Name, chunks
}

func chunked(data []byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(data) > 0 {
			n := min(len(data), contentstore.ChunkSize)
			if !yield(data[:n]) {
				return
			}
			data = data[n:]
		}
	}
}

func hashed(data []byte) string {
	sum := sha512.Sum512(data)
	return "sha512-" + hex.EncodeToString(sum[:])
}

// noise returns bytes that do not compress.
func noise(seed uint64, n int) []byte {
	out := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed)})
	_, _ = r.Read(out)
	return out
}

// server is a server of the cluster, with a clock.
type server struct {
	*Copies
	log bytes.Buffer
	now time.Time
}

func (c *cluster) server(t *testing.T, dir string, most int64) *server {
	t.Helper()
	s := &server{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	source, err := FromAPI(&rest.Config{Host: c.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := New(Options{
		Stored: source, Dir: dir, Max: most, Log: slog.New(slog.NewTextHandler(&s.log, nil)),
		Now: func() time.Time { return s.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Copies = all
	return s
}

// reads fails unless the server serves the file.
func (s *server) serves(t *testing.T, data []byte) {
	t.Helper()
	f, size, err := s.Open(t.Context(), hashed(data))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := io.ReadAll(f)
	if err != nil || size != int64(len(data)) || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes of %d, %v", len(got), size, err)
	}
}

// refuses fails unless the server refuses a file with a text.
func (s *server) refuses(t *testing.T, hash, want string) {
	t.Helper()
	f, _, err := s.Open(t.Context(), hash)
	if err == nil {
		f.Close()
	}
	if !errors.Is(err, mcs.ErrContentUnavailable) || !strings.Contains(err.Error(), want) {
		t.Errorf("it says %v, want %q", err, want)
	}
}

func TestAFileIsReadOnceAndSurvivesARestart(t *testing.T) {
	c, dir := newCluster(t), t.TempDir()
	large, small := append(noise(1, 2*contentstore.ChunkSize), bytes.Repeat([]byte("compresses "), 50_000)...),
		[]byte("x")
	for _, data := range [][]byte{large, small} {
		c.add(t, data)
	}
	s := c.server(t, dir, 1<<30)
	for range 3 {
		s.serves(t, large)
		s.serves(t, small)
	}
	if c.reads["contents"] != 2 || c.reads["contentchunks"] != 5 {
		t.Errorf("it read %v", c.reads)
	}
	c.down = true
	s = c.server(t, dir, 1<<30)
	s.serves(t, large)
	if info, err := os.Stat(filepath.Join(dir, hashed(large))); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy is %v, %v", info, err)
	}
}

// TestAWrongObjectIsNeverServed has what an error of the controller, a user or an attacker can leave on the cluster.
func TestAWrongObjectIsNeverServed(t *testing.T) {
	data := noise(2, 3*contentstore.ChunkSize+5)
	other := noise(3, contentstore.ChunkSize)
	for says, c := range map[string]struct {
		damage func(c *cluster, hash string, chunks []string)
		want   string
	}{
		"no Content": {func(c *cluster, hash string, _ []string) { delete(c.objects, "contents/"+hash) }, "it does not exist"},
		"no chunk":   {func(c *cluster, _ string, chunks []string) { delete(c.objects, "contentchunks/"+chunks[2]) }, "it does not exist"},
		"other bytes": {func(c *cluster, _ string, chunks []string) {
			c.chunk(chunks[1]).Spec = v1alpha1.ContentChunkSpec{Data: other}
		}, "does not have the hash"},
		"another object": {func(c *cluster, _ string, chunks []string) {
			c.objects["contentchunks/"+chunks[1]] = c.chunk(chunks[0])
		}, "answers with"},
		"no gzip":              {func(c *cluster, _ string, chunks []string) { c.chunk(chunks[1]).Spec.Gzip = true }, "gzip"},
		"the same chunk twice": {func(c *cluster, hash string, chunks []string) { c.content(hash).Spec.Chunks[1] = chunks[0] }, "its chunks do not have the hash"},
		"the chunks in another order": {func(c *cluster, hash string, chunks []string) {
			is := c.content(hash)
			is.Spec.Chunks[0], is.Spec.Chunks[3] = is.Spec.Chunks[3], is.Spec.Chunks[0]
		}, "has 5 bytes instead of 524288"},
		"a wrong size":   {func(c *cluster, hash string, _ []string) { c.content(hash).Spec.Size++ }, "has 5 bytes instead of 6"},
		"a huge size":    {func(c *cluster, hash string, _ []string) { c.content(hash).Spec.Size = 1 << 62 }, "cannot have"},
		"too few chunks": {func(c *cluster, hash string, _ []string) { c.content(hash).Spec.Chunks = nil }, "cannot have"},
		"a bomb": {func(c *cluster, _ string, chunks []string) {
			bomb, _ := contentstore.NewChunk(make([]byte, 100<<20))
			c.chunk(chunks[1]).Spec = bomb.Spec
		}, "more than 524288 bytes"},
		"an API server that is down": {func(c *cluster, _ string, _ []string) { c.down = true }, ""},
	} {
		t.Run(says, func(t *testing.T) {
			api, dir := newCluster(t), t.TempDir()
			hash, chunks := api.add(t, data)
			whole, err := json.Marshal(api.objects)
			if err != nil {
				t.Fatal(err)
			}
			c.damage(api, hash, chunks)
			s := api.server(t, dir, 1<<30)
			s.refuses(t, hash, c.want)
			if !strings.Contains(s.log.String(), hash) {
				t.Errorf("the log says %s", s.log.String())
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("it left %v", left)
			}
			reads := api.reads["contents"]
			s.refuses(t, hash, c.want)
			if api.reads["contents"] != reads {
				t.Error("it reads again at once")
			}
			api.mu.Lock()
			var objects map[string]json.RawMessage
			if err := json.Unmarshal(whole, &objects); err != nil {
				t.Fatal(err)
			}
			api.down = false
			for key, raw := range objects {
				api.objects[key] = raw
			}
			api.mu.Unlock()
			s.now = s.now.Add(retryAfter)
			s.serves(t, data)
		})
	}
}

func (c *cluster) chunk(name string) *v1alpha1.ContentChunk {
	return c.objects["contentchunks/"+name].(*v1alpha1.ContentChunk)
}

func (c *cluster) content(hash string) *v1alpha1.Content {
	return c.objects["contents/"+hash].(*v1alpha1.Content)
}

func TestDamageOnTheDiskIsNotServedAfterARestart(t *testing.T) {
	data := noise(4, contentstore.ChunkSize+1)
	for says, damage := range map[string]func(file string) error{
		"cut":     func(file string) error { return os.Truncate(file, 100) },
		"changed": func(file string) error { return os.WriteFile(file, noise(5, len(data)), 0o600) },
		"removed": os.Remove,
	} {
		t.Run(says, func(t *testing.T) {
			c, dir := newCluster(t), t.TempDir()
			c.add(t, data)
			s := c.server(t, dir, 1<<30)
			s.serves(t, data)
			if err := damage(filepath.Join(dir, hashed(data))); err != nil {
				t.Fatal(err)
			}
			if says != "changed" { // a running server notices the size
				s.serves(t, data)
			}
			if err := errors.Join(damage(filepath.Join(dir, hashed(data))),
				os.WriteFile(filepath.Join(dir, tempPrefix+"1"), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			s = c.server(t, dir, 1<<30)
			s.serves(t, data)
			if left, _ := os.ReadDir(dir); len(left) != 1 {
				t.Errorf("there are %v", left)
			}
		})
	}
}

func TestTheCopiesHaveABoundedSize(t *testing.T) {
	c, dir := newCluster(t), t.TempDir()
	var files [][]byte
	for i := range 4 {
		files = append(files, noise(uint64(10+i), contentstore.ChunkSize))
		c.add(t, files[i])
	}
	s := c.server(t, dir, 2*contentstore.ChunkSize)
	open, _, err := s.Open(t.Context(), hashed(files[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	for i := range files {
		s.now = s.now.Add(time.Second)
		s.serves(t, files[i])
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Fatalf("there are %v, %v", left, err)
	}
	for _, name := range []string{hashed(files[2]), hashed(files[3])} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if got, err := io.ReadAll(open); err != nil || !bytes.Equal(got, files[0]) {
		t.Errorf("a request that reads a removed copy: %d bytes, %v", len(got), err)
	}
	large := noise(20, 3*contentstore.ChunkSize)
	hash, _ := c.add(t, large)
	s.refuses(t, hash, "set a larger --content-cache")
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("a file that is too large removed others: %v", left)
	}
}

func TestManyRequestsReadAFileOnce(t *testing.T) {
	c := newCluster(t)
	data := noise(6, 20*contentstore.ChunkSize)
	c.add(t, data)
	s := c.server(t, t.TempDir(), 1<<30)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%5 == 0 {
				cancel() // a client that left does not stop the others
			}
			f, _, err := s.Open(ctx, hashed(data))
			if err == nil {
				f.Close()
			} else if i%5 != 0 {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if c.reads["contents"] != 1 || c.reads["contentchunks"] != 20 {
		t.Errorf("it read %v", c.reads)
	}
}

func TestOnlyHashesAreNamesOfFiles(t *testing.T) {
	s := newCluster(t).server(t, t.TempDir(), 1<<30)
	for _, name := range []string{"", "..", "../../etc/passwd", "sha512-1", fmt.Sprintf("sha512-%0128X", 10)} {
		if f, _, err := s.Open(t.Context(), name); err == nil {
			f.Close()
			t.Errorf("%q is a file", name)
		}
	}
}

func TestCopiesThatNoConfigNamesAreRemovedAfterTheirGrants(t *testing.T) {
	c, dir := newCluster(t), t.TempDir()
	old, young, named := noise(30, 10), noise(31, 10), noise(32, 10)
	s := c.server(t, dir, 1<<30)
	for _, data := range [][]byte{old, young, named} {
		c.add(t, data)
		s.serves(t, data)
		if err := os.Chtimes(filepath.Join(dir, hashed(data)), s.now, s.now); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(dir, "other")
	if err := errors.Join(os.WriteFile(other, nil, 0o600), os.Chtimes(other, s.now, s.now)); err != nil {
		t.Fatal(err)
	}
	remains := func(want ...string) {
		t.Helper()
		if err := s.RemoveUnused(func(hash string) bool { return hash == hashed(named) }); err != nil {
			t.Fatal(err)
		}
		var left []string
		entries, err := os.ReadDir(dir)
		for _, e := range entries {
			left = append(left, e.Name())
		}
		if slices.Sort(want); err != nil || !slices.Equal(left, want) {
			t.Errorf("there are %v, %v; want %v", left, err, want)
		}
	}
	s.now = s.now.Add(unusedLife - time.Second)
	s.serves(t, young)
	remains(hashed(old), hashed(young), hashed(named), "other")
	s.now = s.now.Add(time.Minute)
	remains(hashed(young), hashed(named), "other")
	s.serves(t, old) // the source still has it
	for _, data := range [][]byte{old, young} {
		if err := os.Chtimes(filepath.Join(dir, hashed(data)), s.now, s.now); err != nil {
			t.Fatal(err)
		}
	}
	s.now = s.now.Add(2 * unusedLife)
	s = &server{Copies: c.server(t, dir, 1<<30).Copies, now: s.now} // a restart knows when a copy was written
	s.Now = func() time.Time { return s.now }
	remains(hashed(named), "other")
}
