package rollback_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli/rollback"

	"github.com/bunsen-os/bunsen/test/repositories"
)

// TestKindsOfClones: the revert has the same files in each kind of clone.
func TestKindsOfClones(t *testing.T) {
	for name, tt := range map[string]struct {
		make func(r repo) (dir string)
		want string // an error; empty for none
	}{
		"a linked work tree": {func(r repo) string {
			dir := filepath.Join(filepath.Dir(r.clone), "linked")
			r.git(r.clone, "worktree", "add", "--quiet", "--detach", dir)
			return dir
		}, ""},
		"a detached HEAD": {func(r repo) string {
			r.git(r.clone, "checkout", "--quiet", "--detach", "HEAD~1")
			return r.clone
		}, ""},
		"a bare clone": {func(r repo) string {
			dir := filepath.Join(filepath.Dir(r.clone), "bare.git")
			r.git(r.clone, "clone", "--quiet", "--bare", r.origin, dir)
			return dir
		}, ""},
		"a partial clone": {func(r repo) string {
			dir := filepath.Join(filepath.Dir(r.clone), "partial")
			r.git(r.origin, "config", "uploadpack.allowFilter", "true")
			r.git(r.clone, "clone", "--quiet", "--no-local", "--filter=blob:none", "--no-checkout", "file://"+r.origin,
				dir)
			return dir
		}, ""},
		"a shallow clone": {func(r repo) string {
			dir := filepath.Join(filepath.Dir(r.clone), "shallow")
			r.git(r.clone, "clone", "--quiet", "--depth=1", "file://"+r.origin, dir)
			return dir
		}, ""},
		"a mirror": {func(r repo) string {
			dir := filepath.Join(filepath.Dir(r.clone), "mirror.git")
			r.git(r.clone, "clone", "--quiet", "--bare", r.origin, dir)
			r.git(r.clone, "remote", "set-url", "upstream", dir)
			return r.clone
		}, "name it with --remote"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t)
			good := r.commit("Good", "pools/worker/10-a.bu", doc("a", "one"))
			bad := r.commit("Bad", "pools/worker/10-a.bu", doc("a", "two"))
			dir := tt.make(r)
			got, err := r.run(rollback.Options{Repo: dir}, r.choice(bad, good))
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Fatalf("the error is %v, want %s", err, tt.want)
				}
				got, err = r.run(rollback.Options{Repo: dir, Remote: "upstream"}, r.choice(bad, good))
			}
			if err != nil {
				t.Fatal(err)
			}
			if changed := strings.ReplaceAll(r.git(dir, "diff", "--name-status", got.Git.Commit+"^1", got.Git.Commit),
				"\t", " "); changed != "M pools/worker/10-a.bu" || len(got.Notes) > 0 && name != "a shallow clone" {
				t.Errorf("it changes %q, with the notes %q", changed, got.Notes)
			}
		})
	}
}

// TestSourcesThatFollowNoBranch: the base is the default branch, or the one that the user names.
func TestSourcesThatFollowNoBranch(t *testing.T) {
	for name, ref := range map[string]v1alpha1.GitRef{
		"tag": {Tag: "v2"}, "semver": {SemVer: "*"},
		"commit": {Branch: "none", Commit: strings.Repeat("0", 40)}, "default": {}, "branch": {Branch: "main"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t)
			good := r.commit("Good", "pools/worker/10-a.bu", doc("a", "one"))
			c := r.choice(r.commit("Bad", "pools/worker/10-a.bu", doc("a", "two")), good)
			c.Source.Spec.Ref = ref
			r.git(r.clone, "push", "--quiet", "upstream", "HEAD:refs/heads/release/1", "HEAD:refs/tags/v2")
			for _, base := range []string{"", "release/1"} {
				got, err := r.run(rollback.Options{Base: base}, c)
				if err != nil || got.Git.Base != map[string]string{"": "main", "release/1": "release/1"}[base] {
					t.Fatalf("the base is %s, %v", got.Git.Base, err)
				}
			}
		})
	}
}

// TestWhatTheClusterHasNotSeen: the branch moved, was rewritten, or cannot be rendered any more.
func TestWhatTheClusterHasNotSeen(t *testing.T) {
	r := newRepo(t)
	good := r.commit("Good", "pools/worker/10-a.bu", doc("a", "one"), "pools/worker/20-b.bu", doc("b", "one"))
	bad := r.commit("Bad", "pools/worker/10-a.bu", doc("a", "two"))
	r.commit("A typo", "pools/worker/20-b.bu", "variant: fcos\nversion: 1.6.0\nstorage: {file: []}\n")
	got, err := r.run(rollback.Options{}, r.choice(bad, good))
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(got.Notes, "\n")
	for _, want := range []string{
		"branch main is at ", "could not be rendered",
		"with the revert, main cannot be applied", "20-b.bu:3",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes are\n%s\nwant %q", notes, want)
		}
	}
	if strings.Contains(notes, os.TempDir()) {
		t.Errorf("the notes name a temporary directory:\n%s", notes)
	}

	r = newRepo(t)
	good = r.commit("Good", "pools/worker/10-a.bu", doc("a", "one"))
	bad = r.commit("Bad", "pools/worker/10-a.bu", doc("a", "two"))
	r.git(r.clone, "checkout", "--quiet", "--orphan", "new")
	r.git(r.clone, "commit", "--quiet", "-m", "All in one")
	r.git(r.clone, "push", "--quiet", "--force", "upstream", "HEAD:main")
	got, err = r.run(rollback.Options{}, r.choice(bad, good))
	if notes := strings.Join(got.Notes, "\n"); err != nil || !strings.Contains(notes, "it was rewritten") ||
		r.changed(got.Git.Commit) != "M pools/worker/10-a.bu" {
		t.Errorf("after a rewrite: %v, notes %q", err, notes)
	}
}

