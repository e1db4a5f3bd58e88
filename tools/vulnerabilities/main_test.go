package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// writeDatabase writes a vulnerability database with one entry: a symbol of the standard library that every version
// has.
func writeDatabase(t *testing.T, pkg, symbol string) (address string) {
	t.Helper()
	dir := t.TempDir()
	entry := `{"schema_version": "1.3.1", "id": "GO-2099-0001", "modified": "2026-01-01T00:00:00Z", "published": "2026-01-01T00:00:00Z", "details": "made up",
		"affected": [{"package": {"name": "stdlib", "ecosystem": "Go"}, "ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}, {"fixed": "1.99.0"}]}],
		"ecosystem_specific": {"imports": [{"path": "` + pkg + `", "symbols": ["` + symbol + `"]}]}}]}`
	if err := os.WriteFile(filepath.Join(dir, "GO-2099-0001.json"), []byte(entry), 0o644); err != nil {
		t.Fatal(err)
	}
	return "file://" + dir
}

// buildProgram builds a program that calls strings.Repeat and not strings.Title.
func buildProgram(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module example.org/program\n\ngo 1.26.0\n",
		"main.go": "package main\n\nimport (\n\t\"os\"\n\t\"strings\"\n)\n\nfunc main() { os.Stdout.WriteString(strings.Repeat(os.Args[0], len(os.Args))) }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "program")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-o", out, ".")
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

// writeRoot writes a root with a list of accepted findings.
func writeRoot(t *testing.T, accepted string) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "tools", "vulnerabilities")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "accepted.txt"), []byte(accepted), 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestRun(t *testing.T) {
	program := buildProgram(t)
	called, notCalled := writeDatabase(t, "strings", "Repeat"), writeDatabase(t, "strings", "Title")
	missing := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(missing.Close)
	const entry = "program: GO-2099-0001 in stdlib v1."
	for name, test := range map[string]struct {
		named, fallback, accepted string
		want, err                 string
	}{
		"a vulnerable function that the program calls fails":               {named: called, want: entry, err: "known vulnerabilities found"},
		"the finding names the version that fixes it":                      {named: called, want: "(strings.Repeat), fixed in v1.99.0: https://pkg.go.dev/vuln/GO-2099-0001", err: "known vulnerabilities found"},
		"a vulnerable function that the program does not call passes":      {named: notCalled, want: "vulnerabilities: none known in 1 binaries by " + notCalled},
		"a finding that was accepted passes, and is printed":               {named: called, accepted: "GO-2099-0001 we never repeat names", want: "accepted: we never repeat names"},
		"a finding is not accepted without a reason":                       {named: called, accepted: "GO-2099-0001", err: `"GO-2099-0001" has no reason`},
		"a default database that does not answer is not checked, and said": {fallback: missing.URL, want: "vulnerabilities: not checked: no database reachable (set GOVULNDB)\n"},
		"the default database is used where none is named":                 {fallback: called, want: entry, err: "known vulnerabilities found"},
		"a named database that is not there fails":                         {named: "file:///nowhere", fallback: notCalled, err: "GOVULNDB"},
		"a named database that answers with an error fails":                {named: missing.URL, err: "404"},
		"a named database of another scheme fails":                         {named: "ftp://example.org", err: "begins with none of"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := run(t.Context(), []string{"-root", writeRoot(t, test.accepted), program}, test.named, test.fallback,
				&out)
			if !strings.Contains(out.String(), test.want) {
				t.Errorf("it prints %q, want %q", out.String(), test.want)
			}
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}
		})
	}
}
