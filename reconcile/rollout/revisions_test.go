package rollout

import (
	"fmt"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// TestWhichConfigsReferToSecrets reads rendered configs as the API server has them.
func TestWhichConfigsReferToSecrets(t *testing.T) {
	file := func(source string) string {
		return fmt.Sprintf(
			`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/a","contents":{"source":%q}}]}}`, source)
	}
	for sentence, c := range map[string]struct {
		ignition string
		want     bool
	}{
		"a template refers to secrets":                        {file(machineconfig.TemplateURL("${secret:a/b}")), true},
		"so does an encrypted file":                           {file(machineconfig.SOPSURL("yaml", []byte("a: b"))), true},
		"so does an invalid reference":                        {file("data:application/vnd.bunsen.template,%24%7Boops"), true},
		"so does another spelling of the media type":          {file("data:application/vnd%2ebunsen.template,x"), true},
		"a file that only quotes the media type does not":     {file("data:,application/vnd.bunsen.template"), false},
		"nor does a config that is no Ignition config at all": {`{"ignition":{}}`, false},
		"nor one whose data URL is invalid, which is refused": {file("data:application/vnd.bunsen.template,${oops"), false},
	} {
		t.Run(sentence, func(t *testing.T) {
			mc := &mcfgv1.MachineConfig{}
			mc.Spec.Config.Raw = []byte(c.ignition)
			r := NewSecretRevisions()
			if err := r.Examine("rendered-worker-1", func() (*mcfgv1.MachineConfig, error) {
				return mc, nil
			}); err != nil {
				t.Fatal(err)
			}
			if got := r.Published().Refers("rendered-worker-1"); got != c.want {
				t.Errorf("it refers to secrets: %t, want %t", got, c.want)
			}
		})
	}
}

// TestEntriesOfTheConfigMap: what cannot be read counts as absent, and a reader's map never changes.
func TestEntriesOfTheConfigMap(t *testing.T) {
	r := NewSecretRevisions()
	r.set(map[string]string{
		"a": `{"revision":"r1"}`, "b": `{`,
		"c": `{"problems":[{"reason":"NotFound","message":"add it"}]}`,
	})
	first := r.Published()
	if len(first.Revisions) != 2 || first.Revisions["a"].Revision != "r1" ||
		first.Revisions["c"].Problems[0].Reason != "NotFound" {
		t.Errorf("the ConfigMap reads as %+v", first.Revisions)
	}
	r.set(nil)
	if len(r.Published().Revisions) != 0 || len(first.Revisions) != 2 {
		t.Error("a deleted ConfigMap has no revisions, and earlier decisions keep theirs")
	}
}
