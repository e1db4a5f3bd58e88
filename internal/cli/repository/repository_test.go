package repository_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/internal/cli/repository"
	"github.com/bunsen-os/bunsen/test/repositories"
)

// TestARevisionIsReadInTheFolderThatWasNamed runs the table of paths as --repo of diff, explain and comment: HEAD is
// read in the named repository, at the path of the named folder.
func TestARevisionIsReadInTheFolderThatWasNamed(t *testing.T) {
	root := t.TempDir()
	cases := repositories.Make(t, root)
	t.Setenv("GIT_DIR", filepath.Join(root, "made", "plain", ".git"))
	for _, c := range cases {
		t.Run(c.Sentence, func(t *testing.T) {
			if c.Dir != "" {
				t.Chdir(c.Dir)
			}
			at := repository.Repository{Repo: c.Path, Revisions: true}
			tree, done, err := at.Open(t.Context(), "HEAD")
			defer done()
			switch want := c.Around; {
			case want.Subject == "" && (err == nil || !strings.Contains(err.Error(), want.Refusal)):
				t.Errorf("read %q, %v; want an error with %q", tree.Commit.Subject, err, want.Refusal)
			// These folders are in the work tree or the index only.
			case want.Folder == "nothing", c.Sentence == "a planted repository in a split index":
				if err == nil || !strings.Contains(err.Error(), want.Folder) {
					t.Errorf("read a folder that the commit does not have: %v", err)
				}
			case want.Subject != "" && (err != nil || tree.Commit.Subject != want.Subject):
				t.Errorf("read %q, %v; want %q", tree.Commit.Subject, err, want.Subject)
			case want.Subject != "" && at.Folder() != want.Folder:
				t.Errorf("the folder is %q, want %q", at.Folder(), want.Folder)
			}
		})
	}
}
