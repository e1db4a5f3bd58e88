package encryption_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/internal/review/encryption"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

const document = "variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n" +
	"    - path: /etc/clear.conf\n      contents:\n        inline: |\n          password=hunter2\n" +
	"    - path: /etc/template.conf\n      template: true\n      contents:\n" +
	"        inline: password=${secret:app/password}\n" +
	"    - path: /etc/sealed.yaml\n      contents:\n        local: sealed.secret.yaml\n"

// key has the form of a private key of age.
var key = "AGE-SECRET-KEY-1" + strings.Repeat("Q", 58)

func TestFilesThatShouldBeEncryptedAreFound(t *testing.T) {
	sealed, err := os.ReadFile("../../sops/testdata/corpus/01-yaml.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		".sops.yaml":                      "creation_rules:\n- path_regex: \\.secret\\.yaml$\n  age: age1zlkjsyjz0nrvm3e0aqsxrhhzvp9fgt7crkvk2wgplxq0svwzcfnsqv6unn\n",
		"pools/worker/10-a.bu":            document,
		"pools/worker/sealed.secret.yaml": string(sealed),
		"pools/worker/clear.secret.yaml":  "password: hunter2\n",
		"other/.sops.yaml":                "creation_rules: [{path_regex: '('}]\n",
		"pools/worker/readme.md":          "text\n",
		"prod.agekey":                     "# created: today\n" + key + "\n",
		"ignored.agekey":                  key + "\n",
		"docs/example.md":                 "A key begins with AGE-SECRET-KEY-1...\n",
		".git/objects/x.secret.yaml":      "a: 1\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tree := source.Tree{Root: dir, FS: os.DirFS(dir)}
	res := transpile.Fragments(tree)
	var got []string
	for _, e := range encryption.Check(tree.FS, res.Fragments, func(f string) bool { return f == "ignored.agekey" }) {
		got = append(got, e.String())
	}
	want := []string{
		"other/.sops.yaml: error: creation rule 1: path_regex",
		"prod.agekey:2: error: the private key of age is in the repository",
		"pools/worker/clear.secret.yaml: warning: a creation rule of .sops.yaml says that this file is encrypted, " +
			"and it is not: run `bunsen secret encrypt pools/worker/clear.secret.yaml`",
		"pools/worker/sealed.secret.yaml: warning: the file is encrypted for age1patt",
		"pools/worker/10-a.bu:7:9: warning: pool worker: /etc/clear.conf has what looks like a secret in clear text",
	}
	if len(got) != len(want) {
		t.Fatalf("got %q\n%s", got, res.Report)
	}
	for i, w := range want {
		if !strings.HasPrefix(got[i], w) || strings.Contains(got[i], "hunter2") {
			t.Errorf("got %s, want %s", got[i], w)
		}
	}
}
