package cluster

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/quick"

	"github.com/google/go-cmp/cmp"
)

// openCache opens a directory as a new process would, and returns the log beside it.
func openCache(t *testing.T, dir string) (*Cache, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	c, err := OpenCache(dir, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return c, &log
}

func putCache(t *testing.T, c *Cache, name, contents string) {
	t.Helper()
	if err := c.Put(name, []byte(contents)); err != nil {
		t.Fatal(err)
	}
}

// hasCache fails unless a name has these contents; "-" is for absent.
func hasCache(t *testing.T, c *Cache, name, want string) {
	t.Helper()
	got := "-"
	if contents, ok := c.Get(name); ok {
		got = string(contents)
	}
	if got != want {
		t.Errorf("%s is %q, want %q", name, got, want)
	}
}

func TestWhatIsPutIsThereAfterARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "dir")
	c, _ := openCache(t, dir)
	hasCache(t, c, "pool-worker", "-")
	putCache(t, c, "pool-worker", "a\nb\x00")
	putCache(t, c, "pool-infra.east-1", "")
	putCache(t, c, "gone", "x")
	putCache(t, c, "pool-worker", "second")
	if err := c.Remove("gone"); err != nil {
		t.Fatal(err)
	}
	if err := c.Remove("never"); err != nil {
		t.Errorf("removing what is not there: %v", err)
	}
	c, log := openCache(t, dir)
	hasCache(t, c, "pool-worker", "second")
	hasCache(t, c, "pool-infra.east-1", "")
	hasCache(t, c, "gone", "-")
	if diff := cmp.Diff([]string{"pool-infra.east-1", "pool-worker"}, c.Keys()); diff != "" {
		t.Error(diff)
	}
	if log.Len() != 0 {
		t.Errorf("nothing is wrong, and the log says %s", log)
	}
}

func TestNobodyElseReadsIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	c, _ := openCache(t, dir)
	putCache(t, c, "tokens", "x")
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "tokens.kept"): 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
}

func TestANameStaysInTheDirectory(t *testing.T) {
	c, _ := openCache(t, t.TempDir())
	for _, name := range []string{"", ".", "..", "../x", "a/b", "A", "a\nb", ".new-1", "a.", "-a"} {
		if err := c.Put(name, nil); err == nil {
			t.Errorf("%q was taken", name)
		}
		if err := c.Remove(name); err == nil {
			t.Errorf("%q was removed", name)
		}
		hasCache(t, c, name, "-")
	}
}

func TestWhatDidNotChangeIsNotWritten(t *testing.T) {
	c, _ := openCache(t, t.TempDir())
	putCache(t, c, "tokens", "x")
	c.step = func(step string) { t.Errorf("it came to %s", step) }
	putCache(t, c, "tokens", "x")
}

// crash stands for the end of the process.
type crash struct{}

func TestACrashBetweenAnyTwoStepsLeavesTheOldOrTheNew(t *testing.T) {
	steps := 0
	for at := 0; ; at++ {
		dir := t.TempDir()
		c, _ := openCache(t, dir)
		putCache(t, c, "pool-worker", "old")
		n, died := 0, ""
		c.step = func(step string) {
			if n == at {
				died = step
				panic(crash{})
			}
			n++
		}
		func() {
			defer func() {
				if r := recover(); r != nil && r != (crash{}) {
					panic(r)
				}
			}()
			putCache(t, c, "pool-worker", "new")
		}()
		if died == "" {
			break // it has no more steps
		}
		steps++
		c, log := openCache(t, dir)
		want := "old"
		if died == "flush the directory" {
			want = "new"
		}
		hasCache(t, c, "pool-worker", want)
		if log.Len() != 0 {
			t.Errorf("after a crash before %q: %s", died, log)
		}
		if files, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(files) != 1 {
			t.Errorf("after a crash before %q: %v %v", died, files, err)
		}
		putCache(t, c, "pool-worker", "newer")
		hasCache(t, c, "pool-worker", "newer")
	}
	if steps < 6 {
		t.Errorf("only %d steps were seen", steps)
	}
}

func TestADamagedFileIsIgnoredAndTold(t *testing.T) {
	dir := t.TempDir()
	c, log := openCache(t, dir)
	putCache(t, c, "pool-worker", "contents of a config")
	file := filepath.Join(dir, "pool-worker.kept")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	damaged := map[string][]byte{"another version of the form": bytes.Replace(whole, []byte("cache 1"),
		[]byte("cache 2"), 1), "longer": append(bytes.Clone(whole), 'x')}
	for n := range whole {
		damaged["cut at "+string(whole[:n])] = whole[:n]
		flipped := bytes.Clone(whole)
		flipped[n] ^= 1
		damaged["a bit of "+string(flipped)] = flipped
	}
	for because, text := range damaged {
		log.Reset()
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		hasCache(t, c, "pool-worker", "-")
		if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), file) {
			t.Errorf("%s: the log says %q", because, log)
		}
	}
	putCache(t, c, "pool-worker", "anew")
	hasCache(t, c, "pool-worker", "anew")
	putCache(t, c, "pool-infra", "of infra")
	if err := os.Rename(filepath.Join(dir, "pool-infra.kept"), file); err != nil {
		t.Fatal(err)
	}
	hasCache(t, c, "pool-worker", "-") // what another's name was given
}

func TestADirectoryThatCannotBeUsedIsExplained(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCache(filepath.Join(file, "dir"), slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "cache directory") {
		t.Errorf("got %v", err)
	}
	dir := filepath.Join(t.TempDir(), "dir")
	c, _ := openCache(t, dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := c.Put("tokens", nil); err == nil || !strings.Contains(err.Error(), "tokens") {
		t.Errorf("got %v", err)
	}
}

func TestAnyContentsComeBack(t *testing.T) {
	c, _ := openCache(t, t.TempDir())
	property := func(contents []byte) bool {
		if err := c.Put("x", contents); err != nil {
			return false
		}
		got, ok := c.Get("x")
		return ok && bytes.Equal(got, contents)
	}
	if err := quick.Check(property, &quick.Config{MaxCount: 50}); err != nil {
		t.Error(err)
	}
}
