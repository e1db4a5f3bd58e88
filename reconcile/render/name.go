package render

import (
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// Name returns the name of a rendered config: rendered-<pool>-<hash of the spec>. The name depends only on the content.
// So the same content from another commit, or from the original machine-config-operator, has the same name. The spec
// must be in canonical form.
func Name(pool string, spec mcfgv1.MachineConfigSpec) (string, error) {
	return machineconfig.RenderedName(pool, spec)
}
