package vm

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository is a work tree, and the bare repository that the controller follows.
type repository struct{ tree, bare string }

// newRepository makes the first commit out of a folder, with words replaced.
func newRepository(t *testing.T, dir, from string, words ...string) *repository {
	t.Helper()
	r := &repository{tree: filepath.Join(dir, "config"), bare: filepath.Join(dir, "config.git")}
	replace := strings.NewReplacer(words...)
	err := filepath.WalkDir(from, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(from, at)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		return r.write(rel, replace.Replace(string(text)))
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "-q", "--bare", "-b", "main", r.bare},
		{"init", "-q", "-b", "main"},
		{"remote", "add", "origin", r.bare},
	} {
		if _, err := r.git(args...); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// write puts a file into the work tree.
func (r *repository) write(name, text string) error {
	path := filepath.Join(r.tree, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// edit replaces text in a file, which must have it.
func (r *repository) edit(name, old, with string) error {
	text, err := os.ReadFile(filepath.Join(r.tree, name))
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), old) {
		return fmt.Errorf("%s does not have %q", name, old)
	}
	return r.write(name, strings.ReplaceAll(string(text), old, with))
}

// commit commits everything and pushes it; it returns the commit and its diff, as a reviewer sees it.
func (r *repository) commit(subject string) (hash, diff string, err error) {
	if _, err = r.git("add", "--all"); err != nil {
		return "", "", err
	}
	if _, err = r.git("commit", "-q", "-m", subject); err != nil {
		return "", "", err
	}
	return r.push()
}

// revert takes back the last commit and pushes that.
func (r *repository) revert() (hash, diff string, err error) {
	if _, err = r.git("revert", "--no-edit", "HEAD"); err != nil {
		return "", "", err
	}
	return r.push()
}

func (r *repository) push() (hash, diff string, err error) {
	if _, err = r.git("push", "-q", "origin", "HEAD:main"); err != nil {
		return "", "", err
	}
	if hash, err = r.git("rev-parse", "HEAD"); err != nil {
		return "", "", err
	}
	diff, err = r.git("show", "--format=%h %s", "--stat", "--no-color")
	return hash, diff, err
}

func (r *repository) git(args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-C", r.tree}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Ada Lovelace", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada Lovelace",
		"GIT_COMMITTER_EMAIL=ada@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}
