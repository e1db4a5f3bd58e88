package source_test

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/source"
)

// TestHashIn: which texts of a user name a commit by its hash.
func TestHashIn(t *testing.T) {
	full := strings.Repeat("0123456789", 4)
	for text, want := range map[string]string{
		"abcdef0": "abcdef0", full: full, "main@sha1:" + full: full, "a@sha1:b@sha1:abcdef0": "abcdef0",
		"refs/tags/v1@sha1:abcdef0": "abcdef0",
		// of no commit
		"": "", "abcdef": "", full + "0": "", "ABCDEF0": "", "main": "", "HEAD~1": "", "main@sha1:": "", "abcdefg": "",
		"main@sha256:abcdef0": "", "abcdef0\nx": "", "--exec=x": "", "abcdef0@sha1:x": "",
	} {
		hash, ok := source.HashIn(text)
		if ok != (want != "") || ok && hash != want {
			t.Errorf("%q: %q, %v, want %q", text, hash, ok, want)
		}
	}
}
