package git_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/source/git"
)

// TestIgnoredIsWhatGitIgnores compares with `git check-ignore`, which leaves out files of the index too.
func TestIgnoredIsWhatGitIgnores(t *testing.T) {
	top := t.TempDir()
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = top
		out, _ := cmd.CombinedOutput() // check-ignore fails for a file that is not ignored.
		return strings.TrimSpace(string(out))
	}
	run("init", "-q")
	for name, text := range map[string]string{
		".gitignore": "*.key\n!kept.key\n", "a/.gitignore": "/b.txt\n", "tracked.key": "", ".git/more": "late.*\n",
	} {
		write(t, filepath.Join(top, name), text)
	}
	if err := os.Remove(filepath.Join(top, ".git/info/exclude")); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{".git/info/exclude": "../more", "c": "a", "d/.gitignore": "../.git/more"} {
		write(t, filepath.Join(top, link), "")
		if err := os.Remove(filepath.Join(top, link)); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, filepath.Join(top, link)); err != nil {
			t.Fatal(err)
		}
	}
	run("add", "-f", "tracked.key")
	at, err := git.FindAt(top)
	if err != nil {
		t.Fatal(err)
	}
	ignored := at.Ignored()
	for _, name := range []string{"x.key", "a/x.key", "kept.key", "a/b.txt", "b.txt", "late.txt", "tracked.key"} {
		got, err := ignored.Has(name)
		if want := run("check-ignore", name) == name; err != nil || got != want {
			t.Errorf("%s is ignored: %v (%v), want %v", name, got, err, want)
		}
	}
}

func TestALargeListOfPatternsIsAnError(t *testing.T) {
	top := t.TempDir()
	for name, text := range map[string]string{
		".git/HEAD": "ref: refs/heads/main\n", ".git/objects/a": "", ".git/refs/a": "", ".gitignore": "*\n",
		"a/.gitignore": strings.Repeat("a\n", 1<<19) + "!x\n",
	} {
		write(t, filepath.Join(top, name), text)
	}
	for n := range 9 {
		write(t, filepath.Join(top, "many", strings.Repeat("b/", n), ".gitignore"), strings.Repeat("#\n", 1<<19))
	}
	at, err := git.FindAt(top)
	if err != nil {
		t.Fatal(err)
	}
	ignored := at.Ignored()
	for _, name := range []string{"a/x", "many/" + strings.Repeat("b/", 8) + "x"} {
		if _, err := ignored.Has(name); err == nil || !strings.Contains(err.Error(), "too large") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if is, err := ignored.Has("x"); err != nil || !is {
		t.Errorf("x: %v %v", is, err)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
