package rollout_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// TestHealthyConfigOfSilentNodes: which config counts as the last healthy one when the pool gets another target. The
// pool was healthy with v0, and v1 is replaced by v2.
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
			f.Care.Healthy, f.Care.Record.Healthy = version("v0"), "v0"
			if got := rollout.Next(f, noon).Record.Healthy; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestHealthyConfigWithoutRecord: which config counts as the last healthy one where no record names one, such as that
// of a pool that was deleted and created again. The pool's target is rendered-worker-bad.
func TestHealthyConfigWithoutRecord(t *testing.T) {
	const good, older, bad = "rendered-worker-good", "rendered-worker-older", "rendered-worker-bad"
	runs := func(current, desired, rest string) string { return "n " + current + " " + desired + " " + rest + "\n" }
	for sentence, c := range map[string]struct {
		pool  string
		nodes []string
		want  string
	}{
		"all nodes run one config":                            {"", []string{runs(good, good, "Done"), runs(good, good, "Done")}, good},
		"the only node failed the target":                     {"", []string{runs(good, bad, "Degraded")}, good},
		"most nodes run one config":                           {"", []string{runs(older, older, "Done"), runs(good, good, "Done"), runs(good, bad, "Working")}, good},
		"most nodes run the target already":                   {"", []string{runs(bad, bad, "Done"), runs(bad, bad, "Done"), runs(good, good, "Done")}, good},
		"the record of a halted rollout is completed":         {"record config=" + bad + " halted=1h began=1h\n", []string{runs(good, good, "Done")}, good},
		"the status names one":                                {"pool healthy=" + older + "\n", []string{runs(good, good, "Done")}, older},
		"a node that failed its own config does not count":    {"", []string{runs(good, good, "Degraded")}, ""},
		"a node that is not Ready does not count":             {"", []string{runs(good, good, "Done notready=1h")}, ""},
		"a node still runs a config of its earlier pool":      {"", []string{runs("rendered-infra-1", "rendered-infra-1", "Done")}, ""},
		"nodes run the config of a pool with a longer name":   {"", []string{runs("rendered-worker-gpu-1", "rendered-worker-gpu-1", "Done")}, ""},
		"no node has reported":                                {"", []string{runs("-", "-", "-")}, ""},
		"all nodes run the target: it is the last good one":   {"", []string{runs(bad, bad, "Done")}, bad},
		"a paused pool has one, too: new machines need it":    {"pool paused=x\n", []string{runs(good, good, "Done")}, good},
		"two configs run on as many nodes: the first by name": {"", []string{runs(older, older, "Done"), runs(good, good, "Done")}, good},
	} {
		t.Run(sentence, func(t *testing.T) {
			text := "pool target=" + bad + "\n" + c.pool
			for i, n := range c.nodes {
				text += "n" + strconv.Itoa(i) + strings.TrimPrefix(n, "n")
			}
			if got := rollout.Next(parseFacts(t, text), noon).Record.Healthy; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
