package content

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/download"
	"github.com/bunsen-os/bunsen/mcs"
)

// shelf is all registries: files by the address of their artifact.
type shelf struct {
	mu    sync.Mutex
	files map[string]answer
	reads map[string]int
	// tags are the digests of tags, by their addresses.
	tags map[string]string
	// down is true while no registry answers.
	down bool
}

// answer is what a registry sends for a file.
type answer struct {
	size   int64
	digest string
	// body is read once. Without it, each answer has the data.
	body io.Reader
	data []byte
	err  error
	// hangs is a registry that sends nothing until the channel is closed.
	hangs chan struct{}
}

// Resolve implements Registries.
func (s *shelf) Resolve(_ context.Context, a machineconfig.Artifact) (machineconfig.Artifact, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	digest, ok := s.tags[a.String()]
	switch {
	case s.down:
		return a, errors.New("connection refused")
	case !ok:
		return a, errors.New("the registry has no artifact")
	}
	a.Digest = digest
	return a, nil
}

// File implements Registries.
func (s *shelf) File(ctx context.Context, a machineconfig.Artifact) (download.Layer, io.ReadCloser, error) {
	s.mu.Lock()
	is, ok := s.files[a.String()]
	s.reads[a.String()]++
	s.mu.Unlock()
	if is.hangs != nil {
		select {
		case <-is.hangs:
		case <-ctx.Done():
			return download.Layer{}, nil, ctx.Err()
		}
	}
	if !ok || is.err != nil {
		return download.Layer{}, nil, errors.Join(is.err, errors.New("the registry has no artifact"))
	}
	if is.body == nil {
		is.body = bytes.NewReader(is.data)
	}
	return download.Layer{Digest: is.digest, Size: is.size}, io.NopCloser(is.body), nil
}

// put adds a file to a registry, and returns its name.
func (s *shelf) put(registry string, data []byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(data))
	name := "oci://" + registry + "/tool@" + digest // any digest may stand for the manifest
	s.files[name] = answer{size: int64(len(data)), digest: digest, body: bytes.NewReader(data)}
	return name
}

func newShelf() *shelf {
	return &shelf{files: map[string]answer{}, reads: map[string]int{}, tags: map[string]string{}}
}

