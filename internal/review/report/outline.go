package report

import (
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/review"
)

// Outline is the text of a comparison in its parts. Text prints them in this order, and a browser shows each part in a
// form of its own. All texts are safe to show.
type Outline struct {
	// Compared has a line for each side: its name and its commit. It is empty if neither side is a commit.
	Compared []string
	// Pools has a line for each changed pool: its config before and after.
	Pools []string
	// Warnings are the most important remarks for a reviewer.
	Warnings []string
	// Groups are the changes by the pools that get them.
	Groups []Group
	// Cluster are the changes of objects in cluster/, each list with its title.
	Cluster []List
	// Costs has a line for each changed pool, which says what its nodes do and how long that takes. A disruptive Cost
	// is that of a pool whose nodes are drained.
	Costs []Cost
	// Unchanged names the pools without a change. Unchanged is empty if every pool changes.
	Unchanged string
	// WithoutEffect names the changed files that change nothing on nodes. WithoutEffect is empty if there are none.
	WithoutEffect string
	// Undo is the command that reverts the change. Undo is empty if nothing changes.
	Undo string
	// Sum is the last line of the text. It says how many items change.
	Sum string
}

// Group has the changes that one group of pools gets.
type Group struct {
	// Title names the pools of the group. Title is empty if the comparison has only one pool.
	Title string
	// Entries are the changed items.
	Entries []Entry
}

// Entry is one changed item.
type Entry struct {
	// Sign is + for an added item, - for a removed item, and ~ for a changed item. An exclamation mark follows if the
	// item drains nodes.
	Sign string
	// Line names the item, says what nodes do for the item and why, and names its position in the repository.
	Line string
	// Disruptive is true if the item drains nodes.
	Disruptive bool
	// Diff has the lines of the difference, with secrets hidden.
	Diff []string
	// Hint is the rule that avoids a reboot; empty if no rule avoids it.
	Hint string
}

// List is a title with lines.
type List struct {
	Title string
	Lines []string
}

// Cost says what the nodes of one pool do.
type Cost struct {
	Line       string
	Disruptive bool
}

// OutlineOf returns the parts of a comparison's text.
func OutlineOf(c review.Comparison) Outline {
	var o Outline
	changed, same := split(c)
	if c.BaseCommit != nil || c.HeadCommit != nil {
		o.Compared = []string{comparedText("base", c.Base, c.BaseCommit), comparedText("head", c.Head, c.HeadCommit)}
	}
	for _, p := range changed {
		if len(p.Nodes) > 1 {
			o.Pools = append(o.Pools, "pool "+safetext.Line(p.Pool)+": each node its own config")
			continue
		}
		o.Pools = append(o.Pools, "pool "+safetext.Line(p.Pool)+": "+nameOr(p.From, "(new)")+" → "+
			nameOr(p.To, noConfigText(p)))
	}
	o.Warnings = warnings(c)
	sections := c.Sections()
	for _, sec := range sections {
		g := Group{}
		if len(sections) > 1 || len(sec.Pools) > 1 {
			g.Title = "in " + safetext.Line(enumerate(sec.Pools))
		}
		for _, it := range sec.Items {
			g.Entries = append(g.Entries, entryOf(it))
		}
		o.Groups = append(o.Groups, g)
	}
	o.Cluster = clusterLists(c)
	for _, p := range changed {
		o.Costs = append(o.Costs, poolCost(p))
	}
	o.Costs = append(o.Costs, togetherCosts(c)...)
	o.Unchanged, o.Undo = safetext.Line(strings.Join(same, ", ")), safetext.Line(c.Undo)
	o.WithoutEffect = safetext.Line(withoutEffectText(c))
	switch {
	case len(c.Pools) == 0:
		o.Sum = "No pools on either side."
	case len(changed) == 0:
		o.Sum = nothing(c)
	default:
		o.Sum = countsText(c.Counts) + " in " + count(countPools(changed), "pool") + "." +
			sentence(hiddenText(c.Hidden))
	}
	return o
}

// comparedText says what one side is, so that a reader sees which commit a revision such as HEAD~1 or v1 was.
func comparedText(side, name string, commit *review.Commit) string {
	text := side + ": " + review.ShortHash(name)
	switch {
	case commit == nil:
		return safetext.Line(text)
	case review.ShortHash(name) != review.ShortHash(commit.Hash):
		text += ", commit " + review.ShortHash(commit.Hash)
	}
	if commit.Subject != "" {
		text += " \"" + commit.Subject + "\""
	}
	return safetext.Line(text)
}

// entryOf describes a changed item.
func entryOf(it review.Item) Entry {
	e := Entry{Sign: changeSign(it), Disruptive: movesPods(it)}
	line := itemTitle(it)
	if move := renameText(it); move != "" {
		line += " · " + move
	}
	line += " · " + effectText(it)
	if it.Why != "" {
		line += " (" + it.Why + ")"
	}
	if it.Origin != "" {
		line += " · from " + it.Origin
	}
	e.Line = safetext.Line(line)
	for text := range strings.Lines(diffOf(it)) {
		e.Diff = append(e.Diff, safetext.Line(strings.TrimSuffix(text, "\n")))
	}
	if hint := ruleHint(it.AvoidReboot); hint != "" {
		e.Hint = safetext.Line(hint)
	}
	return e
}
