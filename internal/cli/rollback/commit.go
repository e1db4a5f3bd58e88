package rollback

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bunsen-os/bunsen/source/git"
)

// writeTree writes the files of the base with the reverted ones as a tree of the repository. writeTree uses an index
// file of its own, and not that of the user.
func (c clone) writeTree(ctx context.Context, commit string, revert []Change) (string, error) {
	dir, err := os.MkdirTemp("", "bunsen-index-")
	if err != nil {
		return "", fmt.Errorf("making a directory for the index: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // A temporary directory that remains does no harm.
	p := c.with("GIT_INDEX_FILE=" + filepath.Join(dir, "index"))
	if _, err := p.run(ctx, "read-tree", commit); err != nil {
		return "", err
	}
	var deleted, written strings.Builder // Deleted files come first, because a directory may replace a file.
	for _, f := range revert {
		if f.To == (Blob{}) {
			fmt.Fprintf(&deleted, "0 %s\t%s\x00", strings.Repeat("0", len(f.From.Hash)), f.Path)
		} else {
			fmt.Fprintf(&written, "%s %s\t%s\x00", f.To.Mode, f.To.Hash, f.Path)
		}
	}
	if _, err := p.reading(deleted.String()+written.String()).run(ctx, "update-index", "-z",
		"--index-info"); err != nil {
		return "", err
	}
	return p.line(ctx, "write-tree")
}

// forecastCommit writes a commit that no branch has, so that the review can read it.
func (c clone) forecastCommit(ctx context.Context, tree, parent string) (string, error) {
	p := c.with("GIT_AUTHOR_NAME=bunsen", "GIT_AUTHOR_EMAIL=bunsen@localhost", "GIT_COMMITTER_NAME=bunsen",
		"GIT_COMMITTER_EMAIL=bunsen@localhost")
	return p.line(ctx, "-c", "commit.gpgSign=false", "commit-tree", tree, "-p", parent, "-m",
		"bunsen rollback --dry-run")
}

// commitTree commits a tree on a new branch in a temporary work tree, with the user's name, signing key and hooks. A
// branch that an earlier run created from the same commit and files is used again.
func (c clone) commitTree(ctx context.Context, branch, tree, parent, message string) (hash string, err error) {
	ref := "refs/heads/" + branch
	if is, err := c.line(ctx, "rev-parse", "--verify", "--quiet", ref+"^{commit}"); err == nil {
		if same, err := c.line(ctx, "rev-parse", ref+"^{tree}", ref+"^1"); err == nil && same == tree+"\n"+parent {
			return is, nil
		}
		return "", fmt.Errorf("%s has a branch %s already, with another commit. If you do not need it, delete it: "+
			"git branch -D %[2]s", c.dir, branch)
	}
	dir, err := os.MkdirTemp("", "bunsen-worktree-")
	if err != nil {
		return "", fmt.Errorf("making a directory for a work tree: %w", err)
	}
	file, at := filepath.Join(dir, "message"), filepath.Join(dir, "tree")
	defer func() {
		after := context.WithoutCancel(ctx) // The cleanup must run even after Ctrl-C.
		_, errRemove := c.run(after, "worktree", "remove", "--force", at)
		if err != nil {
			_, _ = c.run(after, "branch", "-D", branch) // The branch may not exist yet.
		} else if errRemove != nil {
			err = fmt.Errorf("removing the temporary work tree: %w", errRemove)
		}
		_ = os.RemoveAll(dir) // A temporary directory that remains does no harm.
	}()
	if err := os.WriteFile(file, []byte(message), 0o600); err != nil {
		return "", fmt.Errorf("writing the message of the commit: %w", err)
	}
	if _, err := c.run(ctx, "worktree", "add", "--quiet", "--no-track", "-b", branch, at, parent); err != nil {
		return "", err
	}
	linked, err := git.FindAt(at)
	if err != nil {
		return "", fmt.Errorf("making a work tree: %w", err)
	}
	work := c.in(linked)
	if _, err := work.run(ctx, "read-tree", "--reset", "-u", tree); err != nil {
		return "", err
	}
	if _, err := work.run(ctx, "commit", "--quiet", "--file", file); err != nil {
		return "", fmt.Errorf("committing the revert: %w", err)
	}
	return work.line(ctx, "rev-parse", "HEAD")
}

// push pushes the branch, never with force.
func (c clone) push(ctx context.Context, branch string) error {
	if c.remote == "" {
		return errors.New("--push: the directory is the repository of the GitSource itself, so there is nowhere to " +
			"push to; merge the branch there")
	}
	ref := "refs/heads/" + branch
	if _, err := c.run(ctx, "push", "--quiet", c.remote, ref+":"+ref); err != nil {
		return fmt.Errorf("pushing %s to %s: %w", branch, c.remote, err)
	}
	return nil
}
