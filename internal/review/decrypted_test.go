package review

import (
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/sops"
)

// Who has the key reads the change itself. Without the key nothing of it is in the difference.
func TestWhoHasTheKeyReadsTheChange(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	seal := func(text string) string {
		t.Helper()
		out, err := writer.Encrypt("dotenv", []byte(text), sops.Policy{Groups: [][]string{{id.Recipient().String()}}})
		if err != nil {
			t.Fatal(err)
		}
		return machineconfig.SOPSURL("dotenv", out)
	}
	config := func(source string) machineconfig.Config {
		f := ign.File{
			Node:          ign.Node{Path: "/etc/app.env"},
			FileEmbedded1: ign.FileEmbedded1{Contents: ign.Resource{Source: &source}},
		}
		return machineconfig.Config{Ignition: ign.Config{Storage: ign.Storage{Files: []ign.File{f}}}}
	}
	from, to := config(seal("A=1\nB=hunter2\n")), config(seal("A=1\nB=hunter3\n"))
	change := []disruption.Costed{{Change: disruption.Change{Kind: disruption.KindFile, Name: "/etc/app.env"}}}
	for name, c := range map[string]struct {
		known knownContent
		want  string
	}{
		"no key":        {knownContent{}, ""},
		"another key":   {knownContent{Decrypt: decryptWith(other)}, ""},
		"the key":       {knownContent{Decrypt: decryptWith(id)}, "# decrypted with your key\n@@ -1,2 +1,2 @@\n A=1\n-B=hunter2\n+B=hunter3\n"},
		"a marked path": {knownContent{Decrypt: decryptWith(id), Marked: []string{"/etc/app.env"}}, ""},
	} {
		pair := readItems(change, from, to, c.known)[0]
		got, _, _ := newDiffer().difference(pair)
		if !strings.Contains(got, c.want) || strings.Contains(got, "hunter") != (c.want != "") || !pair.unread() {
			t.Errorf("%s: got\n%s", name, got)
		}
	}
	got, _, _ := newDiffer().difference(readItems(change, config("data:,A%3D1%0A"), to,
		knownContent{Decrypt: decryptWith(id)})[0])
	if !strings.Contains(got, "+B=hunter3\n") || strings.Contains(got, "+A=1") {
		t.Errorf("a file that was not encrypted before: got\n%s", got)
	}
}

func decryptWith(id age.Identity) func(format string, body []byte) ([]byte, error) {
	return func(format string, body []byte) ([]byte, error) { return sops.Decrypt(format, body, id) }
}
