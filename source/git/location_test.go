package git_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/test/repositories"
)

// TestEachPathLeadsToItsRepository runs the table of paths through each way in which the package opens a repository by
// its path. GIT_DIR and its kin name another repository, and must not count.
func TestEachPathLeadsToItsRepository(t *testing.T) {
	root := t.TempDir()
	cases := repositories.Make(t, root)
	for name, value := range map[string]string{
		"GIT_DIR": "made/plain/.git", "GIT_WORK_TREE": "made/plain", "GIT_INDEX_FILE": "made/plain/.git/index",
		"GIT_OBJECT_DIRECTORY": "made/plain/.git/objects", "GIT_COMMON_DIR": "made/plain/.git",
	} {
		t.Setenv(name, filepath.Join(root, value))
	}
	for _, c := range cases {
		t.Run(c.Sentence, func(t *testing.T) {
			if c.Dir != "" {
				t.Chdir(c.Dir)
			}
			check(t, "a revision of a command", c.Around, func() (string, error) {
				tree, err := git.OpenRevision(t.Context(), git.LocalRevision{Repository: c.Path}, t.TempDir())
				return tree.Commit.Subject, err
			})
			check(t, "a revision of a source", c.At, func() (string, error) {
				at := git.LocalRevision{Repository: c.Path, Exact: true}
				tree, err := git.OpenRevision(t.Context(), at, t.TempDir())
				return tree.Commit.Subject, err
			})
			check(t, "a GitSource", c.At, func() (string, error) { return followed(t, c.Path) })
			if c.Around.Subject == "" {
				return
			}
			l, err := git.FindAround(c.Path)
			if err != nil || l.Folder != c.Around.Folder {
				t.Errorf("the folder is %q, want %q: %v", l.Folder, c.Around.Folder, err)
			}
			// The program git agrees, except that it opens what a commit plants.
			if isURL := strings.HasPrefix(c.Path, "file:"); !isURL && !strings.Contains(c.Sentence, "planted") {
				dir, err := filepath.Abs(c.Path)
				if err != nil {
					t.Fatal(err)
				}
				if want := repositories.Git(t, dir, "rev-parse", "--absolute-git-dir"); l.GitDir != want {
					t.Errorf("found %s, and git opens %s", l.GitDir, want)
				}
			}
		})
	}
}

func check(t *testing.T, way string, want repositories.Want, open func() (string, error)) {
	t.Helper()
	subject, err := open()
	switch {
	case want.Subject == "" && (err == nil || !strings.Contains(err.Error(), want.Refusal)):
		t.Errorf("%s: read %q, %v; want an error with %q", way, subject, err, want.Refusal)
	case want.Subject != "" && (err != nil || subject != want.Subject):
		t.Errorf("%s: read %q, %v; want %q", way, subject, err, want.Subject)
	}
}

// followed returns the subject of the newest commit that a GitSource with the path as its URL applies.
func followed(t *testing.T, path string) (string, error) {
	url := path
	if !strings.HasPrefix(path, "file://") {
		var err error
		if url, err = filepath.Abs(path); err != nil {
			return "", err
		}
	}
	r, err := newRemote(git.Config{URL: url})
	if err != nil {
		return "", err
	}
	refs, err := r.List(t.Context())
	if err != nil {
		return "", err
	}
	if len(refs) == 0 {
		return "", os.ErrNotExist
	}
	p, err := source.Pick(refs, v1alpha1.GitRef{Commit: refs[0].Hash})
	if err != nil {
		return "", err
	}
	tree, err := r.Tree(t.Context(), p, "", source.Destination{Dir: t.TempDir()})
	return tree.Commit.Subject, err
}

// TestTheRepositoryOfAnotherUserIsNotFoundByChance: /tmp/.git must not stand for the folders of everybody in /tmp.
func TestTheRepositoryOfAnotherUserIsNotFoundByChance(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to another user")
	}
	r := newRepo(t)
	r.commit("of another user", map[string]string{"pools/worker/a": "1", "theirs/a": "1"})
	const nobody, somebody = 65534, 65533
	if err := filepath.WalkDir(r.work, func(p string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, nobody, nobody))
	}); err != nil {
		t.Fatal(err)
	}
	mine, theirs := filepath.Join(r.work, "pools"), filepath.Join(r.work, "theirs")
	if err := os.Chown(mine, somebody, somebody); err != nil {
		t.Fatal(err)
	}
	if _, err := git.FindAround(mine); err == nil || !strings.Contains(err.Error(), "of another user (UID 65534)") {
		t.Errorf("the folder of one user in the repository of another: %v", err)
	}
	for _, dir := range []string{theirs, r.work} {
		if l, err := git.FindAround(dir); err != nil || l.WorkTree == "" {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
