package poolstate_test

import (
	"testing"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// TestGrouped says the same of several nodes once.
func TestGrouped(t *testing.T) {
	for want, of := range map[string]struct{ names, texts []string }{
		"":                   {},
		"n0 failed v1: full": {[]string{"n0"}, []string{"failed v1: full"}},
		"n0 and n2 failed v1: full; n1 failed v1: exit status 1": {
			[]string{"n0", "n1", "n2"}, []string{"failed v1: full", "failed v1: exit status 1", "failed v1: full"},
		},
		"n0 and n1 are degraded": {[]string{"n0", "n1"}, []string{"is degraded", "is degraded"}},
		"n0, n1, n2 and 2 more failed v1": {
			[]string{"n0", "n1", "n2", "n3", "n4"},
			[]string{"failed v1", "failed v1", "failed v1", "failed v1", "failed v1"},
		},
		"n0 a; n1 b; n2 and n4 c; and 1 more": {
			[]string{"n0", "n1", "n2", "n3", "n4"}, []string{"a", "b", "c", "d", "c"},
		},
	} {
		t.Run(want, func(t *testing.T) {
			if got := poolstate.Grouped(of.names, of.texts); got != want {
				t.Errorf("it says %q", got)
			}
		})
	}
}
