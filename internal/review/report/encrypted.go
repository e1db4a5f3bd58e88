package report

import (
	"strings"

	"github.com/bunsen-os/bunsen/internal/review"
)

// unreadableTexts returns a text that names the files of a pool that nobody without the key can review.
func unreadableTexts(p review.PoolChange) []string {
	switch n := len(p.Unreadable); n {
	case 0:
		return nil
	case 1:
		return []string{"1 file cannot be reviewed; anyone with the public key can have written it: " + p.Unreadable[0]}
	default:
		return []string{count(n, "file") + " cannot be reviewed; anyone with the public key can have written them: " +
			strings.Join(p.Unreadable, ", ")}
	}
}

// unreadableCount returns how many files nobody without the key can review. A file of several pools counts once.
func unreadableCount(c review.Comparison) int {
	all := map[string]bool{}
	for _, p := range c.Pools {
		for _, path := range p.Unreadable {
			all[path] = true
		}
	}
	return len(all)
}

// recipientTexts has a text for each key that can read secrets which it could not read before.
func recipientTexts(c review.Comparison) (out []string) {
	for _, r := range c.NewRecipients {
		out = append(out, "this change lets "+r.Name+" read secrets: "+enumerate(r.At)+". Merge it only if you know "+
			"whose key this is")
	}
	return out
}

// notRendered says what changes although no rendered config does, and is not listed elsewhere; "" if nothing does.
func notRendered(c review.Comparison) string {
	for _, p := range c.Pools {
		if len(p.NewlyUnreviewed) > 0 {
			return "the contents that no reviewer can read may be in more places"
		}
	}
	if len(c.NewRecipients)+len(c.CreationRules) > 0 {
		return "who can read the secrets of the repository changes"
	}
	return ""
}
