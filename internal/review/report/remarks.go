package report

import (
	"slices"
	"strings"

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

// maxFetches is the maximum number of downloads that a text names. The text only counts the other downloads.
const maxFetches = 5

// fetchTexts returns a text that names what nodes of a pool download before they are drained. Documents do not say how much
// that is.
func fetchTexts(p review.PoolChange) []string {
	if len(p.Fetches) == 0 {
		return nil
	}
	var texts []string
	for _, f := range p.Fetches[:min(maxFetches, len(p.Fetches))] {
		text := f.Path + " from " + f.Source
		if f.Kind == review.FetchImage {
			text = "the OS image " + f.Source + ", if they have rpm-ostree"
		}
		texts = append(texts, text)
	}
	if more := len(p.Fetches) - maxFetches; more > 0 {
		texts = append(texts, thousands(more)+" more")
	}
	return []string{strings.Join(texts, "; ") + " (sizes are not known)"}
}
