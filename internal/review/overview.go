package review

import "github.com/bunsen-os/bunsen/internal/disruption"

// overviewOf counts the items of all pools.
func overviewOf(c Comparison) Overview {
	out := Overview{Warnings: c.Warnings}
	for _, sec := range c.Sections() {
		for _, it := range sec.Items {
			switch disruption.Verb(it.Change) {
			case disruption.Added:
				out.Counts.Add++
			case disruption.Removed:
				out.Counts.Remove++
			default:
				out.Counts.Change++
			}
			if it.Hidden {
				out.Hidden++
			}
		}
	}
	return out
}
