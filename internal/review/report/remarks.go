package report

import (
	"fmt"
	"slices"
	"strconv"
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

// maxSummary is the limit of git hosts for the description of a status.
const maxSummary = 140

// Summary returns one short line, for a status: `1 to add, 1 to change, 0 to remove in 1 pool: gpu drain + reboot`.
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

// unreadableCount counts the files that nobody without the key can review, once for several pools.
func unreadableCount(c review.Comparison) int {
	all := map[string]bool{}
	for _, p := range c.Pools {
		for _, path := range p.Unreadable {
			all[path] = true
		}
	}
	return len(all)
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

// poolSummary says in two or three words what happens to the nodes.
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

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

func thousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// unreadableTexts names the files of a pool that nobody without the key can review.
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
