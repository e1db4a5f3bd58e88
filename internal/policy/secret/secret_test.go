package secret_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/internal/policy/secret"
)

// FuzzMask holds what masking promises for any text: it does not panic, keeps the number of lines, does not grow a text
// without bound, and masks a masked text no further.
func FuzzMask(f *testing.F) {
	for _, s := range []string{
		"password: hunter2\n", "a: |\n  -----BEGIN PRIVATE KEY-----\n  AAAA\n", "data:;base64,cGFzc3dvcmQ9aHVudGVyMg==",
		"kind: Secret\ndata:\n  a: b\n", `{"kind":"Secret","data":{"a":"b"}}`, "https://a:b://c:d@e", "mysql -px -p'y'",
		"root:$6$a$b:1::",
	} {
		f.Add("/etc/x.bu", s)
		f.Add("/etc/shadow", s)
		f.Add("/etc/secrets/x", s)
	}
	f.Fuzz(func(t *testing.T, path, content string) {
		got := secret.MaskWithDigests(path, content)
		if a, b := strings.Count(content, "\n"), strings.Count(got.Text, "\n"); a != b {
			t.Fatalf("%d line ends, want %d: %q -> %q", b, a, content, got.Text)
		}
		if len(got.Text) > 26*len(content) {
			t.Fatalf("%d bytes of %d", len(got.Text), len(content))
		}
		if again := secret.MaskWithDigests(path, got.Text); again.Text != got.Text {
			t.Fatalf("masked again:\n%q\n%q\n%q", content, got.Text, again.Text)
		}
		if !bytes.Equal([]byte(content), []byte(got.Text)) && len(got.Findings) == 0 {
			t.Fatal("a mask without a finding")
		}
		if again := secret.MaskWithDigests(path, secret.MaskWithDigests(path, content).Text); len(again.Findings) > 0 {
			t.Fatalf("masked again: %q %v", again.Text, again.Findings)
		}
	})
}
