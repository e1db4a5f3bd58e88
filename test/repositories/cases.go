package repositories

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Case is a path and what it must lead to.
type Case struct {
	// Sentence says what the path is.
	Sentence string
	// Dir is the current directory; empty if it does not matter.
	Dir, Path string
	// Around is for a command that takes the path for a folder in a repository. At is for a GitSource, whose URL is the
	// path of the repository itself.
	Around, At Want
}

// Want is the repository that a path must lead to.
type Want struct {
	// Subject is that of HEAD's commit; empty if the path must be refused.
	Subject string
	// Folder is the path of the folder in the work tree.
	Folder string
	// Refusal is a part of the error.
	Refusal string
}

func at(subject string) Want             { return Want{Subject: subject} }
func folder(subject, folder string) Want { return Want{Subject: subject, Folder: folder} }
func refused(text string) Want           { return Want{Refusal: text} }

// world is a directory in which git makes repositories.
type world struct {
	t    testing.TB
	root string
}

// Git runs git in a directory, independent of the settings of whoever runs the test.
func Git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "protocol.file.allow=always"}, args...)...)
	cmd.Dir = dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GIT_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada",
		"GIT_COMMITTER_EMAIL=ada@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q in %s: %v\n%s", args, dir, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (w world) path(name string) string { return filepath.Join(w.root, filepath.FromSlash(name)) }

func (w world) git(dir string, args ...string) string {
	w.t.Helper()
	return Git(w.t, w.path(dir), args...)
}

func (w world) write(name, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(w.path(name)), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.path(name), []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w world) symlink(to, name string) {
	w.t.Helper()
	if err := os.Symlink(to, w.path(name)); err != nil {
		w.t.Fatal(err)
	}
}

// document is a document of a pool.
const document = "variant: fcos\nversion: 1.6.0\nstorage: {files: [{path: /etc/a, contents: {inline: a}}]}\n"

// commit commits everything in a work tree.
func (w world) commit(dir, subject string) {
	w.t.Helper()
	w.write(dir+"/pools/worker/10-a.bu", document)
	w.git(dir, "add", "--all")
	w.git(dir, "commit", "--quiet", "--allow-empty", "-m", subject)
}

// tree makes a work tree with one commit.
func (w world) tree(dir string, options ...string) {
	w.t.Helper()
	w.git(".", append(append([]string{"init", "--quiet", "--initial-branch=main"}, options...), w.path(dir))...)
	w.commit(dir, "of "+dir)
}

// bare makes a bare repository with one commit.
func (w world) bare(dir string, options ...string) {
	w.t.Helper()
	from := "made/" + strings.ReplaceAll(dir, "/", "-")
	w.tree(from, options...)
	w.git(from, "commit", "--quiet", "--amend", "-m", "of "+dir)
	w.git(".", append(append([]string{"init", "--quiet", "--bare", "--initial-branch=main"}, options...),
		w.path(dir))...)
	w.git(from, "push", "--quiet", w.path(dir), "main")
}

// plant copies a bare repository, as a commit could bring it, into a folder. Its config names a work tree, a file to
// include and a program elsewhere, and its list of alternates the objects of another repository.
func (w world) plant(dir string) {
	w.t.Helper()
	if _, err := os.Stat(w.path("evil.git")); err != nil {
		w.bare("evil.git")
	}
	if err := os.CopyFS(w.path(dir), os.DirFS(w.path("evil.git"))); err != nil {
		w.t.Fatal(err)
	}
	w.write(dir+"/refs/keep", "")
	w.write(dir+"/objects/info/alternates", w.path("made/evil.git/.git/objects")+"\n")
	w.write(dir+"/pools/worker/10-a.bu", document)
	w.write(dir+"/config", fmt.Sprintf("[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = %s\n"+
		"\tfsmonitor = %s\n"+
		"[include]\n\tpath = %s\n", w.root, w.path("program"), w.path("included")))
}

