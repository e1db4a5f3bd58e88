package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/review"
)

// MarkdownOptions describe the place where the Markdown appears.
type MarkdownOptions struct {
	// Key distinguishes comments of one pull request, such as the name of a cluster. The marker and the heading contain
	// the key. An empty key is "default", which the heading does not contain.
	Key string
	// Full is Markdown that says where the whole difference is, if a part of it is left out. If Full is empty, the text
	// names the command `bunsen diff`.
	Full string
	// Limit is the maximum number of bytes. The value 0 means DefaultLimit, and a value below MinLimit means MinLimit.
	Limit int
}

const (
	// DefaultLimit is below the limits of git hosts for a comment, of which the smallest is 65,536 characters.
	// DefaultLimit counts bytes, and a text never has more characters than bytes.
	DefaultLimit = 60_000
	// MinLimit is enough for the parts that every comment has.
	MinLimit = 10_000
)

// Marker returns the hidden first line that identifies the comment.
func (o MarkdownOptions) Marker() string {
	return "<!-- bunsen:plan:v1:" + shorten(key(cmp.Or(o.Key, "default")), 100) + " -->"
}

// key removes characters that could end an HTML comment.
func key(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._/:-", r) {
			return r
		}
		return '_'
	}, strings.ToValidUTF8(text, "_"))
	for strings.Contains(text, "--") {
		text = strings.ReplaceAll(text, "--", "-")
	}
	return strings.Trim(text, "-")
}

// Markdown prints the comparison as a comment of a pull request, with at most o.Limit bytes. Markdown counts the items
// that do not fit. The same comparison gives the same bytes. Texts of a repository cannot change the structure of the
// comment.
func Markdown(c review.Comparison, o MarkdownOptions) string {
	limit := max(cmp.Or(o.Limit, DefaultLimit), MinLimit)
	hint := o.Full
	if hint == "" || len(hint) > 500 {
		hint = "`bunsen diff` shows the whole"
	}
	var top, bottom strings.Builder
	fmt.Fprintf(&top, "%s\n### OS config plan%s\n\n", o.Marker(), heading(c, o.Key))
	changed, same := split(c)
	if len(changed) == 0 {
		top.WriteString(nothing(c) + "\n\n")
	}
	top.WriteString(tableText(c, changed, same, limit/4))
	if o := c.Overview; len(changed) > 0 {
		fmt.Fprintf(&top, "**%s.**%s\n\n", countsText(o.Counts), sentence(prose(hiddenText(o.Hidden))))
	}
	writeCallouts(c, &top, limit/5)
	bottom.WriteString(avoidMarkdown(c.AvoidReboots, limit/10))
	if len(c.WithoutEffect) > 0 {
		fmt.Fprintf(&bottom, "**Changed without an effect on nodes:** %s.\n\n",
			atMost(codes(c.WithoutEffect), limit/10, count(len(c.WithoutEffect), "file")))
	}
	if c.Undo != "" {
		words := atMost(undoMarkdown(c), limit/10, "go back to the base")
		fmt.Fprintf(&bottom, "**Undo:** %s. Nodes that have not taken the change by then do nothing.\n", words)
	}
	var out strings.Builder
	out.WriteString(top.String())
	writeDetails(c, &out, limit-top.Len()-bottom.Len(), hint)
	out.WriteString(bottom.String())
	return strings.TrimRight(out.String(), "\n") + "\n"
}

// heading returns the heading of the comment, which names the two sides.
func heading(c review.Comparison, key string) string {
	out := ""
	if key != "" {
		out = " · " + code(shorten(key, maxHeading))
	}
	name := func(side, otherwise string, commit *review.Commit) string {
		text := cmp.Or(code(shorten(review.ShortHash(side), maxHeading)), otherwise)
		if commit != nil && review.ShortHash(side) != review.ShortHash(commit.Hash) {
			text += " (" + code(review.ShortHash(commit.Hash)) + ")"
		}
		return text
	}
	return out + " · " + name(c.Head, "head", c.HeadCommit) + " against " + name(c.Base, "base", c.BaseCommit)
}

// maxHeading limits the bytes of a name in the heading.
const maxHeading = 60

// atMost returns a text, or another text if the first one is too long.
func atMost(text string, limit int, otherwise string) string {
	if len(text) > limit {
		return otherwise
	}
	return text
}

func undoMarkdown(c review.Comparison) string {
	if strings.HasPrefix(c.Undo, "git ") {
		return code(c.Undo) + " renders to the same names as before"
	}
	return prose(c.Undo)
}

