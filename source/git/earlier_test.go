package git_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
)

// TestWhateverTheEarlierTreeHas: a fetch links the files of an earlier tree that did not change, and never takes
// anything else from it.
func TestWhateverTheEarlierTreeHas(t *testing.T) {
	r := newRepo(t)
	content := map[string]string{
		"same": "the same", "empty": "", "deep/er/same": "the same, in a directory", "changed": "one",
		"deep/changed":      "one",
		"becomes-directory": "one", "becomes-file/a": "one", "removed": "one",
	}
	r.commit("one", content)
	for _, name := range []string{"becomes-directory", "removed", "becomes-file/a"} {
		content[name] = "-"
	}
	r.git(r.work, "rm", "-q", "-r", "becomes-directory", "becomes-file", "removed")
	maps.DeleteFunc(content, func(_, text string) bool { return text == "-" })
	maps.Copy(content, map[string]string{
		"changed": "two", "deep/changed": "two", "becomes-directory/a": "two",
		"becomes-file": "two", "new/file": "two",
	})
	two := r.commit("two", content)
	web := serveHTTPS(t, r.root)
	repository := remote(t, web.URL+"/cfg.git", web.secret(nil))
	tree := func(hash, earlier string) source.Tree {
		t.Helper()
		got, err := repository.Tree(t.Context(), source.Picked{Ref: "main", Hash: hash}, "",
			source.Destination{Dir: t.TempDir(), Earlier: earlier})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	want := tree(two, "")
	linkable := []string{"deep/er/same", "empty", "same"}
	for name, test := range map[string]struct {
		harm   func(dir string) error
		linked []string
	}{
		"the files of the commit before": {func(string) error { return nil }, linkable},
		"no directory":                   {os.RemoveAll, nil},
		"a file with other content of the same size": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "same"), []byte("THE SAME"), 0o644)
		}, []string{"deep/er/same", "empty"}},
		"a file that a crash cut off": {func(dir string) error { return os.Truncate(filepath.Join(dir, "same"), 3) }, []string{"deep/er/same", "empty"}},
		"a file with another mode":    {func(dir string) error { return os.Chmod(filepath.Join(dir, "same"), 0o755) }, []string{"deep/er/same", "empty"}},
		"a file for its owner's group": {
			func(dir string) error { return os.Chmod(filepath.Join(dir, "same"), os.ModeSetgid|0o644) },
			[]string{"deep/er/same", "empty"},
		},
		"a symbolic link to a file with the content": {func(dir string) error {
			return replaceBy(filepath.Join(dir, "same"), func(path string) error {
				other := filepath.Join(t.TempDir(), "same")
				return errors.Join(os.WriteFile(other, []byte("the same"), 0o644), os.Symlink(other, path))
			})
		}, []string{"deep/er/same", "empty"}},
		"a pipe without a writer": {func(dir string) error {
			return replaceBy(filepath.Join(dir, "same"), func(path string) error { return unix.Mkfifo(path, 0o644) })
		}, []string{"deep/er/same", "empty"}},
		"a directory in place of a file": {func(dir string) error {
			return replaceBy(filepath.Join(dir, "same"), func(path string) error { return os.Mkdir(path, 0o755) })
		}, []string{"deep/er/same", "empty"}},
		"a symbolic link to a directory": {func(dir string) error {
			other := filepath.Join(t.TempDir(), "deep")
			return errors.Join(os.Rename(filepath.Join(dir, "deep"), other),
				os.Symlink(other, filepath.Join(dir, "deep")))
		}, []string{"empty", "same"}},
		"a file in place of a directory": {func(dir string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, "deep")), os.WriteFile(filepath.Join(dir, "deep"), nil,
				0o644))
		}, []string{"empty", "same"}},
	} {
		t.Run(name, func(t *testing.T) {
			earlier := tree(r.git(r.work, "rev-parse", "HEAD~1"), "").Root
			if err := test.harm(earlier); err != nil {
				t.Fatal(err)
			}
			got := tree(two, earlier)
			if diff := cmp.Diff(files(t, want.Root), files(t, got.Root)); diff != "" || got.Digest != want.Digest {
				t.Errorf("digest %s, want %s; the files: -want +got\n%s", got.Digest, want.Digest, diff)
			}
			if diff := cmp.Diff(test.linked, linkedFiles(t, got.Root)); diff != "" {
				t.Errorf("linked -want +got\n%s", diff)
			}
		})
	}
}

// TestALargeFileOfTheEarlierTreeIsRefused: the limits count for linked files as for all others.
func TestALargeFileOfTheEarlierTreeIsRefused(t *testing.T) {
	r := newRepo(t)
	r.commit("one", map[string]string{"a": noise(2000), "b": noise(2000)})
	web := serveHTTPS(t, r.root)
	fetch := func(limits source.Limits, earlier string) (source.Tree, error) {
		repository, err := newRemote(git.Config{URL: web.URL + "/cfg.git", Secret: web.secret(nil), Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		return repository.Tree(t.Context(), pick(t, repository, v1alpha1.GitRef{}), "",
			source.Destination{Dir: t.TempDir(), Earlier: earlier})
	}
	whole, err := fetch(source.Limits{}, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, limits := range map[string]source.Limits{
		"a file": {FileBytes: 1000}, "all files": {Bytes: 3000},
		"entries": {Entries: 1},
	} {
		_, without := fetch(limits, "")
		_, with := fetch(limits, whole.Root)
		if without == nil || with == nil || fmt.Sprint(without) != fmt.Sprint(with) {
			t.Errorf("%s: without an earlier tree: %v; with it: %v", name, without, with)
		}
	}
}

func replaceBy(path string, create func(path string) error) error {
	return errors.Join(os.Remove(path), create(path))
}

// linkedFiles lists the files that another directory has too.
func linkedFiles(t *testing.T, root string) []string {
	t.Helper()
	var linked []string
	err := filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().IsRegular() && stat.Nlink > 1 {
			rel, err := filepath.Rel(root, path)
			linked = append(linked, rel)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return linked
}
