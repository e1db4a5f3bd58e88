package report

import (
	"slices"

	"github.com/bunsen-os/bunsen/internal/review"
)

// remark is a sentence and the pools that it describes.
type remark struct {
	pools []string
	text  string
}

// remarks collects the remarks of all pools, without duplicates.
func remarks(c review.Comparison, of func(review.PoolChange) []string) (out []remark) {
	at := map[string]int{}
	for _, p := range c.Pools {
		for _, text := range of(p) {
			i, ok := at[text]
			if !ok {
				i = len(out)
				at[text] = i
				out = append(out, remark{text: text})
			}
			if !slices.Contains(out[i].pools, p.Pool) {
				out[i].pools = append(out[i].pools, p.Pool)
			}
		}
	}
	return out
}

// split returns the pools that change, and the names of the pools that do not change.
func split(c review.Comparison) (changed []review.PoolChange, same []string) {
	for _, p := range c.Pools {
		if p.Changed() {
			changed = append(changed, p)
		} else {
			same = append(same, p.Pool)
		}
	}
	return changed, same
}
