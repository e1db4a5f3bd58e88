package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestACallThatAPlatformDoesNotHave is found, in the CLI and in what it links, for that platform alone.
func TestACallThatAPlatformDoesNotHave(t *testing.T) {
	const lock = "import \"syscall\"\n\nfunc Lock() { _ = syscall.Flock(1, 2) }\n"
	for sentence, test := range map[string]struct{ main, other, want string }{
		"a program for all":     {"func main() {}\n", "", ""},
		"a lock in the program": {lock + "\nfunc main() { Lock() }\n", "", "undefined: syscall.Flock"},
		"a lock in what it uses": {
			"import \"github.com/bunsen-os/bunsen/other\"\n\nfunc main() { other.Lock() }\n", lock,
			"undefined: syscall.Flock",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{
				"go.mod":             "module github.com/bunsen-os/bunsen\n\ngo 1.26\n",
				"cmd/bunsen/main.go": "package main\n\n" + test.main,
				"other/a.go":         "package other\n\n" + test.other,
			} {
				at := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := check(dir, []string{"darwin/arm64", "linux/arm64"}, os.Stdout); err != nil {
				t.Errorf("macOS and Linux: %v", err)
			}
			err := check(dir, []string{"windows/amd64"}, os.Stdout)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("Windows: %v, want %q", err, test.want)
			}
		})
	}
}
