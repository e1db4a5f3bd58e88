package plan_test

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// TestSecretsAreNotWrittenAsReferences: a machine never gets the text of a reference, or ciphertext, in place of a
// secret. A config whose references are invalid is refused.
func TestSecretsAreNotWrittenAsReferences(t *testing.T) {
	for sentence, c := range map[string]struct {
		source           string
		manages, refused bool
	}{
		"a template is left out":                 {machineconfig.TemplateURL("${secret:registry/pull}"), false, false},
		"an encrypted file is left out":          {machineconfig.SOPSURL("yaml", []byte("a: b")), false, false},
		"an invalid template is refused":         {"data:application/vnd.bunsen.template,%24%7Boops", false, true},
		"other contents are neither of the two.": {"data:,hello", true, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			var config machineconfig.Config
			config.Ignition.Ignition.Version = "3.5.0"
			f := ign.File{Node: ign.Node{Path: "/etc/pull.json"}}
			f.Contents.Source = &c.source
			config.Ignition.Storage.Files = []ign.File{f}
			way := plan.NewTransition(plan.Config{Name: "old"}, plan.Config{Name: "new", Config: config}, plan.Rules{},
				host.Accounts{})
			text := ""
			for _, r := range way.Refusals {
				text += r.Field + ": " + r.Why + "\n"
			}
			if _, manages := way.New.Paths["/etc/pull.json"]; manages != c.manages {
				t.Errorf("the daemon writes the file and compares it: %t, want %t", manages, c.manages)
			}
			if refused := strings.Contains(text, "${ has no end"); refused != c.refused {
				t.Errorf("refused: %t, want %t\n%s", refused, c.refused, text)
			}
		})
	}
}
