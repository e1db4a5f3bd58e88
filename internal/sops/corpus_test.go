package sops_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/bunsen-os/bunsen/internal/sops"
	"github.com/bunsen-os/bunsen/internal/sops/document"
)

func corpusKeys(t *testing.T, names ...string) []age.Identity {
	t.Helper()
	var out []age.Identity
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		ids, err := sops.ParseIdentities(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, ids...)
	}
	return out
}

// Files that the program sops encrypted decrypt to the bytes that it decrypts them to, and no foreign key decrypts
// them. testdata/generate.sh made them.
func TestFilesOfTheProgramDecryptEqually(t *testing.T) {
	ids := corpusKeys(t, "keys.txt", "pq.txt")
	foreign, _ := newKey(t)
	plains, err := filepath.Glob("testdata/*/*.plain")
	if err != nil || len(plains) < 35 {
		t.Fatal(len(plains), err)
	}
	for _, plain := range plains {
		want, err := os.ReadFile(plain)
		if err != nil {
			t.Fatal(err)
		}
		file := strings.TrimSuffix(plain, ".plain")
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, format, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), "-")
		if found, ok := document.Detect(file, body); !ok || string(found) != format {
			t.Errorf("%s: detected as %q, %v; want %s", file, found, ok, format)
		}
		got, err := sops.Decrypt(format, body, ids...)
		if err != nil || string(got) != string(want) {
			t.Errorf("%s: %v, got\n%s\nwant\n%s", file, err, got, want)
		}
		if _, err := sops.Decrypt(format, body, foreign); err == nil ||
			!strings.Contains(err.Error(), "is encrypted for age1") {
			t.Errorf("%s with a foreign key: %v", file, err)
		}
		if _, err := sops.Decrypt(format, body[:len(body)/3], ids...); err == nil {
			t.Errorf("%s: a truncated file decrypts", file)
		}
	}
	t.Logf("%d files", len(plains))
}
