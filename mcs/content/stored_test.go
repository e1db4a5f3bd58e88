package content

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	"github.com/bunsen-os/bunsen/mcs"
)

// cluster is a cluster whose controller keeps large files in a registry.
type cluster struct{ *shelf }

// the repository of the content store.
const repository = "registry.example.com/bunsen/content"

func newCluster() *cluster { return &cluster{newShelf()} }

// add stores a file, and returns its hash and the address of its artifact.
func (c *cluster) add(t *testing.T, data []byte) (hash, address string) {
	t.Helper()
	at, err := machineconfig.ParseRepository(repository)
	if err != nil {
		t.Fatal(err)
	}
	at.Tag = machineconfig.ContentTag(hashed(data))
	c.mu.Lock()
	defer c.mu.Unlock()
	tag := at.String()
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(data))
	at.Digest = digest
	c.tags[tag] = digest
	c.files[at.String()] = answer{size: int64(len(data)), digest: digest, data: data}
	return hashed(data), at.String()
}

func hashed(data []byte) string {
	sum := sha512.Sum512(data)
	return "sha512-" + hex.EncodeToString(sum[:])
}

// chunk is the size of a file.
const chunk = 512 << 10

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
	at, err := machineconfig.ParseRepository(repository)
	if err != nil {
		t.Fatal(err)
	}
	all, err := NewCopies(Options{
		Stored: InRegistry(at, c), Registries: c, Dir: dir, Max: most,
		Log: slog.New(slog.NewTextHandler(&s.log, nil)), Now: func() time.Time { return s.now },
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
	c, dir := newCluster(), t.TempDir()
	large, small := noise(1, 3<<20), []byte("x")
	_, of := c.add(t, large)
	c.add(t, small)
	s := c.server(t, dir, 1<<30)
	for range 3 {
		s.serves(t, large)
		s.serves(t, small)
	}
	if c.reads[of] != 1 {
		t.Errorf("it read %v", c.reads)
	}
	c.down = true
	s = c.server(t, dir, 1<<30)
	s.serves(t, large)
	if info, err := os.Stat(filepath.Join(dir, hashed(large))); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy is %v, %v", info, err)
	}
}

// TestAWrongFileIsNeverServed has what an error of the controller, a user of the registry or an attacker can leave.
// panics is an answer that a library cannot take.
type panics struct{}

func (panics) Read([]byte) (int, error) { panic("a library") }

func TestAWrongFileIsNeverServed(t *testing.T) {
	data := noise(2, 1<<20)
	for says, c := range map[string]struct {
		damage func(c *cluster, a *answer)
		want   string
	}{
		"no tag":                   {func(c *cluster, _ *answer) { clear(c.tags) }, "no artifact"},
		"no artifact":              {func(c *cluster, a *answer) { a.err = errors.New("gone") }, "gone"},
		"another file":             {func(_ *cluster, a *answer) { a.data = noise(3, 1<<20) }, "the registry sends other bytes"},
		"half of the file":         {func(_ *cluster, a *answer) { a.data = data[:1<<19] }, "the registry sends other bytes"},
		"no end":                   {func(_ *cluster, a *answer) { a.body = endless{} }, "the registry sends other bytes"},
		"a smaller size":           {func(_ *cluster, a *answer) { a.size = 1 }, "the registry sends other bytes"},
		"a huge size":              {func(_ *cluster, a *answer) { a.size = 1 << 62 }, "cannot have"},
		"a negative size":          {func(_ *cluster, a *answer) { a.size = -1 }, "cannot have"},
		"a panic while it is read": {func(_ *cluster, a *answer) { a.body = panics{} }, "mistake of its own"},
		"a broken answer":          {func(_ *cluster, a *answer) { a.body = broken{} }, "connection reset"},
		"a registry that is away":  {func(c *cluster, _ *answer) { c.down = true }, "connection refused"},
	} {
		t.Run(says, func(t *testing.T) {
			cluster, dir := newCluster(), t.TempDir()
			hash, of := cluster.add(t, data)
			is := cluster.files[of]
			c.damage(cluster, &is)
			cluster.files[of] = is
			s := cluster.server(t, dir, 1<<30)
			s.refuses(t, hash, c.want)
			if !strings.Contains(s.log.String(), hash) {
				t.Errorf("the log says %s", s.log.String())
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("it left %v", left)
			}
			reads := cluster.reads[of]
			s.refuses(t, hash, c.want)
			if cluster.reads[of] != reads {
				t.Error("it reads again at once")
			}
			cluster.down = false
			cluster.add(t, data)
			s.now = s.now.Add(retryAfter)
			s.serves(t, data)
		})
	}
}

func TestAServerWithoutTheRepositorySaysSo(t *testing.T) {
	c := newCluster()
	hash, _ := c.add(t, []byte("x"))
	s := c.server(t, t.TempDir(), 1<<30)
	s.Stored = InRegistry(machineconfig.Artifact{}, c)
	s.refuses(t, hash, "set it to the controller's value")
}

func TestDamageOnTheDiskIsNotServedAfterARestart(t *testing.T) {
	data := noise(4, chunk+1)
	for says, damage := range map[string]func(file string) error{
		"cut":     func(file string) error { return os.Truncate(file, 100) },
		"changed": func(file string) error { return os.WriteFile(file, noise(5, len(data)), 0o600) },
		"removed": os.Remove,
	} {
		t.Run(says, func(t *testing.T) {
			c, dir := newCluster(), t.TempDir()
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
	c, dir := newCluster(), t.TempDir()
	var files [][]byte
	for i := range 4 {
		files = append(files, noise(uint64(10+i), chunk))
		c.add(t, files[i])
	}
	s := c.server(t, dir, 2*chunk)
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
	large := noise(20, 3*chunk)
	hash, _ := c.add(t, large)
	s.refuses(t, hash, "set a larger --content-cache")
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("a file that is too large removed others: %v", left)
	}
}

func TestManyRequestsReadAFileOnce(t *testing.T) {
	c := newCluster()
	data := noise(6, 20*chunk)
	_, of := c.add(t, data)
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
	if c.reads[of] != 1 {
		t.Errorf("it read %v", c.reads)
	}
}

func TestOnlyHashesAreNamesOfFiles(t *testing.T) {
	s := newCluster().server(t, t.TempDir(), 1<<30)
	for _, name := range []string{"", "..", "../../etc/passwd", "sha512-1", fmt.Sprintf("sha512-%0128X", 10)} {
		if f, _, err := s.Open(t.Context(), name); err == nil {
			f.Close()
			t.Errorf("%q is a file", name)
		}
	}
}

func TestCopiesThatNoConfigNamesAreRemovedAfterTheirGrants(t *testing.T) {
	c, dir := newCluster(), t.TempDir()
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
