package plan

import (
	"fmt"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/secretref"
	"github.com/bunsen-os/bunsen/internal/policy"
)

// refuseSecrets refuses a config with files whose contents a server resolves. Without the resolved contents, the machine would
// get the text of the reference instead of the secret.
func refuseSecrets(c machineconfig.Config) (bad []policy.Refusal) {
	files, err := secretref.Files(machineconfig.Flattened(c))
	if err != nil {
		bad = append(bad, policy.Refusal{Field: "storage.files", Why: err.Error()})
	}
	for _, f := range files {
		bad = append(bad, policy.Refusal{
			Field: fmt.Sprintf("storage.files %s", f.Path), Why: "its contents refer to a secret or are encrypted, and this machine-config-daemon cannot get secrets; write the contents into the config, or remove the file",
		})
	}
	return bad
}
