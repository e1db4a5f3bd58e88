package up

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// example is a folder with what a user's git settings might leave out or change.
func example(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "quickstart")
	for name, content := range map[string]string{
		"pools/worker/10-chrony.bu": "variant: fcos\r\n",
		"base/ignored.log":          "kept\n",
		"script.sh":                 "#!/bin/sh\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "script.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// settings replaces the user's git settings.
func settings(t *testing.T, content string) {
	t.Helper()
	dir := t.TempDir()
	ignore := filepath.Join(dir, "ignore")
	if err := os.WriteFile(ignore, []byte("*.log\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "gitconfig")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(content, "IGNORE", ignore)), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GIT_CONFIG_GLOBAL", path)
	t.Setenv("GIT_CONFIG_SYSTEM", os.DevNull)
}

func runGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func create(t *testing.T, path, examples string) bool {
	t.Helper()
	created, err := createRepository(t.Context(), path, examples)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func TestTheFirstCommitIsTheExampleByteForByte(t *testing.T) {
	settings(t, "[core]\n\texcludesFile = IGNORE\n\tautocrlf = input\n[user]\n\tname = Ada\n"+
		"\temail = ada@example.com\n[init]\n\tdefaultBranch = trunk\n[commit]\n\tgpgsign = true\n")
	t.Setenv("GIT_DIR", "/nonexistent") // as under a git hook
	path := filepath.Join(t.TempDir(), "config.git")
	if !create(t, path, example(t)) {
		t.Fatal("nothing was made")
	}
	os.Unsetenv("GIT_DIR")
	if got := runGit(t, path, "log", "--format=%an <%ae> %s", "main"); got != "Ada <ada@example.com> Begin with the "+
		"example quickstart" {
		t.Errorf("the history is %q", got)
	}
	want := "100644 base/ignored.log\n100644 pools/worker/10-chrony.bu\n100755 script.sh"
	if got := runGit(t, path, "ls-tree", "-r", "--format=%(objectmode) %(path)", "main"); got != want {
		t.Errorf("the tree is\n%s\nwant\n%s", got, want)
	}
	if raw, _ := exec.Command("git", "-C", path, "show", "main:pools/worker/10-chrony.bu").Output(); string(
		raw) != "variant: fcos\r\n" {
		t.Errorf("line ends changed: %q", raw)
	}
}

func TestTheRepositoryCanBeClonedAndPushedTo(t *testing.T) {
	settings(t, "")
	path := filepath.Join(t.TempDir(), "config.git")
	create(t, path, example(t))
	if got := runGit(t, path, "log", "--format=%an <%ae>"); got != "Bunsen <bunsen@localhost>" {
		t.Errorf("without a name of the user's the author is %q", got)
	}
	clone := filepath.Join(t.TempDir(), "clone")
	runGit(t, ".", "clone", "--quiet", path, clone)
	if got := runGit(t, clone, "branch", "--show-current"); got != "main" {
		t.Errorf("the clone is on %q", got)
	}
	runGit(t, clone, "-c", "user.name=x", "-c", "user.email=x@x", "commit", "--quiet", "--allow-empty", "-m", "second")
	runGit(t, clone, "push", "--quiet")
	if got := runGit(t, path, "rev-list", "--count", "main"); got != "2" {
		t.Errorf("%s commits after a push", got)
	}
}

func TestARepositoryThatExistsIsLeftAsItIs(t *testing.T) {
	settings(t, "")
	path := filepath.Join(t.TempDir(), "config.git")
	create(t, path, example(t))
	before := runGit(t, path, "rev-parse", "main")
	if create(t, path, "/nonexistent") {
		t.Error("it says that it made one")
	}
	if after := runGit(t, path, "rev-parse", "main"); after != before {
		t.Errorf("main was %s, is %s", before, after)
	}
}

func TestAStartThatWasCutOffIsTakenUpAgain(t *testing.T) {
	settings(t, "")
	path := filepath.Join(t.TempDir(), "config.git")
	if err := os.MkdirAll(path+".new/objects", 0o700); err != nil {
		t.Fatal(err)
	}
	create(t, path, example(t))
	if _, err := os.Stat(path + ".new"); err == nil {
		t.Error("the half one is left")
	}
}

func TestWhatIsInTheWayIsSaid(t *testing.T) {
	settings(t, "")
	dir := t.TempDir()
	for name, tc := range map[string]struct{ path, examples, want string }{
		"no example":                     {filepath.Join(dir, "a.git"), filepath.Join(dir, "none"), "set one with --examples"},
		"a folder that is no repository": {dir, example(t), "is not a git repository"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := createRepository(t.Context(), tc.path, tc.examples)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