// tableText returns a table with a row for each pool that changes, and one row for all other pools. A fact that is
// unknown for every pool has no column. The table has at most about half of the bytes that limit allows.
func tableText(c review.Comparison, changed []review.PoolChange, same []string, limit int) string {
	if len(c.Pools) == 0 {
		return "No pools on either side.\n\n"
	}
	facts := slices.ContainsFunc(c.Pools, func(p review.PoolChange) bool { return p.Rollout != nil })
	var b strings.Builder
	b.WriteString("| Pool | Rendered | Files | Units | Other | Action |")
	if facts {
		b.WriteString(" Nodes | Reboots | Takes |\n|---|---|---|---|---|---|---|---|---|\n")
	} else {
		b.WriteString("\n|---|---|---|---|---|---|\n")
	}
	left := 0
	for _, p := range changed {
		row := tableRow(p, facts)
		if b.Len()+len(row) > limit/2 {
			left++
			continue
		}
		b.WriteString(row)
	}
	for _, pool := range slices.Sorted(maps.Keys(c.Together)) {
		r := c.Together[pool]
		b.WriteString("| " + code(pool) + " in all | | | | | |" + forecastCells(r))
	}
	if len(same) > 0 {
		fmt.Fprintf(&b, "| %s | unchanged | | | | – |", atMost(codes(same), limit/2, count(len(same), "pool")))
		if facts {
			fmt.Fprintf(&b, " %s | 0 | – |", nodesOf(c, same))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	if left > 0 {
		fmt.Fprintf(&b, "… and %s that change.\n\n", count(left, "more pool"))
	}
	if !facts && len(changed) > 0 {
		b.WriteString("How many nodes that is, and how long it takes, is unknown without a cluster.\n\n")
	}
	return b.String()
}

// nodesOf returns the sum of the pools' nodes, if it is known for all pools.
func nodesOf(c review.Comparison, pools []string) string {
	of := map[string]*review.Rollout{}
	for _, p := range c.Pools {
		of[p.Pool] = p.Rollout
	}
	sum := 0
	for _, name := range pools {
		if of[name] == nil {
			return "unknown"
		}
		sum += of[name].Nodes
	}
	return thousands(sum)
}

func tableRow(p review.PoolChange, facts bool) string {
	var files, units, other []review.Item
	for _, it := range p.Items {
		switch disruption.ChangeKind(it.Kind) {
		case disruption.KindFile:
			files = append(files, it)
		case disruption.KindUnit:
			units = append(units, it)
		default:
			other = append(other, it)
		}
	}
	row := fmt.Sprintf("| %s | %s | %s | %s | %s | %s |", code(p.Pool), renderedNames(p), tally(files), tally(units),
		tally(other), disruptionMarkdown(p))
	if !facts {
		return row + "\n"
	}
	if p.Rollout == nil {
		return row + " unknown | unknown | unknown |\n"
	}
	return row + forecastCells(*p.Rollout)
}

// forecastCells returns the last cells of a row: the nodes, the reboots and the duration.
func forecastCells(r review.Rollout) string {
	reboots, takes := thousands(r.Reboots), DurationText(r)
	if r.Reboots > 0 {
		reboots = "**" + reboots + "**"
	}
	if r.AtOnce > 1 && r.Nodes > r.AtOnce && r.MaxMinutes > 0 {
		takes += fmt.Sprintf(" (%d at a time)", r.AtOnce)
	}
	if r.Paused {
		takes += ", paused"
	}
	return fmt.Sprintf(" %s | %s | %s |\n", thousands(r.Nodes), reboots, takes)
}

// disruptionMarkdown returns a text that says what nodes do, with the most important word in bold.
func disruptionMarkdown(p review.PoolChange) string {
	switch {
	case len(p.Refused) > 0:
		return "**refused** by running nodes"
	case p.From == "":
		return "new pool"
	case p.KeepsConfig:
		return "**no documents**: nodes keep their config"
	case p.To == "":
		return "the pool goes"
	case p.Level() == disruption.Reboot:
		return "drain + **reboot**"
	case p.Level() == disruption.Drain:
		return "**drain**, " + prose(strings.TrimPrefix(actionWords(p.Actions), "drain, "))
	}
	return prose(actionsOf(p))
}

// renderedNames returns the short hashes of both rendered configs.
func renderedNames(p review.PoolChange) string {
	if len(p.Nodes) > 1 {
		return "each its own"
	}
	hash := func(name, otherwise string) string {
		if name == "" {
			return otherwise
		}
		name = strings.TrimPrefix(name, "rendered-"+p.PoolName()+"-")
		return code(name[:min(5, len(name))])
	}
	return hash(p.From, "–") + " → " + hash(p.To, "–")
}
