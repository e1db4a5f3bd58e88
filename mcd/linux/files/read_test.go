package files

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// sparse makes a file that has a size and nothing in it.
func sparse(t *testing.T, p string, size int64) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(p, size); err != nil {
		t.Fatal(err)
	}
}

func TestOfAFileThatIsTooLargeNobodyReadsTheContents(t *testing.T) {
	const tib, p = 1 << 40, "/etc/managed"
	h, dir := rootHost(t)
	sparse(t, dir+p, tib)
	is, err := h.Files.Stat(p)
	if err != nil || is.Kind != host.File || is.Mode != 0o640 || is.Digest != host.NotRead(tib) {
		t.Fatalf("it is %+v, %v", is, err)
	}
	if is.Digest == host.DigestOf(nil) || len(is.Digest) == len(host.DigestOf(nil)) {
		t.Errorf("%s may be the digest of something", is.Digest)
	}
	for says, try := range map[string]func() error{
		"reading it": func() error { _, err := h.Files.Read(p); return err },
		"keeping it": func() error { return h.Store.Keep([]host.Old{{Path: p, Digest: is.Digest}}) },
	} {
		if err := try(); err == nil || err.Error() != "/etc/managed has 1099511627776 bytes, and the daemon reads "+
			"files of at most 256 MiB: move it away" {
			t.Errorf("%s: %v", says, err)
		}
	}
	if err := h.Files.Remove(p); err != nil {
		t.Errorf("it cannot be removed: %v", err)
	}
}

func TestAFileIsReadUpToTheBoundAndNoFurther(t *testing.T) {
	const bound = 3 * chunk
	for says, c := range map[string]struct {
		size int
		ok   bool
	}{
		"nothing":                    {0, true},
		"less than a part":           {chunk - 1, true},
		"a part":                     {chunk, true},
		"more than a part":           {chunk + 1, true},
		"one byte below the bound":   {bound - 1, true},
		"the bound":                  {bound, true},
		"one byte more than allowed": {bound + 1, false},
	} {
		t.Run(says, func(t *testing.T) {
			h, dir := rootHost(t)
			h.Files.(*Root).maxRead, h.Files.(*Root).maxDigest = bound, bound
			text := bytes.Repeat([]byte("x"), c.size)
			if err := os.WriteFile(dir+"/etc/a", text, 0o600); err != nil {
				t.Fatal(err)
			}
			want := host.DigestOf(text)
			if !c.ok {
				want = host.NotRead(int64(c.size))
			}
			if is, err := h.Files.Stat("/etc/a"); err != nil || is.Digest != want {
				t.Errorf("its digest is %s, %v; want %s", is.Digest, err, want)
			}
			if got, err := h.Files.Read("/etc/a"); (err == nil) != c.ok || c.ok && !bytes.Equal(got, text) {
				t.Errorf("%d bytes were read, %v", len(got), err)
			}
		})
	}
}

// TestAFileThatGrowsWhileItIsReadIsReadUpToTheBound says that a file is smaller than it is, as one is that grows after
// its size was asked for.
func TestAFileThatGrowsWhileItIsReadIsReadUpToTheBound(t *testing.T) {
	p := filepath.Join(t.TempDir(), "growing")
	sparse(t, p, 1<<40)
	fd, err := unix.Open(p, unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for _, size := range []int64{0, 5, chunk - 1} {
		for says, try := range map[string]func() error{
			"reading":    func() error { _, err := readAll(fd, p, size, 3*chunk); return err },
			"looking at": func() error { _, err := digestOf(fd, p, size, 3*chunk); return err },
		} {
			if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
				t.Fatal(err)
			}
			if err := try(); err == nil || !strings.Contains(err.Error(), "move it away") {
				t.Errorf("%s one of %d bytes: %v", says, size, err)
			}
			if at, err := unix.Seek(fd, 0, unix.SEEK_CUR); err != nil || at > 8*chunk {
				t.Errorf("%s one of %d bytes went on to %d, %v", says, size, at, err)
			}
		}
	}
}

func TestAFileOfTheKernelsHasContentsWithoutASize(t *testing.T) {
	const p = "/proc/version"
	text, err := os.ReadFile(p)
	if err != nil || len(text) == 0 {
		t.Fatal(err)
	}
	root, err := Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if is, err := root.Stat(p); err != nil || is.Digest != host.DigestOf(text) {
		t.Errorf("it is %v, %v; want the digest of %q", is, err, text)
	}
}

func TestWhatWasReplacedIsReadHoweverMuchItIs(t *testing.T) {
	h, dir := rootHost(t)
	h.Files.(*Root).maxRead = 110
	text := bytes.Repeat([]byte("x"), 90)
	var old []host.Old
	for _, p := range []string{"/etc/a", "/etc/b"} {
		text = append(text, p...)
		if err := os.WriteFile(dir+p, text, 0o600); err != nil {
			t.Fatal(err)
		}
		old = append(old, host.Old{Path: p, Digest: host.DigestOf(text)})
	}
	if err := h.Store.Keep(old); err != nil {
		t.Fatal(err)
	}
	root, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	root.maxRead = 110
	for _, o := range old {
		if got, err := root.Store().Get(o.Digest); err != nil || host.DigestOf(got) != o.Digest {
			t.Errorf("of %s, %d bytes came back, %v", o.Path, len(got), err)
		}
	}
}
