package disruption

import "github.com/bunsen-os/bunsen/api/machineconfig"

// WithChange returns a copy of a config in which one item differs.
func WithChange(c machineconfig.Config, kind ChangeKind, name string) machineconfig.Config {
	to, _ := changed(machineconfig.Flattened(c), kind, name)
	return to
}
