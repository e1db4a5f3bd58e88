package rollout_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// reasons are nodes for each of which another rule picks the target v1.
var reasons = map[string]string{
	"current":     "n0 v1 v2 Working",
	"failed":      "n0 v0 vbad Degraded cordoned-for=vbad",
	"failedopen":  "n0 v0 vbad Degraded",
	"faileddown":  "n0 v0 vbad Degraded notready=1h",
	"faileddisk":  "n0 v0 vbad Degraded pressure=1h",
	"lost":        "n0 vold vold Done notready=1h",
	"lostlive":    "n0 vold vold Done notready=1h live",
	"disk":        "n0 vold vold Done pressure=1h",
	"changing":    "n0 v0 v2 Working",
	"changelost":  "n0 v0 v2 Working notready=1h",
	"changedisk":  "n0 v0 v2 Working pressure=1h",
	"away":        "n0 vold vold Done notready=1m",
	"drift":       "n0 v0 v0 Degraded",
	"inservice":   "n0 v0 v0 Done",
	"firstconfig": "n0 - - Done",
}

// TestGuardsHoldBackEveryRule: whatever the reason to pick a node, a guard decides first.
func TestGuardsHoldBackEveryRule(t *testing.T) {
	const all = "changedisk changelost changing current disk drift failed faileddisk faileddown failedopen " +
		"firstconfig inservice lost lostlive"
	const broken = "changedisk changelost current disk failed faileddisk faileddown lost lostlive"
	for guard, tc := range map[string]struct{ facts, told string }{
		"none":                            {"pool name=worker target=v1 max=1", all},
		"the pool is paused":              {"pool name=worker target=v1 max=1 paused", ""},
		"the rollout is halted":           {"pool name=worker target=v1 max=1 healthy=v0\nrecord config=v1 halted=1m", ""},
		"a policy is invalid":             {"pool name=worker target=v1 max=1 invalid=so", ""},
		"there is no budget":              {"pool name=worker target=v1 max=-1", ""},
		"no window is open":               {"pool name=worker target=v1 max=1\npolicy window=3", broken},
		"another pool comes first":        {"pool name=worker target=v1 max=1\nahead master=so", broken},
		"pools wait for each other":       {"pool name=worker target=v1 max=1 cycle=worker,infra", broken},
		"a query fails":                   {"pool name=worker target=v1 max=1\npolicy\ngate query=errors waits=so", broken},
		"a quorum needs the nodes":        {"pool name=master target=v1 max=1 quorum=so", "changelost current faileddown lost"},
		"a quorum needs the arbiter":      {"pool name=arbiter target=v1 max=1 quorum=so\nahead master=so", "away changelost current faileddown lost"},
		"the masters come first":          {"pool name=arbiter target=v1 max=1\nahead master=so", broken + " drift away"},
		"a quorum and no window":          {"pool name=master target=v1 max=1 quorum=so\npolicy window=3", "changelost current faileddown lost"},
		"a quorum after a failed rollout": {"pool name=master target=v1 max=1 quorum=so\npolicy", "changelost current faileddown lost"},
	} {
		t.Run(guard, func(t *testing.T) {
			for reason, node := range reasons {
				f := parseFacts(t, tc.facts+"\n"+node)
				w := rollout.Next(f, noon)
				want := strings.Contains(" "+tc.told+" ", " "+reason+" ")
				if got := len(w.Assign) == 1; got != want {
					t.Errorf("%s (%s): told: %v, want %v", reason, node, got, want)
				}
				waits := fmt.Sprint(rollout.Explain(f, w, noon))
				// Those that change to another config, or are away for a moment, say that instead.
				says := strings.Contains(waits, string(poolstate.CauseAfterPool)) ||
					!strings.HasPrefix(guard, "a quorum") || strings.Contains(guard, "window") ||
					strings.HasPrefix(reason, "chang") || reason == "away"
				if !want && !says {
					t.Errorf("%s (%s) waits for another reason: %s", reason, node, waits)
				}
			}
		})
	}
}