// Make makes the repositories in a directory, and returns the cases.
func Make(t testing.TB, root string) []Case {
	t.Helper()
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		t.Fatal(err)
	}
	w := world{t, root}
	w.tree("outer")
	w.write("outer/.gitignore", "/.run/\n")
	w.plant("outer/planted")
	w.commit("outer", "of outer")
	w.bare("outer/.run/config.git")
	w.bare("outer/untracked")
	w.tree("outer/inner")
	w.write("outer/link/.git", "gitdir: ../planted\n")
	w.write("outer/linkdir/README", "")
	w.symlink("../planted", "outer/linkdir/.git")
	w.write("outer/nothing/.git/README", "an incomplete .git is none")
	w.write("outer/broken/.git", "gitdir: ../away\n")
	w.write("outer/garbage/.git", "hello\n")
	w.symlink("outer/.run/config.git", "to-bare")
	w.symlink("outer/pools/worker", "to-folder")
	w.symlink("outer/planted", "to-planted")
	w.write("outside/README", "")

	w.tree("other")
	w.git("other", "worktree", "add", "--quiet", "--detach", w.path("worktree"))
	w.plant("worktree/planted")
	w.commit("worktree", "of worktree")
	w.git("other", "worktree", "add", "--quiet", "--detach", w.path("outer/.run/worktree"), "main")
	w.tree("module")
	w.plant("module/planted")
	w.commit("module", "of module")
	w.git("other", "submodule", "--quiet", "add", w.path("module"), "lib")
	w.git("other", "commit", "--quiet", "-m", "of other")
	w.tree("apart", "--separate-git-dir="+w.path("apart-objects"))
	w.bare("plain")
	w.bare("with space & more.git")

	// Ways to have planted files without an entry of their own in the index that a simple reader would see.
	w.tree("forgotten")
	w.plant("forgotten/planted")
	w.commit("forgotten", "of forgotten")
	w.git("forgotten", "rm", "-r", "--quiet", "--cached", "planted")
	w.tree("split")
	w.plant("split/planted")
	w.git("split", "add", "--all")
	w.git("split", "update-index", "--split-index")
	w.bare("split/untracked.git")
	w.tree("sparse")
	w.plant("sparse/dir/planted")
	w.commit("sparse", "of sparse")
	w.git("sparse", "sparse-checkout", "set", "--cone", "--sparse-index", "pools")
	w.plant("sparse/dir/planted")
	w.bare("sparse/dir/untracked.git")

	w.tree("elsewhere") // git reads the files of outside as its work tree
	w.git("elsewhere", "config", "core.worktree", w.path("outside"))
	w.git(".", "clone", "--quiet", "--shared", w.path("other"), w.path("shared"))
	w.git(".", "clone", "--quiet", "--bare", "--shared", w.path("shared"), w.path("shared-twice.git"))
	w.write("shared/.git/objects/info/alternates", "../../../other/.git/objects\n")
	w.tree("sha256", "--object-format=sha256")
	w.bare("sha256/untracked.git")
	w.tree("reftable")
	w.git("reftable", "config", "core.repositoryFormatVersion", "1")
	w.git("reftable", "config", "extensions.refStorage", "reftable")
	w.tree("newer")
	w.git("newer", "config", "core.repositoryFormatVersion", "1")
	w.git("newer", "config", "extensions.surprise", "true")
	w.git(".", "init", "--quiet", "--bare", w.path("empty.git"))
	return w.cases()
}

