package report

import (
	"strings"

	"github.com/bunsen-os/bunsen/internal/review"
)

// maxSummary is the limit of git hosts for the description of a status.
const maxSummary = 140

// Summary returns the comparison in one short line, for a status: `1 to add, 1 to change, 0 to remove in 1 pool: gpu
// drain + reboot`.
func Summary(c review.Comparison) string {
	warned := ""
	if n := len(c.Warnings); n > 0 {
		warned = ", " + count(n, "warning")
	}
	if n := len(c.NewRecipients); n > 0 {
		warned += ", " + count(n, "new recipient")
	}
	if n := unreadableCount(c); n > 0 {
		warned += ", " + count(n, "file") + " not reviewable"
	}
	if c.Hidden > 0 {
		warned += ", " + thousands(c.Hidden) + " hidden"
	}
	return shorten(visible(deedsOf(c)), maxSummary-len("…")-len(warned)) + warned
}

func deedsOf(c review.Comparison) string {
	changed, _ := split(c)
	if len(changed) == 0 {
		switch {
		case c.MovesNodes:
			return "no rendered change; MachineConfigPools change, so nodes may take other configs"
		case len(c.MachineConfigPools) > 0:
			return "no rendered change; how many nodes are away at once changes"
		case len(c.ClusterObjects) > 0:
			return "no rendered change; objects of cluster/ change"
		case len(c.Policy) > 0:
			return "no rendered change; the disruption policy changes"
		}
		if changes := notRendered(c); changes != "" {
			return "no rendered change; " + changes
		}
		return "no rendered change"
	}
	var deeds []string
	for _, r := range remarks(c, func(p review.PoolChange) []string {
		if !p.Changed() {
			return nil
		}
		return []string{poolSummary(p)}
	}) {
		deeds = append(deeds, strings.Join(r.pools, ", ")+" "+r.text)
	}
	return countsText(c.Counts) + " in " + count(countPools(changed), "pool") + ": " + strings.Join(deeds, "; ")
}

// poolSummary returns two or three words that say what happens to the pool's nodes.
func poolSummary(p review.PoolChange) string {
	switch {
	case len(p.Refused) > 0:
		return "refused by running nodes"
	case p.From == "":
		return "is new"
	case p.KeepsConfig:
		return "keeps its config without documents"
	case p.To == "":
		return "goes"
	}
	return actionsOf(p)
}
