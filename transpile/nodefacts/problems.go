package nodefacts

import (
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/nodetable"
	"github.com/bunsen-os/bunsen/internal/policy"
)

// Problems returns what Ignition, Bunsen or every node would refuse in a document.
func Problems(d nodetable.Document) []string {
	config, err := machineconfig.Parse(d.Spec)
	if err != nil {
		return strings.Split(err.Error(), "\n")
	}
	var out []string
	for _, err := range slices.Concat(machineconfig.Validate(config), machineconfig.Check(config)) {
		out = append(out, err.Error())
	}
	if len(out) == 0 {
		for _, r := range policy.Invalid(config) {
			out = append(out, r.Field+": "+r.Why)
		}
	}
	return out
}
