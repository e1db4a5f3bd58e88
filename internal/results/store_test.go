package results_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/internal/results"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, dir, version string, limit int64, now time.Time) *results.Store {
	t.Helper()
	s, err := results.Open(dir, version, limit, now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closed(t *testing.T, s *results.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func files(t *testing.T, dir string) (out []string) {
	t.Helper()
	out, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTheNextProcessFindsWhatWasPut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "results")
	first := open(t, dir, "v1", results.Limit, noon)
	if _, has := first.Get("a"); has {
		t.Error("an empty store has a result")
	}
	for i := range 500 {
		first.Put(fmt.Sprint(i), []byte(strings.Repeat(fmt.Sprint(i), i)))
	}
	if got, has := first.Get("7"); !has || string(got) != "7777777" {
		t.Errorf("the same process finds %q", got)
	}
	closed(t, first)
	second := open(t, dir, "v1", results.Limit, noon)
	for i := range 500 {
		if got, has := second.Get(fmt.Sprint(i)); !has || string(got) != strings.Repeat(fmt.Sprint(i), i) {
			t.Fatalf("%d: %q, %v", i, got, has)
		}
	}
	if _, has := open(t, dir, "v2", results.Limit, noon).Get("7"); has {
		t.Error("another program finds the result")
	}
	for _, file := range files(t, dir) {
		if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
}

// Each single byte of a file is changed, cut off and added: no result is ever another one.
func TestADamagedFileHasNoResult(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "results")
	s := open(t, dir, "v1", results.Limit, noon)
	s.Put("a", []byte("the value"))
	closed(t, s)
	file := files(t, dir)[0]
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, text []byte) {
		t.Helper()
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, has := open(t, dir, "v1", results.Limit, noon).Get("a"); has {
			t.Errorf("%s: it has %q", what, got)
		}
	}
	for i := range whole {
		changed := bytes.Clone(whole)
		changed[i] ^= 1
		try(fmt.Sprintf("byte %d is changed", i), changed)
		try(fmt.Sprintf("it ends before byte %d", i), whole[:i])
	}
	try("a byte is added", append(bytes.Clone(whole), 0))
	again := open(t, dir, "v1", results.Limit, noon)
	again.Put("a", []byte("another"))
	closed(t, again)
	if got, _ := open(t, dir, "v1", results.Limit, noon).Get("a"); string(got) != "another" {
		t.Errorf("after the next run it has %q", got)
	}
}

func TestAFileThatOthersCanWriteHasNoResult(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes of files say nothing there")
	}
	dir := filepath.Join(t.TempDir(), "results")
	s := open(t, dir, "v1", results.Limit, noon)
	s.Put("a", []byte("the value"))
	closed(t, s)
	file := files(t, dir)[0]
	for mode, want := range map[os.FileMode]bool{0o600: true, 0o644: false, 0o620: false, 0o602: false} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if _, has := open(t, dir, "v1", results.Limit, noon).Get("a"); has != want {
			t.Errorf("%o: %v", mode, has)
		}
	}
}

// The store stays below its limit. What was used last stays, whenever it was put.
func TestTheOldestResultsGo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "results")
	const limit = 1 << 20
	value := bytes.Repeat([]byte("x"), 10_000)
	for day := range 10 {
		s := open(t, dir, "v1", limit, noon.AddDate(0, 0, day))
		for i := range 50 {
			s.Put(fmt.Sprint(day, " ", i), value)
		}
		s.Put("used", []byte("each day"))
		closed(t, s)
		total := int64(0)
		for _, file := range files(t, dir) {
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			total += info.Size()
		}
		if total > limit+64*64 {
			t.Fatalf("after %d days it has %d bytes", day, total)
		}
	}
	last := open(t, dir, "v1", limit, noon.AddDate(0, 0, 10))
	if _, has := last.Get("used"); !has {
		t.Error("what is used each day is gone")
	}
	if _, has := last.Get("0 0"); has {
		t.Error("what nobody used is there")
	}
}

// Several processes end at once, beside one that was killed while it wrote.
func TestProcessesWriteAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "results")
	closed(t, open(t, dir, "v1", results.Limit, noon))
	own, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(own) != 1 {
		t.Fatal(own, err)
	}
	left := filepath.Join(own[0], "new-left")
	if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(left, noon, noon.Add(-2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for p := range 8 {
		s := open(t, dir, "v1", results.Limit, noon.Add(time.Minute))
		all.Go(func() {
			for i := range 200 {
				s.Put(fmt.Sprint(i), []byte(fmt.Sprint("value ", i)))
				s.Get(fmt.Sprint(i + p))
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s := open(t, dir, "v1", results.Limit, noon)
	for i := range 200 {
		if got, has := s.Get(fmt.Sprint(i)); has && string(got) != fmt.Sprint("value ", i) {
			t.Errorf("%d: %q", i, got)
		}
	}
	for _, file := range files(t, dir) {
		if strings.HasPrefix(filepath.Base(file), "new-") {
			t.Errorf("%s is left", file)
		}
	}
}

// A directory that a commit, or another user, brought has modes that git gives, or another owner.
func TestADirectoryOfOthersIsRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes of files say nothing there")
	}
	dir := filepath.Join(t.TempDir(), "results")
	closed(t, open(t, dir, "v1", results.Limit, noon))
	own, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, at := range []string{dir, own[0]} {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := results.Open(dir, "v1", results.Limit, noon); err == nil || !strings.Contains(err.Error(), at) {
			t.Errorf("%s: %v", at, err)
		}
		if err := os.Chmod(at, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if _, err := results.Open(link, "v1", results.Limit, noon); err == nil {
		t.Error("a link to a directory was taken")
	}
}

// What nobody used for a month goes, and the results of a program that nobody ran for a month.
func TestUnusedResultsGo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "results")
	s := open(t, dir, "v1", results.Limit, noon)
	s.Put("a", []byte("x"))
	s.Put("b", []byte("x"))
	closed(t, s)
	later := open(t, dir, "v1", results.Limit, noon.AddDate(0, 0, 20))
	later.Get("a")
	closed(t, later)
	last := open(t, dir, "v1", results.Limit, noon.AddDate(0, 0, 40))
	if _, has := last.Get("a"); !has {
		t.Error("what was used 20 days ago is gone")
	}
	own, _ := filepath.Glob(filepath.Join(dir, "*"))
	if err := os.Chtimes(own[0], noon, noon); err != nil {
		t.Fatal(err)
	}
	open(t, dir, "v2", results.Limit, noon.AddDate(0, 0, 31))
	if _, err := os.Stat(own[0]); !os.IsNotExist(err) {
		t.Errorf("the results of the other program are there: %v", err)
	}
}
