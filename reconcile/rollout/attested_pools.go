package rollout

import (
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// unattestedNodes returns the nodes of a decision whose attested pool is not recorded yet.
func unattestedNodes(w poolstate.Decision) []string {
	var names []string
	for _, l := range w.Label {
		if l.Attest {
			names = append(names, l.Node)
		}
	}
	return names
}
