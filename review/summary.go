package review

import "strings"

// maxSummary is what hosts of git take for the description of a status.
const maxSummary = 140

// Summary is the comparison in one short line, for a status: `1 to add, 1 to change, 0 to remove in 1 pool: gpu drain + reboot`.
func (c Comparison) Summary() string {
	warned := ""
	if n := len(c.Warnings); n > 0 {
		warned = ", " + count(n, "warning")
	}
	if h := overviewOf(c).HiddenItems; h != nil {
		warned += ", " + thousands(h.Items) + " hidden"
	}
	return shorten(visible(deedsOf(c)), maxSummary-len("…")-len(warned)) + warned
}

func deedsOf(c Comparison) string {
	changed, _ := c.split()
	if len(changed) == 0 {
		switch {
		case moves(c):
			return "no rendered change; MachineConfigPools change, so nodes may take other configs"
		case len(c.MachineConfigPools) > 0:
			return "no rendered change; how many nodes are away at once changes"
		case len(c.ClusterObjects) > 0:
			return "no rendered change; objects of cluster/ change"
		case len(c.Policy) > 0:
			return "no rendered change; the disruption policy changes"
		}
		return "no rendered change"
	}
	var deeds []string
	for _, r := range c.remarks(func(p PoolChange) []string {
		if !p.changed() {
			return nil
		}
		return []string{p.short()}
	}) {
		deeds = append(deeds, strings.Join(r.pools, ", ")+" "+r.text)
	}
	return overviewOf(c).Counts.String() + " in " + count(len(changed), "pool") + ": " + strings.Join(deeds, "; ")
}

// short is what becomes of the pool's nodes, in two or three words.
func (p PoolChange) short() string {
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
	return p.sum()
}
