package lsp

import (
	"crypto/rand"
	"testing"
	"testing/fstest"
	"time"

	"github.com/bunsen-os/bunsen/internal/sops"
	"github.com/bunsen-os/bunsen/source"
)

func TestTheNearestCreationRulesCount(t *testing.T) {
	const key = "creation_rules: [{age: age1cy0su9fwf3gf9mw868g5yut09p6nytfmmnktexz2ya5uqg9vl9sss4euqm}]\n"
	files := fstest.MapFS{
		".sops.yaml": {Data: []byte(key)}, "a/x": {}, "b/.sops.yaml": {Data: []byte("creation_rules: {")},
		"d/.sops.yaml": {}, "e/.sops.yaml/x": {},
	}
	s := &snapshot{tree: source.Tree{FS: files, Entries: map[string]source.Entry{
		"c/.sops.yaml": {Refused: "symbolic link"},
	}}}
	for name := range files {
		s.tree.Entries[name] = source.Entry{}
	}
	for file, want := range map[string]bool{
		"x.yaml": true, "a/x.yaml": true, "b/x.yaml": false, "c/x.yaml": false, "c/y/x.yaml": false, "d/x.yaml": false,
		"e/x.yaml": false,
	} {
		if _, got := s.encryption(file); got != want {
			t.Errorf("%s can be encrypted: %v", file, got)
		}
	}
	if _, err := s.encrypt("x.yaml", "a: b\n", sops.Writer{Random: rand.Reader, Now: time.Now()}); err != nil {
		t.Error(err)
	}
	if _, err := s.encrypt("c/x.yaml", "a: b\n", sops.Writer{Random: rand.Reader, Now: time.Now()}); err == nil {
		t.Error("c/x.yaml is encrypted for others")
	}
}
