package review

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"

	"github.com/bunsen-os/bunsen/policy"
)

// MarkdownOptions say for where the Markdown is.
type MarkdownOptions struct {
	// Key tells one sticky comment from another, such as the name of a cluster; it stands in the marker and the heading.
	// Empty is "default", and not in the heading.
	Key string
	// Full is Markdown that says where the whole difference is, when some of it is left out; empty names `bunsen diff`.
	Full string
	// Limit is the most bytes; 0 is DefaultLimit, and less than MinLimit is MinLimit.
	Limit int
}

const (
	// DefaultLimit keeps below what the hosts of git take for a comment, 65,536 characters at the least. It counts bytes,
	// of which there are as many as characters, or more.
	DefaultLimit = 60_000
	// MinLimit leaves room for what stands in every comment.
	MinLimit = 10_000
)

// Marker is the hidden first line by which a comment is found again.
func (o MarkdownOptions) Marker() string {
	return "<!-- bunsen:plan:v1:" + shorten(key(cmp.Or(o.Key, "default")), 100) + " -->"
}

// key keeps what cannot end an HTML comment.
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

// Markdown prints the comparison as a comment of a pull request. The same comparison gives the same bytes, at most
// o.Limit of them: what does not fit is counted. Nothing that a repository says can break out of its place.
func (c Comparison) Markdown(o MarkdownOptions) string {
	limit := max(cmp.Or(o.Limit, DefaultLimit), MinLimit)
	hint := o.Full
	if hint == "" || len(hint) > 500 {
		hint = "`bunsen diff` shows the whole"
	}
	var top, bottom strings.Builder
	fmt.Fprintf(&top, "%s\n### OS config plan%s\n\n", o.Marker(), c.heading(o.Key))
	changed, same := c.split()
	if len(changed) == 0 {
		top.WriteString(nothing(c) + "\n\n")
	}
	c.table(&top, changed, same, limit/4)
	if o := overviewOf(c); len(changed) > 0 {
		fmt.Fprintf(&top, "**%s.**%s\n\n", o.Counts, sentence(prose(o.HiddenItems.text())))
	}
	c.callouts(&top, limit/5)
	bottom.WriteString(c.AvoidReboots.markdown(limit / 10))
	if c.Undo != "" {
		words := atMost(c.undoWords(), limit/10, "go back to the base")
		fmt.Fprintf(&bottom, "**Undo:** %s. Nodes that have not taken the change by then do nothing.\n", words)
	}
	var out strings.Builder
	out.WriteString(top.String())
	c.details(&out, limit-top.Len()-bottom.Len(), hint)
	out.WriteString(bottom.String())
	return strings.TrimRight(out.String(), "\n") + "\n"
}

// heading names what is compared.
func (c Comparison) heading(key string) string {
	out := ""
	if key != "" {
		out = " · " + code(shorten(key, maxHeading))
	}
	name := func(side, otherwise string) string { return cmp.Or(code(shorten(short(side), maxHeading)), otherwise) }
	return out + " · " + name(c.Head, "head") + " against " + name(c.Base, "base")
}

// maxHeading is how many bytes of a name stand in the heading.
const maxHeading = 60

// atMost is a text, or another one where it is too long.
func atMost(text string, limit int, otherwise string) string {
	if len(text) > limit {
		return otherwise
	}
	return text
}

func (c Comparison) undoWords() string {
	if strings.HasPrefix(c.Undo, "git ") {
		return code(c.Undo) + " renders to the same names as before"
	}
	return prose(c.Undo)
}

// table has a row for each pool that changes, and one for all others. What is known of no pool has no column.
func (c Comparison) table(b *strings.Builder, changed []PoolChange, same []string, room int) {
	if len(c.Pools) == 0 {
		b.WriteString("No pools on either side.\n\n")
		return
	}
	facts, end := false, b.Len()+room/2
	for _, p := range c.Pools {
		facts = facts || p.Rollout != nil
	}
	b.WriteString("| Pool | Rendered | Files | Units | Other | Action |")
	if facts {
		b.WriteString(" Nodes | Reboots | Takes |\n|---|---|---|---|---|---|---|---|---|\n")
	} else {
		b.WriteString("\n|---|---|---|---|---|---|\n")
	}
	left := 0
	for _, p := range changed {
		row := p.row(facts)
		if b.Len()+len(row) > end {
			left++
			continue
		}
		b.WriteString(row)
	}
	if len(same) > 0 {
		fmt.Fprintf(b, "| %s | unchanged | | | | – |", atMost(codes(same), room/2, count(len(same), "pool")))
		if facts {
			fmt.Fprintf(b, " %s | 0 | – |", c.nodesOf(same))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	if left > 0 {
		fmt.Fprintf(b, "… and %s that change.\n\n", count(left, "more pool"))
	}
	if !facts && len(changed) > 0 {
		b.WriteString("How many nodes that is, and how long it takes, is unknown: no cluster was asked.\n\n")
	}
}

// nodesOf sums the nodes of pools, where they are known of all.
func (c Comparison) nodesOf(pools []string) string {
	of := map[string]*Rollout{}
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

func (p PoolChange) row(facts bool) string {
	var files, units, other []Item
	for _, it := range p.Items {
		switch policy.ChangeKind(it.Kind) {
		case policy.KindFile:
			files = append(files, it)
		case policy.KindUnit:
			units = append(units, it)
		default:
			other = append(other, it)
		}
	}
	row := fmt.Sprintf("| %s | %s | %s | %s | %s | %s |", code(p.Pool), p.names(), tally(files), tally(units), tally(other), p.deed())
	if !facts {
		return row + "\n"
	}
	r := p.Rollout
	if r == nil {
		return row + " unknown | unknown | unknown |\n"
	}
	reboots, takes := thousands(r.Reboots), r.words()
	if r.Reboots > 0 {
		reboots = "**" + reboots + "**"
	}
	if r.AtOnce > 1 && r.Nodes > r.AtOnce && r.MaxMinutes > 0 {
		takes += fmt.Sprintf(" (%d at a time)", r.AtOnce)
	}
	if r.Paused {
		takes += ", paused"
	}
	return row + fmt.Sprintf(" %s | %s | %s |\n", thousands(r.Nodes), reboots, takes)
}

// deed is what nodes do, with the word that matters in bold.
func (p PoolChange) deed() string {
	switch {
	case len(p.Refused) > 0:
		return "**refused** by running nodes"
	case p.From == "":
		return "new pool"
	case p.KeepsConfig:
		return "**no documents**: nodes keep their config"
	case p.To == "":
		return "the pool goes"
	case p.level() == policy.Reboot:
		return "drain + **reboot**"
	case p.level() == policy.Drain:
		return "**drain**, " + prose(strings.TrimPrefix(actionWords(p.Actions), "drain, "))
	}
	return prose(p.sum())
}

// names are the hashes of both rendered configs, short.
func (p PoolChange) names() string {
	hash := func(name, otherwise string) string {
		if name == "" {
			return otherwise
		}
		name = strings.TrimPrefix(name, "rendered-"+p.Pool+"-")
		return code(name[:min(5, len(name))])
	}
	return hash(p.From, "–") + " → " + hash(p.To, "–")
}
