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
