package repository_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/repository"
)

func open(t *testing.T, dir string) *repository.Store {
	t.Helper()
	s, err := repository.Open(dir, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func hashOf(n int) string { return fmt.Sprintf("%040x", n) }

// shelf is a remote whose commit n holds one file with n in it.
type shelf struct {
	t       *testing.T
	mu      sync.Mutex
	fetched []string
	earlier []string
	err     error
	signer  string
}

func (s *shelf) List(_ context.Context, prefixes ...string) ([]source.Ref, error) {
	if len(prefixes) == 0 {
		return nil, nil
	}
	return []source.Ref{{Name: "HEAD"}}, nil
}

func (s *shelf) URL() string { return "https://host/cfg" }

func (s *shelf) Evidence(_ context.Context, p source.Picked) (source.Evidence, error) {
	return source.Evidence{Commit: []byte(p.Hash), Applied: p.Applied}, s.err
}

func (s *shelf) Tree(ctx context.Context, p source.Picked, path string, into source.Destination) (source.Tree, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetched = append(s.fetched, p.Revision().Short())
	s.earlier = append(s.earlier, into.Earlier)
	from := s.t.TempDir()
	for name, mode := range map[string]os.FileMode{"plain": 0o644, "run": 0o755} {
		if err := os.WriteFile(filepath.Join(from, name), []byte(path+p.Hash+name), mode); err != nil {
			return source.Tree{}, err
		}
	}
	tree, err := repository.OpenDir(ctx, from, into.Dir, nil, source.Limits{})
	tree.Commit = source.Commit{
		URL: "https://host/cfg", Ref: p.Ref, Hash: p.Hash, Author: "A <a@b>", Subject: "s",
		Time: time.Unix(1e9, 0).UTC(), Signer: s.signer,
	}
	tree.Refused = []source.Refusal{{Path: "link", Why: "symbolic link"}}
	return tree, errors.Join(err, s.err)
}

func TestARestartUsesTheTreeWithoutFetching(t *testing.T) {
	dir, remote := t.TempDir(), &shelf{t: t, signer: "key"}
	p := source.Picked{Ref: "main", Hash: hashOf(1)}
	s := open(t, dir)
	first, err := repository.Repository{Remote: remote, Store: s, URL: "https://host/cfg", Path: "./infra/"}.Tree(
		t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	p.Ref = "release"
	second, err := repository.Repository{
		Remote: remote, Store: open(t, dir), URL: "https://host/cfg",
		Path: "infra",
	}.Tree(
		t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"main@sha1:00000000"}, remote.fetched); diff != "" {
		t.Errorf("fetched -want +got\n%s", diff)
	}
	first.Commit.Ref = "release" // the ref is how one got there, not what is there
	first.FS, second.FS = nil, nil
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("-first +second\n%s", diff)
	}
	if got, err := os.ReadFile(filepath.Join(second.Root, "plain")); err != nil ||
		!strings.HasPrefix(string(got), "infra0000") {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestWhatIsNotAsItWasIsFetchedAgain changes a stored tree in every way that reading it would notice.
func TestWhatIsNotAsItWasIsFetchedAgain(t *testing.T) {
	for name, harm := range map[string]func(root, dir string) error{
		"a file with other content":  func(root, _ string) error { return os.WriteFile(filepath.Join(root, "plain"), []byte("other"), 0o644) },
		"a file cut off by a crash":  func(root, _ string) error { return os.Truncate(filepath.Join(root, "plain"), 0) },
		"a file with another mode":   func(root, _ string) error { return os.Chmod(filepath.Join(root, "plain"), 0o755) },
		"a file more":                func(root, _ string) error { return os.WriteFile(filepath.Join(root, "more"), nil, 0o644) },
		"a file less":                func(root, _ string) error { return os.Remove(filepath.Join(root, "run")) },
		"a symbolic link":            func(root, _ string) error { return os.Symlink("/etc/passwd", filepath.Join(root, "link")) },
		"a repository of its own":    func(root, _ string) error { return os.Mkdir(filepath.Join(root, ".git"), 0o755) },
		"no tree":                    func(root, _ string) error { return os.RemoveAll(root) },
		"a record that is no record": func(_, dir string) error { return eachKey(dir, func(string) string { return "{" }) },
		"a record that leads astray": func(_, dir string) error {
			return eachKey(dir, func(s string) string {
				i := strings.Index(s, "sha256:")
				return s[:i] + "sha256:../../precious" + s[i+71:]
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, remote := t.TempDir(), &shelf{t: t}
			precious := filepath.Join(dir, "precious")
			if err := os.Mkdir(precious, 0o755); err != nil {
				t.Fatal(err)
			}
			repo := repository.Repository{Remote: remote, Store: open(t, filepath.Join(dir, "store")), URL: "u"}
			p := source.Picked{Hash: hashOf(1)}
			before, err := repo.Tree(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			if err := harm(before.Root, filepath.Join(dir, "store")); err != nil {
				t.Fatal(err)
			}
			after, err := repo.Tree(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			again, err := repository.OpenDir(t.Context(), after.Root, t.TempDir(), nil, source.Limits{})
			if err != nil || again.Digest != before.Digest || len(again.Refused) != 0 {
				t.Errorf("the tree is %v, %v, want digest %s", again, err, before.Digest)
			}
			if len(remote.fetched) != 2 {
				t.Errorf("fetched %v", remote.fetched)
			}
			if _, err := os.Stat(precious); err != nil {
				t.Error(err)
			}
		})
	}
}

func eachKey(dir string, change func(string) string) error {
	keys, err := filepath.Glob(filepath.Join(dir, "keys", "*.json"))
	for _, k := range keys {
		data, readErr := os.ReadFile(k)
		err = errors.Join(err, readErr, os.WriteFile(k, []byte(change(string(data))), 0o644))
	}
	return err
}

func TestASecondProcessIsKeptOut(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if _, err := repository.Open(dir, 2); err == nil || !strings.Contains(err.Error(), "another process uses it") {
		t.Errorf("got %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
}

func TestACrashLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(dir, "new", "tree-123", "sub")
	orphan := filepath.Join(dir, "trees", strings.Repeat("a", 64))
	for _, d := range []string{half, orphan} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	open(t, dir)
	for _, d := range []string{half, orphan} {
		if _, err := os.Stat(d); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", d, err)
		}
	}
}

// TestATreeIsKeptWhileItIsRead: many sources of one repository read different commits at a time, and the clock was
// ahead when the records before were written.
func TestATreeIsKeptWhileItIsRead(t *testing.T) {
	dir, remote := t.TempDir(), &shelf{t: t}
	s := open(t, dir)
	repo := repository.Repository{Remote: remote, Store: s, URL: "https://host/cfg"}
	var trees []source.Tree
	for n := range 5 {
		tree, err := repo.Tree(t.Context(), source.Picked{Hash: hashOf(n)})
		if err != nil {
			t.Fatal(err)
		}
		trees = append(trees, tree)
		age(t, dir, -time.Hour)
	}
	for n, tree := range trees {
		if _, err := os.Stat(tree.Root); err != nil {
			t.Errorf("the tree of commit %d: %v", n, err)
		}
	}
}

// TestNoReaderFindsHalfATree: as long as the directory of a tree exists, it has all files.
func TestNoReaderFindsHalfATree(t *testing.T) {
	const count = 3000
	dir := t.TempDir()
	store := open(t, dir)
	root := filepath.Join(dir, "trees", strings.Repeat("0", 64)) // no key names it, so the next Put removes it
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	for n := range count {
		if err := os.WriteFile(filepath.Join(root, strconv.Itoa(n)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	repo := repository.Repository{Remote: &shelf{t: t}, Store: store, URL: "https://host/cfg"}
	done := make(chan error, 1)
	go func() {
		_, err := repo.Tree(t.Context(), source.Picked{Hash: hashOf(1)})
		done <- err
	}()
	for {
		entries, _ := os.ReadDir(root)
		if _, err := os.Stat(root); err != nil {
			break
		}
		if len(entries) != count {
			t.Errorf("the directory of the tree has %d of %d files", len(entries), count)
			break
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestTheNewestTreesOfEachFolderAreKept(t *testing.T) { synctest.Test(t, testTheNewestTreesAreKept) }

func testTheNewestTreesAreKept(t *testing.T) {
	dir, remote := t.TempDir(), &shelf{t: t}
	s := open(t, dir)
	other := repository.Repository{Remote: remote, Store: s, URL: "https://other/cfg"}
	if _, err := other.Tree(t.Context(), source.Picked{Hash: hashOf(99)}); err != nil {
		t.Fatal(err)
	}
	repo := repository.Repository{Remote: remote, Store: s, URL: "https://host/cfg"}
	for n := range 5 {
		if _, err := repo.Tree(t.Context(), source.Picked{Hash: hashOf(n)}); err != nil {
			t.Fatal(err)
		}
		// The order of use is the order of file times; a file system may keep them coarsely.
		age(t, dir, time.Hour)
		time.Sleep(time.Hour) // of the bubble's clock, so that nobody reads it any more
	}
	var kept []int
	for n := range 5 {
		if _, ok, err := s.Get(repository.StoreKey{URL: "https://host/cfg", Hash: hashOf(n)}); err != nil {
			t.Fatal(err)
		} else if ok {
			kept = append(kept, n)
		}
	}
	if diff := cmp.Diff([]int{3, 4}, kept); diff != "" {
		t.Errorf("kept -want +got\n%s", diff)
	}
	if _, ok, err := s.Get(repository.StoreKey{URL: "https://other/cfg", Hash: hashOf(99)}); !ok || err != nil {
		t.Errorf("the other repository's tree is gone: %v", err)
	}
	if trees, err := os.ReadDir(filepath.Join(dir, "trees")); err != nil || len(trees) != 3 {
		t.Errorf("%d trees on disk, %v", len(trees), err)
	}
}

// age makes everything older.
func age(t *testing.T, dir string, by time.Duration) {
	t.Helper()
	keys, err := filepath.Glob(filepath.Join(dir, "keys", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		info, err := os.Stat(k)
		if err != nil {
			t.Fatal(err)
		}
		older := info.ModTime().Add(-by)
		if err := os.Chtimes(k, older, older); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFailedFetchKeepsNothing(t *testing.T) {
	dir, remote := t.TempDir(), &shelf{t: t, err: errors.New("cut off")}
	repo := repository.Repository{Remote: remote, Store: open(t, dir), URL: "u"}
	if _, err := repo.Tree(t.Context(), source.Picked{Hash: hashOf(1)}); !errors.Is(err, remote.err) {
		t.Errorf("got %v", err)
	}
	for _, sub := range []string{"new", "trees", "keys"} {
		if left, err := os.ReadDir(filepath.Join(dir, sub)); err != nil || len(left) != 0 {
			t.Errorf("%s holds %v, %v", sub, left, err)
		}
	}
}

func TestOtherKeysOfTrustAreAnotherEntry(t *testing.T) {
	remote := &shelf{t: t, signer: "ssh SHA256:x"}
	repo := repository.Repository{Remote: remote, Store: open(t, t.TempDir()), URL: "u"}
	p := source.Picked{Hash: hashOf(1)}
	for _, trust := range []string{"", "sha256:1", "sha256:2", "sha256:2"} {
		repo.Trust = trust
		tree, err := repo.Tree(t.Context(), p)
		if err != nil || tree.Commit.Signer != remote.signer {
			t.Fatalf("signed by %q, %v", tree.Commit.Signer, err)
		}
	}
	if len(remote.fetched) != 3 {
		t.Errorf("fetched %v", remote.fetched)
	}
}

// TestTheSameFilesForAnotherKey: the existing tree stays, because somebody may read it. A changed one is replaced.
func TestTheSameFilesForAnotherKey(t *testing.T) {
	remote := &shelf{t: t, signer: "ssh SHA256:x"}
	repo := repository.Repository{Remote: remote, Store: open(t, t.TempDir()), URL: "u"}
	p := source.Picked{Hash: hashOf(1)}
	take := func(trust string) os.FileInfo {
		t.Helper()
		repo.Trust = trust
		tree, err := repo.Tree(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		is, err := os.Stat(filepath.Join(tree.Root, "plain"))
		if text, _ := os.ReadFile(filepath.Join(tree.Root, "plain")); err != nil || string(text) != p.Hash+"plain" {
			t.Errorf("the tree of %s has %q, %v", trust, text, err)
		}
		return is
	}
	first := take("sha256:1")
	if second := take("sha256:2"); !os.SameFile(first, second) {
		t.Error("the tree was replaced while somebody may read it")
	}
	tree, err := repo.Tree(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tree.Root, "plain"), []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	take("sha256:3")
}

// TestAnotherIncludeIsAnotherEntry: a tree without submodules does not stand for one with them.
func TestAnotherIncludeIsAnotherEntry(t *testing.T) {
	remote := &shelf{t: t}
	repo := repository.Repository{Remote: remote, Store: open(t, t.TempDir()), URL: "u"}
	for _, include := range []string{"", "Submodules", "Submodules", ""} {
		repo.Include = include
		if _, err := repo.Tree(t.Context(), source.Picked{Hash: hashOf(1)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(remote.fetched) != 2 {
		t.Errorf("fetched %v", remote.fetched)
	}
}

// TestTrustWantsASigner: keys that the remote was not told of must not make a tree look verified.
func TestTrustWantsASigner(t *testing.T) {
	repo := repository.Repository{Remote: &shelf{t: t}, Store: open(t, t.TempDir()), URL: "u", Trust: "sha256:1"}
	for range 2 {
		if _, err := repo.Tree(t.Context(), source.Picked{Ref: "main", Hash: hashOf(1)}); err == nil ||
			!strings.Contains(err.Error(), "the remote verified none") {
			t.Errorf("got %v", err)
		}
	}
}

func TestEvidenceIsTheRemotes(t *testing.T) {
	remote := &shelf{t: t}
	repo := repository.Repository{Remote: remote, Store: open(t, t.TempDir()), URL: "u"}
	p := source.Picked{Hash: hashOf(2), Applied: hashOf(1)}
	if got, err := repo.Evidence(t.Context(), p); string(got.Commit) != p.Hash || got.Applied != p.Applied ||
		err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	remote.err = errors.New("cut off")
	if _, err := repo.Evidence(t.Context(), p); !errors.Is(err, remote.err) {
		t.Errorf("got %v", err)
	}
}

func TestAListingForARefIsNarrower(t *testing.T) {
	repo := repository.Repository{Remote: &shelf{t: t}, Store: open(t, t.TempDir()), URL: "u"}
	all, err := repo.List(t.Context(), source.Poll{})
	repo.Ref = &v1alpha1.GitRef{}
	narrow, errNarrow := repo.List(t.Context(), source.Poll{})
	if len(all.Refs) != 0 || len(narrow.Refs) != 1 || err != nil || errNarrow != nil {
		t.Errorf("got %v, %v and %v, %v", all, err, narrow, errNarrow)
	}
}

func TestManyAtOnce(t *testing.T) {
	remote := &shelf{t: t}
	repo := repository.Repository{Remote: remote, Store: open(t, t.TempDir()), URL: "u"}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			tree, err := repo.Tree(t.Context(), source.Picked{Hash: hashOf(1)})
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := os.ReadFile(filepath.Join(tree.Root, "plain")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestOpenDirTakesOnlyPlainFiles: a folder that somebody else filled, as in a pull request's checkout, cannot lead out
// of itself.
func TestOpenDirTakesOnlyPlainFiles(t *testing.T) {
	dir, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	write := func(name, content string) {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755),
			os.WriteFile(p, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write("pools/worker/10-a.bu", "variant: fcos\n")
	write(".git/config", "[http] extraheader = secret")
	write("vendored/.git/config", "")
	write("vendored/file", "")
	write("pools/.GIT/config", "secret")
	write("secret\tname", "")
	if err := errors.Join(
		os.WriteFile(secret, []byte("secret"), 0o600),
		os.Symlink(secret, filepath.Join(dir, "pools/worker/absolute")),
		os.Symlink("10-a.bu", filepath.Join(dir, "pools/worker/inside")),
		os.Symlink(filepath.Dir(secret), filepath.Join(dir, "folder")),
		os.Mkdir(filepath.Join(dir, "empty"), 0o755),
	); err != nil {
		t.Fatal(err)
	}
	into := t.TempDir()
	tree, err := repository.OpenDir(t.Context(), dir, into, nil, source.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := filepath.WalkDir(into, func(p string, d os.DirEntry, err error) error {
		if !d.IsDir() {
			rel, _ := filepath.Rel(into, p)
			got = append(got, rel)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"pools/worker/10-a.bu"}, got); diff != "" {
		t.Errorf("files -want +got\n%s", diff)
	}
	want := []source.Refusal{
		{Path: `"secret\tname"`, Why: "the name holds a control character"},
		{Path: "folder", Why: "symbolic link", Target: source.BlobOf(filepath.Dir(secret))},
		{Path: `pools/".GIT"`, Why: "the name is reserved for git's own folder"},
		{Path: "pools/worker/absolute", Why: "symbolic link", Target: source.BlobOf(secret)},
		{Path: "pools/worker/inside", Why: "symbolic link", Target: source.BlobOf("10-a.bu")},
		{Path: "vendored", Why: "submodule"},
	}
	if diff := cmp.Diff(want, tree.Refused); diff != "" {
		t.Errorf("refused -want +got\n%s", diff)
	}
	_, err = repository.OpenDir(t.Context(), dir, t.TempDir(), nil, source.Limits{Entries: 3})
	if err == nil || !strings.Contains(err.Error(), "more than 3 files and folders") {
		t.Errorf("got %v", err)
	}
	_, err = repository.OpenDir(t.Context(), filepath.Join(dir, "nope"), t.TempDir(), nil, source.Limits{})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestAFetchSeesTheNewestTree: the remote may link files of the tree that the same folder of the same repository had
// before.
func TestAFetchSeesTheNewestTree(t *testing.T) {
	dir, remote := t.TempDir(), &shelf{t: t}
	s := open(t, dir)
	get := func(url, path, trust string, n int) source.Tree {
		t.Helper()
		tree, err := repository.Repository{
			Remote: remote, Store: s, URL: url, Path: path,
			Trust: trust,
		}.Tree(t.Context(),
			source.Picked{Hash: hashOf(n)})
		if err != nil {
			t.Fatal(err)
		}
		return tree
	}
	remote.signer = "Ada"
	var want []string
	for n, from := range [][3]string{{"u", "a", ""}, {"u", "b", ""}, {"v", "a", ""}} {
		get(from[0], from[1], from[2], n) // the first tree of its folder
		want = append(want, "")
	}
	before := get("u", "a", "", 3)
	want = append(want, remote.earlier[len(remote.earlier)-1])
	get("u", "a", "other keys", 4)
	want = append(want, before.Root)
	if diff := cmp.Diff(want, remote.earlier); diff != "" || want[3] == "" {
		t.Errorf("earlier trees -want +got\n%s", diff)
	}
}