func (w world) cases() []Case {
	const (
		planted, none, notIn = "a commit contains it", "there is no git repository at ", "is not in a git repository"
	)
	both := func(sentence, path string, want Want) Case {
		return Case{Sentence: sentence, Path: w.path(path), Around: want, At: want}
	}
	return []Case{
		both("a bare repository", "plain", at("of plain")),
		both("a bare repository in a work tree that ignores it", "outer/.run/config.git",
			at("of outer/.run/config.git")),
		both("an untracked bare repository in a work tree", "outer/untracked", at("of outer/untracked")),
		both("a path with spaces", "with space & more.git", at("of with space & more.git")),
		both("a symbolic link to a bare repository", "to-bare", at("of outer/.run/config.git")),
		both("a work tree", "outer", at("of outer")),
		both("the .git of a work tree", "outer/.git", at("of outer")),
		both("a work tree in a work tree", "outer/inner", at("of outer/inner")),
		both("a linked work tree", "worktree", at("of worktree")),
		both("a linked work tree in another work tree", "outer/.run/worktree", at("of other")),
		both("the directory of git of a linked work tree", "other/.git/worktrees/worktree", at("of worktree")),
		both("a submodule", "other/lib", at("of module")),
		both("the directory of git of a submodule", "other/.git/modules/lib", at("of module")),
		both("a work tree whose .git names a directory elsewhere", "apart", at("of apart")),
		both("a work tree with core.worktree", "elsewhere", at("of elsewhere")),
		both("a sparse work tree", "sparse", at("of sparse")),
		both("a clone that borrows objects, by a relative path", "shared", at("of other")),
		both("a clone that borrows objects from a clone that borrows them", "shared-twice.git", at("of other")),
		both("an untracked bare repository beside a split index", "split/untracked.git", at("of split/untracked.git")),
		both("an untracked bare repository beside a sparse index", "sparse/dir/untracked.git",
			at("of sparse/dir/untracked.git")),

		{"a relative path", w.path("outer/.run"), "config.git", at("of outer/.run/config.git"), at("of outer/.run/config.git")},
		{"the current directory", w.path("outer/pools"), ".", folder("of outer", "pools"), refused(none)},
		{"no path", w.path("outer/pools"), "", folder("of outer", "pools"), refused(none)},
		{
			"a file URL", "", "file://" + strings.ReplaceAll(w.path("with space & more.git"), " ", "%20"),
			at("of with space & more.git"), at("of with space & more.git"),
		},

		{"a folder in a work tree", "", w.path("outer/pools/worker"), folder("of outer", "pools/worker"), refused(none)},
		{"a folder in a bare repository", "", w.path("plain/refs/heads"), at("of plain"), refused(none)},
		{"a folder in a linked work tree", "", w.path("worktree/pools"), folder("of worktree", "pools"), refused(none)},
		{"a folder in a submodule", "", w.path("other/lib/pools"), folder("of module", "pools"), refused(none)},
		{"a symbolic link to a folder in a work tree", "", w.path("to-folder"), folder("of outer", "pools/worker"), refused(none)},
		{"a directory whose .git is no repository", "", w.path("outer/nothing"), folder("of outer", "nothing"), refused(none)},

		{"a planted repository", "", w.path("outer/planted"), folder("of outer", "planted"), refused(planted)},
		{"a folder in a planted repository", "", w.path("outer/planted/refs"), folder("of outer", "planted/refs"), refused(none)},
		{"a symbolic link to a planted repository", "", w.path("to-planted"), folder("of outer", "planted"), refused(planted)},
		{"a planted repository in a linked work tree", "", w.path("worktree/planted"), folder("of worktree", "planted"), refused(planted)},
		{"a planted repository in a submodule", "", w.path("other/lib/planted"), folder("of module", "planted"), refused(planted)},
		{"a planted repository that the index has lost", "", w.path("forgotten/planted"), folder("of forgotten", "planted"), refused(planted)},
		{"a planted repository in a split index", "", w.path("split/planted"), folder("of split", "planted"), refused(planted)},
		{"a planted repository in a sparse index", "", w.path("sparse/dir/planted"), folder("of sparse", "dir/planted"), refused(planted)},
		both("a file .git that leads to a planted repository", "outer/link", refused(planted)),
		both("a link .git that leads to a planted repository", "outer/linkdir", refused(planted)),

		both("a file .git that leads nowhere", "outer/broken", refused("which is not a repository")),
		both("a file .git with another text", "outer/garbage", refused("names no repository")),
		both("a path that does not exist", "outer/away", refused("there is no directory ")),
		both("a file", "outer/pools/worker/10-a.bu", refused("is a file, and a git repository is a directory")),
		{"a directory outside of all repositories", "", w.path("outside"), refused(notIn), refused(none)},
		both("a repository with SHA-256 names", "sha256", refused("SHA-256 object names, which are not supported")),
		both("an untracked bare repository beside SHA-256 names", "sha256/untracked.git",
			refused("contains untracked.git")),
		both("a repository with a reftable", "reftable", refused("git refs migrate --ref-format=files")),
		both("a repository of a newer format", "newer", refused("surprise")),
		{"a repository without a commit", "", w.path("empty.git"), refused("no commit yet"), refused("")},
	}
}
