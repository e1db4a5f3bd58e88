package linked

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/tools/txtar"
)

// TestModules lists a module of three local ones: one that is imported on one platform, one that is replaced, and one
// that is required and not imported.
func TestModules(t *testing.T) {
	dir := t.TempDir()
	archive, err := txtar.ParseFile("testdata/modules.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		name := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		platforms []Platform
		want      []string
	}{
		"the licences of the root and of the linked directories, and no others": {[]Platform{{"linux", "amd64"}}, []string{Go, "example.org/a: LICENSE NOTICE.md inner/COPYING"}},
		"a module that one platform links":                                      {[]Platform{{"linux", "arm64"}}, []string{Go, "example.org/a: LICENSE NOTICE.md inner/COPYING", "example.org/b: UNLICENSE"}},
		"several platforms are one list":                                        {[]Platform{{"linux", "amd64"}, {"linux", "arm64"}}, []string{Go, "example.org/a: LICENSE NOTICE.md inner/COPYING", "example.org/b: UNLICENSE"}},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := Modules(t.Context(), filepath.Join(dir, "main"), []string{"."}, test.platforms...)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range all {
				if m.Path == Go {
					if len(m.Files) == 0 || m.Version == "" {
						t.Errorf("Go has version %q and %d files", m.Version, len(m.Files))
					}
					got = append(got, Go)
					continue
				}
				line := filepath.Base(m.Path)
				for i, f := range m.Files {
					line += []string{": ", " "}[min(i, 1)] + f.Name
				}
				got = append(got, "example.org/"+line)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
