package docs_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// securityPages are the pages with attackers. Each heading of the second level is an attacker, except some.
var securityPages = map[string][]string{
	"docs/security.md":          {"what-bunsen-trusts", "what-you-should-do", "attackers"},
	"docs/security-nodes.md":    nil,
	"docs/security-machines.md": {"what-remains-possible"},
	"docs/security-git.md":      nil,
	"docs/security-cluster.md":  nil,
}

// TestEachAttackerHasTests checks that each attacker of the security pages has tests, and that the tests exist.
func TestEachAttackerHasTests(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "attackers.txt"))
	if err != nil {
		t.Fatal(err)
	}
	missing := attackers(t)
	if len(missing) < 40 {
		t.Errorf("only %d attackers were found: have the pages another form?", len(missing))
	}
	attacker := ""
	for line := range strings.Lines(string(text)) {
		test, isTest := strings.CutPrefix(strings.TrimRight(line, "\n"), "\t")
		switch {
		case strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "":
		case !isTest:
			attacker = test
			if !missing[attacker] {
				t.Errorf("%s: no page has this attacker, or the file has it twice", attacker)
			}
		case strings.HasPrefix(test, "none: "):
			delete(missing, attacker)
		default:
			delete(missing, attacker)
			room, name, _ := strings.Cut(test, " ")
			if wrong := proof(t, room, name); wrong != "" {
				t.Errorf("%s: %s: %s", attacker, test, wrong)
			}
		}
	}
	for attacker := range missing {
		t.Errorf("%s has no test in testdata/attackers.txt", attacker)
	}
}

// attackers returns the headings of the security pages that are attackers.
func attackers(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for file, others := range securityPages {
		text, err := fs.ReadFile(root, file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if title, ok := strings.CutPrefix(line, "## "); ok {
				out[file+"#"+anchor(strings.TrimSpace(title))] = true
			}
		}
		for _, other := range others {
			if !out[file+"#"+other] {
				t.Errorf("%s has no heading %s", file, other)
			}
			delete(out, file+"#"+other)
		}
	}
	return out
}

// proof says what is missing of a proof in a package: the package, a test function, a file of testdata, a story or a
// rule; empty for nothing.
func proof(t *testing.T, room, name string) string {
	t.Helper()
	if _, err := fs.Stat(root, room); err != nil {
		return "there is no such package"
	}
	if name == "" {
		return ""
	}
	wanted, files := "func "+name+"(", "*_test.go"
	if !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Fuzz") {
		for _, pattern := range []string{"testdata/" + name, "testdata/*/" + name, "testdata/*/" + name + ".txtar"} {
			if found, err := fs.Glob(root, path.Join(room, pattern)); err != nil || len(found) > 0 {
				return ""
			}
		}
		wanted, files = `"`+name+`"`, "*.go"
	}
	found, err := fs.Glob(root, path.Join(room, files))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range found {
		text, err := fs.ReadFile(root, file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), wanted) {
			return ""
		}
	}
	return "there is no such test, file, story or rule"
}