// TestTheRollbackOfAMerge: the merge commit itself has a change that no parent has.
func TestTheRollbackOfAMerge(t *testing.T) {
	r := newRepo(t)
	good := r.commit("Good", "pools/worker/10-a.bu", doc("a", "one"))
	r.git(r.clone, "checkout", "--quiet", "-b", "topic")
	r.write("README.md", "two")
	r.git(r.clone, "add", "--all")
	r.git(r.clone, "commit", "--quiet", "-m", "On a branch")
	r.git(r.clone, "checkout", "--quiet", "main")
	r.git(r.clone, "merge", "--quiet", "--no-ff", "--no-commit", "topic")
	bad := r.commit("Merge topic", "pools/worker/10-a.bu", doc("a", "two"))
	got, err := r.run(rollback.Options{}, r.choice(bad, good))
	if err != nil || len(got.Commits) != 1 ||
		got.Commits[0] != (rollback.Commit{Hash: bad, Author: "Ada <ada@example.com>", Subject: "Merge topic"}) {
		t.Fatalf("%+v, %v", got.Commits, err)
	}
}

// TestNoCommitHides: the list of reverted commits has each one, whatever its author wrote.
func TestNoCommitHides(t *testing.T) {
	r := newRepo(t)
	good := r.commit("Good", "pools/worker/10-a.bu", doc("a", "one"))
	t.Setenv("GIT_AUTHOR_NAME", "Ada\x1fLovelace")
	hidden := r.commit("A\x1fsubject", "pools/worker/20-b.bu", doc("b", "two"))
	bad := r.commit("Bad", "pools/worker/10-a.bu", doc("a", "two"))
	got, err := r.run(rollback.Options{}, r.choice(bad, good))
	if err != nil || len(got.Commits) != 2 || got.Commits[0].Hash != bad || got.Commits[1].Hash != hidden {
		t.Fatalf("%+v, %v", got.Commits, err)
	}
}

// TestGitOpensTheRepositoryThatBunsenReads runs the table of paths: git works in the same repository as the reader, and
// not in the one that its own search or GIT_DIR would find.
func TestGitOpensTheRepositoryThatBunsenReads(t *testing.T) {
	newRepo(t)
	root := t.TempDir()
	cases := repositories.Make(t, root)
	t.Setenv("GIT_DIR", filepath.Join(root, "made", "plain", ".git"))
	for _, c := range cases {
		t.Run(c.Sentence, func(t *testing.T) {
			if c.Dir != "" {
				t.Chdir(c.Dir)
			}
			got, err := rollback.GitIn(t.Context(), c.Path, "log", "-1", "--format=%s", "HEAD")
			switch want := c.Around; {
			case c.Sentence == "a repository without a commit":
			case want.Subject == "" && (err == nil || !strings.Contains(err.Error(), want.Refusal)):
				t.Errorf("git reads %q, %v; want an error with %q", got, err, want.Refusal)
			case want.Subject != "" && (err != nil || got != want.Subject):
				t.Errorf("git reads %q, %v; want %q", got, err, want.Subject)
			}
		})
	}
}

// TestTheRepositoryOfAnotherUserIsNotRun: git runs what a repository's config names, so bunsen does not run it in a
// repository of another user, whose path bunsen tells it, unless the user trusts the repository as git wants it.
func TestTheRepositoryOfAnotherUserIsNotRun(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to another user")
	}
	r := newRepo(t)
	r.commit("One", "pools/worker/10-a.bu", doc("a", "one"))
	if err := filepath.WalkDir(r.clone, func(p string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, 65534, 65534))
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := rollback.GitIn(t.Context(), r.clone, "log"); err == nil ||
		!strings.Contains(err.Error(), "safe.directory") {
		t.Errorf("git runs in the repository of another user: %v", err)
	}
	config := filepath.Join(t.TempDir(), "config")
	t.Setenv("GIT_CONFIG_GLOBAL", config)
	r.git("/", "config", "--global", "safe.directory", r.clone)
	if got, err := rollback.GitIn(t.Context(), r.clone, "log", "-1", "--format=%s"); err != nil || got != "One" {
		t.Errorf("git refuses a repository that the user trusts: %q, %v", got, err)
	}
}
