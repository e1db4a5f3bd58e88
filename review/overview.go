package review

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/policy"
)

// overviewOf counts the items of all pools.
func overviewOf(c Comparison) Overview {
	out := Overview{Warnings: c.Warnings}
	var hidden HiddenItems
	for _, sec := range c.sections() {
		for _, it := range sec.items {
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

// String writes the counts as people know them: `2 to add, 1 to change, 0 to remove`.
func (n Counts) String() string {
	return fmt.Sprintf("%s to add, %s to change, %s to remove", thousands(n.Add), thousands(n.Change), thousands(n.Remove))
}

// text writes how many items hide something and by which rules: `2 hidden: key-value, private-key`; "" for none.
func (h *HiddenItems) text() string {
	if h == nil {
		return ""
	}
	return thousands(h.Items) + " hidden: " + strings.Join(h.Rules, ", ")
}
