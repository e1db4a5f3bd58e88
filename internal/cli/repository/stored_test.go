package repository

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestResultsInARepositoryAreNotUsed: whoever pushes could bring them.
func TestResultsInARepositoryAreNotUsed(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, ".cache"))
	if _, err := openResults(); err != nil {
		t.Fatalf("beside a repository: %v", err)
	}
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := openResults(); err == nil || !strings.Contains(err.Error(), "is in a git repository") {
		t.Errorf("in a repository, they are used: %v", err)
	}
	git := filepath.Join(dir, ".git")
	if err := os.RemoveAll(git); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(git, []byte("gitdir: /nowhere\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openResults(); err == nil {
		t.Error("in a work tree whose repository is not found, they are used")
	}
}
