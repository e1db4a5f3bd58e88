package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// quoted is what stands between backticks.
var quoted = regexp.MustCompile("`([^`]+)`")

// TestTheProofsOfSecurityExist checks that each test that docs/security.md names is there: a row whose test was renamed
// or removed proves nothing.
func TestTheProofsOfSecurityExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	proofs := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != 4 || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| Who |") {
			continue
		}
		proofs++
		for part := range strings.SplitSeq(cells[3], ";") {
			names := quoted.FindAllStringSubmatch(part, -1)
			if len(names) == 0 {
				continue
			}
			for _, name := range names[1:] {
				if missing := proof(t, names[0][1], name[1]); missing != "" {
					t.Errorf("the row %q names `%s` of %s: %s", strings.TrimSpace(cells[0]), name[1], names[0][1],
						missing)
				}
			}
		}
	}
	if proofs < 10 {
		t.Errorf("only %d rows were found: has the table another form?", proofs)
	}
}

// proof says what is missing of a proof in a package: a test function, a file of testdata or a story; empty for
// nothing.
func proof(t *testing.T, room, name string) string {
	t.Helper()
	dir := filepath.Join("..", "..", filepath.FromSlash(room))
	if _, err := os.Stat(dir); err != nil {
		return "there is no such package"
	}
	if !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Fuzz") {
		return proofFile(t, dir, name)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "func "+name+"(") {
			return ""
		}
	}
	return "there is no such test"
}

// proofFile says that a file of testdata or a story is missing. A rule of test/arch is a word in its sources.
func proofFile(t *testing.T, dir, name string) string {
	t.Helper()
	for _, pattern := range []string{"testdata/" + name, "testdata/*/" + name, "testdata/*/" + name + ".txtar"} {
		found, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) > 0 {
			return ""
		}
	}
	sources, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range sources {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), `"`+name+`"`) {
			return ""
		}
	}
	return "there is no such file, story or rule"
}
