package rollout

import (
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// unattestedNodes have no record of their attested pool yet.
func unattestedNodes(w poolstate.Decision) []string {
	var names []string
	for _, l := range w.Label {
		if l.Attest {
			names = append(names, l.Node)
		}
	}
	return names
}