// reader returns a server without a cluster.
func (s *shelf) reader(t *testing.T, dir string, most int64) *server {
	t.Helper()
	out := &server{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	all, err := NewCopies(Options{
		Stored: noStore, Registries: s, Dir: dir, Max: most,
		Log: slog.New(slog.NewTextHandler(&out.log, nil)), Now: func() time.Time { return out.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	out.Copies = all
	return out
}

// servesArtifact fails unless the server serves the file.
func (s *server) servesArtifact(t *testing.T, name string, data []byte) {
	t.Helper()
	f, size, err := s.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := io.ReadAll(f)
	if err != nil || size != int64(len(data)) || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes of %d, %v", len(got), size, err)
	}
}

func TestAFileOfARegistryIsReadOnceAndNeedsNoRegistryAfterARestart(t *testing.T) {
	s, dir, data := newShelf(), t.TempDir(), noise(1, 1<<20)
	name := s.put("registry.example.com", data)
	r := s.reader(t, dir, 1<<30)
	for range 3 {
		r.servesArtifact(t, name, data)
	}
	if s.reads[name] != 1 {
		t.Errorf("it was read %d times", s.reads[name])
	}
	delete(s.files, name)
	s.reader(t, dir, 1<<30).servesArtifact(t, name, data)
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("there are %v, %v", files, err)
	}
	if err := os.WriteFile(dir+"/"+files[0].Name(), noise(2, 1<<20), 0o600); err != nil { // The disk is damaged.
		t.Fatal(err)
	}
	s.reader(t, dir, 1<<30).refuses(t, name, "no artifact")
	s.put("registry.example.com", data)
	s.reader(t, dir, 1<<30).servesArtifact(t, name, data)
}

// TestALyingRegistryIsNeverServed has what an attacker who controls a registry may send.
func TestALyingRegistryIsNeverServed(t *testing.T) {
	data := noise(3, 1<<20)
	for says, c := range map[string]struct {
		damage func(*answer)
		want   string
	}{
		"other bytes":         {func(a *answer) { a.body = bytes.NewReader(noise(4, 1<<20)) }, "other bytes than the manifest names"},
		"half of the bytes":   {func(a *answer) { a.body = bytes.NewReader(data[:1<<19]) }, "sends 524288 of 1048576 bytes"},
		"bytes without end":   {func(a *answer) { a.body = endless{} }, "more than the 1048576 bytes"},
		"an error in between": {func(a *answer) { a.body = io.MultiReader(bytes.NewReader(data[:9]), broken{}) }, "reset"},
		"a huge size":         {func(a *answer) { a.size = 1 << 60 }, "at most"},
		"a negative size":     {func(a *answer) { a.size = -1 }, "has -1 bytes"},
		"a larger size":       {func(a *answer) { a.size++ }, "sends 1048576 of 1048577 bytes"},
		"no answer":           {func(a *answer) { a.err = errors.New("connection refused") }, "connection refused"},
	} {
		t.Run(says, func(t *testing.T) {
			s, dir := newShelf(), t.TempDir()
			name := s.put("registry.example.com", data)
			is := s.files[name]
			c.damage(&is)
			s.files[name] = is
			r := s.reader(t, dir, 1<<30)
			r.refuses(t, name, c.want)
			if !strings.Contains(r.log.String(), name) {
				t.Errorf("the log says %s", r.log.String())
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("it left %v", left)
			}
			r.refuses(t, name, c.want)
			if s.reads[name] != 1 {
				t.Error("it reads again at once")
			}
			s.put("registry.example.com", data)
			r.now = r.now.Add(retryAfter)
			r.servesArtifact(t, name, data)
		})
	}
}

type endless struct{}

func (endless) Read(into []byte) (int, error) { return len(into), nil }

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// TestASlowRegistryDelaysOnlyItsOwnFiles has more files in a registry that hangs than the server reads at a time.
func TestASlowRegistryDelaysOnlyItsOwnFiles(t *testing.T) {
	c, s, data := newCluster(), newShelf(), noise(5, 1000)
	hash, _ := c.add(t, data)
	r := c.server(t, t.TempDir(), 1<<30)
	r.Registries = s
	release := make(chan struct{})
	var all sync.WaitGroup
	for i := range byte(maxReads + 3) {
		name := s.put("slow.example.com", []byte{i})
		is := s.files[name]
		is.hangs = release
		s.files[name] = is
		all.Go(func() {
			f, _, err := r.Open(t.Context(), name)
			if err != nil {
				t.Error(err)
				return
			}
			f.Close()
		})
	}
	for n := 0; n < maxReads; { // until the registry has all requests that it gets at a time
		s.mu.Lock()
		n = 0
		for _, reads := range s.reads {
			n += reads
		}
		s.mu.Unlock()
	}
	r.servesArtifact(t, s.put("fast.example.com", data), data)
	if f, _, err := r.Open(t.Context(), hash); err != nil {
		t.Error(err)
	} else {
		f.Close()
	}
	s.mu.Lock()
	n := len(s.reads)
	s.mu.Unlock()
	if n > maxReads+1 {
		t.Errorf("the slow registry got %d requests at a time", n-1)
	}
	close(release)
	all.Wait()
}

func TestFilesOfRegistriesCountForTheBound(t *testing.T) {
	s, dir := newShelf(), t.TempDir()
	r := s.reader(t, dir, 2<<20)
	var names []string
	for i := range uint64(3) {
		data := noise(10+i, 1<<20)
		names = append(names, s.put("registry.example.com", data))
		r.now = r.now.Add(time.Second)
		r.servesArtifact(t, names[i], data)
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("there are %v", left)
	}
	r.refuses(t, s.put("registry.example.com", noise(20, 3<<20)), "set a larger --content-cache")
	if r.reserved != 0 {
		t.Errorf("%d bytes stay reserved", r.reserved)
	}
	r.refuses(t, hashed([]byte("a file of the content store")), "no content store")
}

// TestOneAddressDoesNotReadTheCopyOfAnother is for a public registry that lies about the digest of a private one.
func TestOneAddressDoesNotReadTheCopyOfAnother(t *testing.T) {
	s, data := newShelf(), noise(30, 1000)
	private := s.put("private.example.com", data)
	r := s.reader(t, t.TempDir(), 1<<30)
	r.servesArtifact(t, private, data)
	r.refuses(t, strings.Replace(private, "private", "public", 1), "no artifact")
	for _, name := range []string{strings.Replace(private, "/tool@", "/tool:v1@", 1), strings.Replace(private, "/tool@",
		"/../tool@", 1), private + "/", "oci://", "oci-0"} {
		if f, _, err := r.Open(t.Context(), name); err == nil || !errors.Is(err, mcs.ErrContentUnavailable) {
			f.Close()
			t.Errorf("%q is a file", name)
		}
	}
}

// noStore has no file of the content store.
func noStore(context.Context, string) (File, error) {
	return File{}, errors.New("no content store has it")
}
