package arch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNoLinkLeadsOutOfTheRepository judges every tracked symbolic link.
func TestNoLinkLeadsOutOfTheRepository(t *testing.T) {
	if err := exec.CommandContext(t.Context(), "git", "-C", root, "rev-parse", "--git-dir").Run(); err != nil {
		t.Skip("the sources are no git repository")
	}
	escaping, err := EscapingLinks(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range escaping {
		t.Errorf("the symbolic link %s leads out of the repository", link)
	}
}

func TestEscapingLinksAreFound(t *testing.T) {
	links := map[string]struct {
		target string
		leads  bool
	}{
		"beside":               {"file", false},
		"down":                 {"a/b/file", false},
		"a/up":                 {"../file", false},
		"a/b/over":             {"../c/file", false},
		"nowhere":              {"missing/file", false},
		"a/dots":               {"./b/./file", false},
		"a/b/top":              {"../..", false},
		"through-another":      {"a/b/top/..", true},
		"absolute":             {"/etc/passwd", true},
		"a/absolute-inside":    {"/tmp", true},
		"parent":               {"../file", true},
		"a/grandparent":        {"../../file", true},
		"a/b/late":             {"../c/../../../file", true},
		"out-and-in":           {"../repository/file", true},
		"windows":              {`..\file`, true},
		"drive":                {"C:/file", true},
		"administration":       {".git/hooks/pre-commit", true},
		"a/administration":     {"../.git/config", true},
		"a/b/c/through-itself": {"../../../../etc", true},
	}
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).
			CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	want := map[string]bool{}
	for name, link := range links {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(link.target, at); err != nil {
			t.Fatal(err)
		}
		if link.leads {
			want[name+" -> "+link.target] = true
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "no-link"), []byte("/etc/passwd"), 0o644); err != nil {
		t.Fatal(err)
	}
	git("add", "-A")
	if err := os.Symlink("/etc", filepath.Join(dir, "untracked")); err != nil {
		t.Fatal(err)
	}
	// From a directory below, all of them are found, too.
	for _, from := range []string{dir, filepath.Join(dir, "a")} {
		escaping, err := EscapingLinks(t.Context(), from)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, link := range escaping {
			got[link] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("from %s (-want +got):\n%s", strings.TrimPrefix(from, dir), diff)
		}
	}
}
