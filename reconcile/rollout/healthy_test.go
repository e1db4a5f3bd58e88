package rollout_test

import (
	"testing"

	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// TestHealthyConfigOfSilentNodes: which config counts as the last healthy one when the pool gets another target. The pool was healthy
// with v0, and v1 is replaced by v2.
func TestHealthyConfigOfSilentNodes(t *testing.T) {
	const done = "n0 v1 v1 Done\nn1 v1 v1 Done\n"
	for sentence, c := range map[string]struct{ nodes, want string }{
		"every node ran v1":                              {done, "v1"},
		"a silent node never got it":                     {done + "n2 v0 v0 Done silent=2h", "v1"},
		"a node was silent before the rollout, and told": {done + "n2 v0 v1 Done silent=2h", "v1"},
		"a node is silent since it was told":             {done + "n2 v0 v1 Done silent=10m", "v0"},
		"a node that reports has not got it":             {done + "n2 v0 v0 Done", "v0"},
		"a node failed it":                               {done + "n2 v0 v1 Degraded", "v0"},
		"no node ran it":                                 {"n0 v0 v0 Done silent=2h", "v0"},
	} {
		t.Run(sentence, func(t *testing.T) {
			f := parseFacts(t, "pool target=v2\nrecord config=v1 began=1h\n"+c.nodes)
			f.Care.Healthy, f.Care.Record.Healthy = "v0", "v0"
			if got := rollout.Next(f, noon).Record.Healthy; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
