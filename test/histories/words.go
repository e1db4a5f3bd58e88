package histories

import (
	"fmt"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// describePolicy says what a policy says, in one line.
func describePolicy(p v1alpha1.RolloutPolicySpec) string {
	var said []string
	say := func(is bool, format string, args ...any) {
		if is {
			said = append(said, fmt.Sprintf(format, args...))
		}
	}
	say(len(p.Pools) == 0, "for all pools")
	say(len(p.Pools) > 0, "for %s", strings.Join(p.Pools, ", "))
	say(p.MaxUnavailable != nil, "maxUnavailable %s", p.MaxUnavailable)
	say(p.MaxUnavailablePerZone != nil, "%s per zone", p.MaxUnavailablePerZone)
	say(p.MaxUnavailableTogether != nil, "%s together", p.MaxUnavailableTogether)
	if c := p.Canary; c != nil {
		say(c.Nodes != nil, "canary of %s, soak %s", c.Nodes, c.Soak.Duration)
		if c.NodeSelector != nil {
			say(true, "canary %v, soak %s", c.NodeSelector.MatchLabels, c.Soak.Duration)
		}
	}
	for _, b := range p.Batches {
		say(true, "a batch up to %s, soak %s", &b.UpTo, b.Soak.Duration)
	}
	for _, g := range p.Gates {
		say(true, "gate %s", g.Name)
	}
	if f := p.Failures; f != nil {
		say(true, "%s after %d failures", f.Action, f.After)
		if f.NodeDeadline != nil {
			say(true, "a node has %s", f.NodeDeadline.Duration)
		}
	}
	say(len(p.After) > 0, "after %s", strings.Join(p.After, ", "))
	for _, x := range p.Windows {
		say(true, "%s %q for %s", strings.ToLower(string(x.Kind)), x.Schedule, x.Duration.Duration)
	}
	if p.Drain != nil {
		say(true, "drains %s after %s", p.Drain.WhenBlocked, p.Drain.After.Duration)
	}
	return strings.Join(said, "; ")
}
