package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/review"
)

// remark is a sentence, and the pools that it is about.
type remark struct {
	pools []string
	text  string
}

// remarks has each one once.
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

// split returns the pools that change, and the names of the others.
func split(c review.Comparison) (changed []review.PoolChange, same []string) {
	for _, p := range c.Pools {
		if p.Changed() {
			changed = append(changed, p)
		} else {
			same = append(same, p.Pool)
		}
	}
	// A pool is not unchanged if its nodes with configs of their own change.
	return changed, slices.DeleteFunc(same, func(pool string) bool {
		return slices.ContainsFunc(changed, func(p review.PoolChange) bool { return p.PoolName() == pool })
	})
}

// countPools counts the pools of entries, several of which can be about nodes of one pool.
func countPools(changes []review.PoolChange) int {
	names := map[string]bool{}
	for _, p := range changes {
		names[p.PoolName()] = true
	}
	return len(names)
}

// maxFetches: the others are counted only.
const maxFetches = 5

// fetchTexts names what nodes of a pool download before they are drained, and how much that is.
func fetchTexts(p review.PoolChange) []string {
	if len(p.Fetches) == 0 {
		return nil
	}
	var texts []string
	for _, f := range p.Fetches[:min(maxFetches, len(p.Fetches))] {
		text := fmt.Sprintf("%s from %s (%s)", f.Path, f.Source, sizeText(f.Bytes))
		if f.Kind == review.ImageDownload {
			text = fmt.Sprintf("the OS image %s, if they have rpm-ostree (%s)", f.Source, sizeText(f.Bytes))
		}
		texts = append(texts, text)
	}
	if more := len(p.Fetches) - maxFetches; more > 0 {
		texts = append(texts, thousands(more)+" more")
	}
	return []string{strings.Join(texts, "; ") + totalText(p)}
}

func nodeWritesTexts(p review.PoolChange) []string {
	if p.NodeWrites == nil {
		return nil
	}
	return []string{count(p.NodeWrites.Configs, "config") + " of up to " +
		machineconfig.SizeText(int64(p.NodeWrites.Bytes)) + " together"}
}

func sizeText(bytes int64) string {
	if bytes == 0 {
		return "size unknown"
	}
	return machineconfig.SizeText(bytes)
}

// totalText says how much one node downloads, and all nodes of the pool if their number is known; nothing if a reader
// sees that already.
func totalText(p review.PoolChange) string {
	var sum int64
	atLeast := ""
	for _, f := range p.Fetches {
		sum += f.Bytes
		if f.Bytes == 0 {
			atLeast = "at least "
		}
	}
	switch nodes := nodeCount(p); {
	case sum == 0:
		return ""
	case nodes > 1:
		return fmt.Sprintf("; %d nodes download %s%s each, %s together", nodes, atLeast, sizeText(sum),
			sizeText(sum*int64(nodes)))
	case len(p.Fetches) > 1:
		return "; " + atLeast + sizeText(sum) + " for each node"
	}
	return ""
}

// nodeCount is 0 if it is not known.
func nodeCount(p review.PoolChange) int {
	if p.Rollout == nil {
		return len(p.Nodes)
	}
	return p.Rollout.Nodes
}
