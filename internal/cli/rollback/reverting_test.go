package rollback_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/cli/rollback"
)

// repo is a bare repository and a clone of it, made by the git program.
type repo struct {
	t             *testing.T
	origin, clone string
}

func newRepo(t *testing.T) repo {
	t.Helper()
	for k, v := range map[string]string{
		"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "KUBECONFIG": filepath.Join(t.TempDir(), "none"),
		"BUNSEN_TOKEN": "", "GITEA_TOKEN": "",
		"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.com", "GIT_COMMITTER_NAME": "Ada",
		"GIT_COMMITTER_EMAIL": "ada@example.com",
	} {
		t.Setenv(k, v)
	}
	dir := t.TempDir()
	r := repo{t, filepath.Join(dir, "origin.git"), filepath.Join(dir, "clone")}
	r.git(dir, "init", "--quiet", "--bare", "--initial-branch=main", r.origin)
	r.git(dir, "init", "--quiet", "--initial-branch=main", r.clone)
	r.git(r.clone, "remote", "add", "upstream", r.origin)
	return r
}

func (r repo) git(dir string, args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes files (those that are empty are removed), and pushes a commit. It returns its hash.
func (r repo) commit(subject string, files ...string) string {
	r.t.Helper()
	r.write(files...)
	r.git(r.clone, "add", "--all")
	r.git(r.clone, "commit", "--quiet", "-m", subject)
	r.git(r.clone, "push", "--quiet", "upstream", "HEAD:main")
	return r.git(r.clone, "rev-parse", "HEAD")
}

func (r repo) write(files ...string) {
	r.t.Helper()
	for i := 0; i < len(files); i += 2 {
		name := filepath.Join(r.clone, files[i])
		err := os.Remove(name)
		if files[i+1] != "" {
			err = errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(files[i+1]), 0o644))
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

func doc(name, text string) string {
	return fmt.Sprintf("variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n    - path: /etc/%s.conf\n"+
		"      contents:\n        inline: %s\n", name, text)
}

func (r repo) choice(from, to string) rollback.Choice {
	src := &v1alpha1.GitSource{
		ObjectMeta: metav1.ObjectMeta{Name: "config"},
		Spec:       v1alpha1.GitSourceSpec{URL: r.origin},
	}
	src.Status.AppliedRevision = "main@sha1:" + from
	return rollback.Choice{Pool: "worker", Source: src, From: rollback.Step{
		Revision: "main@sha1:" + from,
		Subject:  "Bad",
	}, To: rollback.Step{Revision: "main@sha1:" + to, Subject: "Good"}}
}

func (r repo) run(o rollback.Options, c rollback.Choice) (rollback.Result, error) {
	r.t.Helper()
	if o.Repo == "" {
		o.Repo = r.clone
	}
	result, _, err := o.Run(r.t.Context(), c, kube.Target{})
	return result, err
}

// changed are the files that a commit changes, as git prints them.
func (r repo) changed(commit string) string {
	return strings.ReplaceAll(r.git(r.clone, "show", "--format=", "--name-status", "--no-renames", commit), "\t", " ")
}

// TestTheFilesThatReachThePoolReturn reverts commits of several shapes, and compares the files of the new commit.
func TestTheFilesThatReachThePoolReturn(t *testing.T) {
	start := []string{
		"pools/worker/10-a.bu", doc("a", "one"), "pools/worker/20-b.bu", doc("b", "one"),
		"pools/infra/10-i.bu", doc("i", "one"), "README.md", "one",
	}
	shared := []string{
		"pools/worker/kustomization.yaml", "resources: [10-a.bu, ../../base]\n", "pools/worker/20-b.bu", "",
		"base/kustomization.yaml", "resources: [c.bu]\npatches: [{path: less.yaml, target: {name: c}}]\n", "base/c.bu",
		doc("c", "one"),
		"base/less.yaml", "storage: {files: [{path: /etc/c.conf, $patch: delete}]}\n",
	}
	for _, tt := range []struct {
		name string
		make func(r repo) (good, bad string)
		all  bool
		want []string // of git show --name-status
		note string
	}{
		{"changed, added, deleted", func(r repo) (string, string) {
			return r.commit("Good", start...), r.commit("Bad", "pools/worker/10-a.bu", doc("a", "two"),
				"pools/worker/20-b.bu", "", "pools/worker/30-c.bu", doc("c", "two"))
		}, false, []string{"M pools/worker/10-a.bu", "A pools/worker/20-b.bu", "D pools/worker/30-c.bu"}, ""},
		{"other pools and files stay", func(r repo) (string, string) {
			return r.commit("Good", start...), r.commit("Bad", "pools/worker/10-a.bu", doc("a", "two"),
				"pools/infra/10-i.bu", doc("i", "two"), "README.md", "two")
		}, false, []string{"M pools/worker/10-a.bu"}, ""},
		{"all files", func(r repo) (string, string) {
			return r.commit("Good", start...), r.commit("Bad", "pools/worker/10-a.bu", doc("a", "two"),
				"pools/infra/10-i.bu", doc("i", "two"), "README.md", "two")
		}, true, []string{"M README.md", "M pools/infra/10-i.bu", "M pools/worker/10-a.bu"}, ""},
		{"later commits of other files stay", func(r repo) (string, string) {
			good, bad := r.commit("Good", start...), r.commit("Bad", "pools/worker/10-a.bu", doc("a", "two"))
			r.commit("Later", "pools/infra/10-i.bu", doc("i", "three"))
			return good, bad
		}, false, []string{"M pools/worker/10-a.bu"}, "branch main is at "},
		{"a later commit of the pool stays", func(r repo) (string, string) {
			good, bad := r.commit("Good", start...), r.commit("Bad", "pools/worker/10-a.bu", doc("a", "two"))
			r.commit("Later", "pools/worker/20-b.bu", doc("b", "three"))
			return good, bad
		}, false, []string{"M pools/worker/10-a.bu"}, "does not get the same config as with"},
		{"a merge commit", func(r repo) (string, string) {
			good := r.commit("Good", start...)
			r.git(r.clone, "checkout", "--quiet", "-b", "topic")
			r.write("pools/worker/10-a.bu", doc("a", "two"))
			r.git(r.clone, "commit", "--quiet", "-am", "On a branch")
			r.git(r.clone, "checkout", "--quiet", "main")
			r.commit("Beside", "README.md", "two")
			r.git(r.clone, "merge", "--quiet", "--no-ff", "-m", "Merge", "topic")
			return good, r.commit("After", "README.md", "three")
		}, false, []string{"M pools/worker/10-a.bu"}, ""},
		{"a shared patch without an item of its own", func(r repo) (string, string) {
			r.commit("Start", start...)
			return r.commit("Good", shared...), r.commit("Bad", "base/kustomization.yaml", "resources: [c.bu]\n",
				"base/less.yaml", "")
		}, false, []string{"A base/less.yaml", "M base/kustomization.yaml"}, ""},
		{"names with blanks, quotes, line breaks and non-ASCII letters", func(r repo) (string, string) {
			return r.commit("Good", start...), r.commit("Bad", "pools/worker/files/a \"b\"\n\u00fc", "x",
				"pools/worker/files/:(top)x", "y")
		}, true, []string{`D "pools/worker/files/:(top)x"`, `D "pools/worker/files/a \"b\"\n\303\274"`}, ""},
		{"a directory that replaced a file", func(r repo) (string, string) {
			good := r.commit("Good", append(start, "pools/worker/files/x", "one")...)
			r.write("pools/worker/files/x", "")
			return good, r.commit("Bad", "pools/worker/files/x/y", "two")
		}, false, []string{"A pools/worker/files/x", "D pools/worker/files/x/y"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRepo(t)
			good, bad := tt.make(r)
			got, err := r.run(rollback.Options{AllFiles: tt.all}, r.choice(bad, good))
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(r.changed(got.Git.Commit), "\n")
			for _, l := range append(slices.Clone(tt.want), lines...) {
				if plain := strings.NewReplacer(`"pools/worker/files/:(top)x"`, `pools/worker/files/:(top)x`).
					Replace(l); !slices.ContainsFunc(lines, func(x string) bool { return x == l || x == plain }) ||
					len(lines) != len(tt.want) {
					t.Fatalf("the commit changes\n%s\nwant\n%s\nnotes: %q", strings.Join(lines, "\n"),
						strings.Join(tt.want, "\n"), got.Notes)
				}
			}
			if notes := strings.Join(got.Notes, "\n"); !strings.Contains(notes, tt.note) || tt.note == "" &&
				notes != "" {
				t.Errorf("the notes are %q, want %q", notes, tt.note)
			}
			if branch := r.git(r.clone, "rev-parse", got.Git.Branch); branch != got.Git.Commit {
				t.Errorf("the branch is at %s, want %s", branch, got.Git.Commit)
			}
			if trees := r.git(r.clone, "worktree", "list"); strings.Contains(trees, "\n") {
				t.Errorf("a work tree remains:\n%s", trees)
			}
		})
	}
}

// TestWhatCannotBeReverted: bunsen changes nothing, and says why and what to do.
func TestWhatCannotBeReverted(t *testing.T) {
	for name, tt := range map[string]struct {
		options rollback.Options
		then    func(r repo, c *rollback.Choice)
		want    []string
	}{
		"a later commit of the same file": {rollback.Options{}, func(r repo, _ *rollback.Choice) {
			r.commit("A fix that \x1b[31m failed", "pools/worker/10-a.bu", doc("a", "three"))
		}, []string{
			"later commits of main changed files that the rollback would restore", "  pools/worker/10-a.bu\n",
			`"A fix that`, "git revert",
		}},
		"already reverted": {rollback.Options{}, func(r repo, _ *rollback.Choice) {
			r.commit("Undo", "pools/worker/10-a.bu", doc("a", "one"))
		}, []string{"nothing to revert: branch main has reverted everything that reaches pool worker"}},
		"another branch of the same name": {rollback.Options{}, func(r repo, c *rollback.Choice) {
			r.git(r.clone, "branch", c.Branch())
		}, []string{"has a branch bunsen/rollback-worker-", "git branch -D"}},
		"a hook refuses": {rollback.Options{}, func(r repo, _ *rollback.Choice) {
			hook := filepath.Join(r.clone, ".git", "hooks", "commit-msg")
			if err := errors.Join(os.MkdirAll(filepath.Dir(hook), 0o755),
				os.WriteFile(hook, []byte("#!/bin/sh\necho no ticket >&2\nexit 1\n"), 0o755)); err != nil {
				r.t.Fatal(err)
			}
		}, []string{"committing the revert", "no ticket"}},
		"another repository": {rollback.Options{}, func(_ repo, c *rollback.Choice) {
			c.Source.Spec.URL = "https://user:hunter2@git.example.com/os/config.git"
		}, []string{"no remote of ", "https://git.example.com/os/config.git", "--remote"}},
		"no such remote":        {rollback.Options{Remote: "origin"}, nil, []string{"--remote origin: ", "has no such remote"}},
		"no such branch":        {rollback.Options{Base: "release"}, nil, []string{"fetching branch release of "}},
		"a branch as an option": {rollback.Options{Base: "--upload-pack=touch /tmp/x"}, nil, []string{"is no name of a branch"}},
		"the same commit":       {rollback.Options{}, func(_ repo, c *rollback.Choice) { c.To = c.From }, []string{"is not older than"}},
		"a commit that the clone does not have": {rollback.Options{}, func(_ repo, c *rollback.Choice) {
			c.To = rollback.Step{Revision: "0123456789abcdef0123456789abcdef01234567"}
		}, []string{"has no commit 0123456789abcdef", "git fetch --unshallow"}},
		"a status that is an option of git": {rollback.Options{}, func(r repo, c *rollback.Choice) {
			c.To = rollback.Step{Revision: "--upload-pack=touch evil; git-upload-pac"}
			r.t.Cleanup(func() {
				if _, err := os.Stat(filepath.Join(r.clone, "evil")); err == nil {
					r.t.Error("bunsen ran a command of the status")
				}
			})
		}, []string{"is no hash of a commit"}},
		"a status that is a branch": {rollback.Options{}, func(_ repo, c *rollback.Choice) {
			c.To = rollback.Step{Revision: "upstream/main~1"}
		}, []string{"is no hash of a commit"}},
		"a tag with the digits of another commit": {rollback.Options{}, func(r repo, c *rollback.Choice) {
			digits := c.To.Hash()[:8]
			r.git(r.clone, "tag", digits, r.git(r.clone, "commit-tree", "HEAD^{tree}", "-m", "Evil"))
			c.To = rollback.Step{Revision: digits}
		}, []string{"has a branch or a tag with the name", "all 40 digits"}},
		"no repository": {rollback.Options{Repo: os.TempDir()}, nil, []string{"is not in a git repository"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t)
			good := r.commit("Good", "pools/worker/10-a.bu", doc("a", "one"))
			c := r.choice(r.commit("Bad", "pools/worker/10-a.bu", doc("a", "two")), good)
			if tt.then != nil {
				tt.then(r, &c)
			}
			before := r.git(r.clone, "for-each-ref", "refs/heads", "--format=%(refname) %(objectname)")
			_, err := r.run(tt.options, c)
			if err == nil {
				t.Fatal("it was prepared")
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("the error is\n%v\nwant %q", err, w)
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error has a password: %v", err)
			}
			if after := r.git(r.clone, "for-each-ref", "refs/heads",
				"--format=%(refname) %(objectname)"); after != before {
				t.Errorf("the branches were\n%s\nand are\n%s", before, after)
			}
			if trees := r.git(r.clone, "worktree", "list"); strings.Contains(trees, "\n") {
				t.Errorf("a work tree remains:\n%s", trees)
			}
		})
	}
}

// TestTheWorkTreeOfTheUserStays: open changes, the index and the current branch are those of before. A second run finds
// the branch, and pushes it.
func TestTheWorkTreeOfTheUserStays(t *testing.T) {
	r := newRepo(t)
	good := r.commit("Good", "sub/pools/worker/10-a.bu", doc("a", "one"))
	bad := r.commit("Bad", "sub/pools/worker/10-a.bu", doc("a", "two"))
	r.git(r.clone, "checkout", "--quiet", "-b", "mine")
	r.write("sub/pools/worker/10-a.bu", doc("a", "mine"), "new", "file")
	r.git(r.clone, "add", "new")
	before := r.git(r.clone, "status", "--porcelain=v2", "--branch")
	c := r.choice(bad, good)
	c.Source.Spec.Path = "sub"
	first, err := r.run(rollback.Options{Repo: filepath.Join(r.clone, "sub")}, c)
	if err != nil {
		t.Fatal(err)
	}
	if after := r.git(r.clone, "status", "--porcelain=v2", "--branch"); after != before {
		t.Errorf("the state was\n%s\nand is\n%s", before, after)
	}
	second, err := r.run(rollback.Options{Push: true}, c)
	if err != nil || second.Git.Commit != first.Git.Commit || !second.Git.Pushed {
		t.Fatalf("the second run: %+v, %v", second.Git, err)
	}
	if at := r.git(r.origin, "rev-parse", first.Git.Branch); at != first.Git.Commit {
		t.Errorf("the pushed branch is at %s, want %s", at, first.Git.Commit)
	}
	if message := r.git(r.clone, "show", "--no-patch", "--format=%B%an", first.Git.Commit); !strings.HasPrefix(message,
		"Revert \"Bad\"\n\nThis returns pool worker to\n") ||
		!strings.Contains(message, "This reverts commit "+bad+".\n") || !strings.HasSuffix(message, "Ada") {
		t.Errorf("the message is\n%s", message)
	}
}

// TestWithoutACloneOfTheUser: bunsen pushes from a temporary clone, and leaves nothing behind.
func TestWithoutACloneOfTheUser(t *testing.T) {
	r := newRepo(t)
	good := r.commit("Good", "pools/worker/10-a.bu", doc("a", "one"))
	c := r.choice(r.commit("Bad", "pools/worker/10-a.bu", doc("a", "two")), good)
	t.Chdir(t.TempDir())
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	if _, _, err := (rollback.Options{}).Run(t.Context(), c, kube.Target{}); err == nil ||
		!strings.Contains(err.Error(), "--push: bunsen then works in a temporary clone") {
		t.Fatalf("without --push: %v", err)
	}
	got, _, err := (rollback.Options{Push: true}).Run(t.Context(), c, kube.Target{})
	if err != nil {
		t.Fatal(err)
	}
	if at := r.git(r.origin, "rev-parse", got.Git.Branch); at != got.Git.Commit || got.Git.Directory != "" {
		t.Errorf("the pushed branch is at %s, want %s; the directory is %q", at, got.Git.Commit, got.Git.Directory)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestTheRepositoryOfTheSourceItself: the clone is the repository that the controller follows by its path.
func TestTheRepositoryOfTheSourceItself(t *testing.T) {
	r := newRepo(t)
	good := r.commit("Good", "pools/worker/10-a.bu", doc("a", "one"))
	c := r.choice(r.commit("Bad", "pools/worker/10-a.bu", doc("a", "two")), good)
	c.Source.Spec.URL = "file://" + r.clone
	r.git(r.clone, "remote", "remove", "upstream")
	got, err := r.run(rollback.Options{}, c)
	if err != nil || r.changed(got.Git.Commit) != "M pools/worker/10-a.bu" ||
		!strings.Contains(strings.Join(got.Todo, "\n"), "merge bunsen/rollback-worker-") {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := r.run(rollback.Options{Push: true}, c); err == nil ||
		!strings.Contains(err.Error(), "nowhere to push to") {
		t.Errorf("--push: %v", err)
	}
}

// TestASignedCommit: git signs the commit if the user's configuration says so.
func TestASignedCommit(t *testing.T) {
	r := newRepo(t)
	good := r.commit("Good", "pools/worker/10-a.bu", doc("a", "one"))
	c := r.choice(r.commit("Bad", "pools/worker/10-a.bu", doc("a", "two")), good)
	key := filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("making a key: %v\n%s", err, out)
	}
	for _, kv := range [][2]string{{"gpg.format", "ssh"}, {"user.signingKey", key}, {"commit.gpgSign", "true"}} {
		r.git(r.clone, "config", kv[0], kv[1])
	}
	got, err := r.run(rollback.Options{}, c)
	if err != nil {
		t.Fatal(err)
	}
	if raw := r.git(r.clone, "cat-file", "commit", got.Git.Commit); !strings.Contains(raw, "BEGIN SSH SIGNATURE") {
		t.Errorf("the commit has no signature:\n%s", raw)
	}
}
