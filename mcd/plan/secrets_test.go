package plan_test

import (
	"strings"
	"testing"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/secretref"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// TestSecretsAreNotWrittenAsReferences: a machine never gets the text of a reference, or ciphertext, in place of a secret, and a
// file that a first boot wrote is no drift.
func TestSecretsAreNotWrittenAsReferences(t *testing.T) {
	for sentence, c := range map[string]struct {
		source  string
		refused bool
	}{
		"a template is refused":          {secretref.TemplateURL("${secret:registry/pull}"), true},
		"an encrypted file is refused":   {secretref.SOPSURL("yaml", []byte("a: b")), true},
		"an invalid template is refused": {"data:application/vnd.bunsen.template,%24%7Boops", true},
		"other contents are not refused": {"data:,hello", false},
	} {
		t.Run(sentence, func(t *testing.T) {
			var config machineconfig.Config
			config.Ignition.Ignition.Version = "3.5.0"
			f := ign.File{Node: ign.Node{Path: "/etc/pull.json"}}
			f.Contents.Source = &c.source
			config.Ignition.Storage.Files = []ign.File{f}
			way := plan.NewTransition(plan.Config{Name: "old"}, plan.Config{Name: "new", Config: config}, plan.Rules{}, host.Accounts{})
			text := ""
			for _, r := range way.Refusals {
				text += r.Field + ": " + r.Why + "\n"
			}
			if _, manages := way.New.Paths["/etc/pull.json"]; manages == c.refused {
				t.Errorf("the daemon writes the file and compares it: %t, want %t", manages, !c.refused)
			}
			if refused := strings.Contains(text, "secret") || strings.Contains(text, "${ has no end"); refused != c.refused {
				t.Errorf("refused: %t, want %t\n%s", refused, c.refused, text)
			}
		})
	}
}
