package review

import (
	"slices"

	"github.com/bunsen-os/bunsen/internal/policy"
)

// overviewOf counts the items of all pools.
func overviewOf(c Comparison) Overview {
	out := Overview{Warnings: c.Warnings}
	var hidden HiddenItems
	for _, sec := range c.Sections() {
		for _, it := range sec.Items {
			switch policy.Verb(it.Change) {
			case policy.Added:
				out.Counts.Add++
			case policy.Removed:
				out.Counts.Remove++
			default:
				out.Counts.Change++
			}
			if len(it.Hidden) > 0 {
				hidden.Items++
				hidden.Rules = append(hidden.Rules, it.Hidden...)
			}
		}
	}
	if hidden.Items > 0 {
		slices.Sort(hidden.Rules)
		hidden.Rules = slices.Compact(hidden.Rules)
		out.HiddenItems = &hidden
	}
	return out
}
