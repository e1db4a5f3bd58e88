package report

import (
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/review"
)

// Outline is the text of a comparison in its parts. Text prints them in this order, and a browser shows each in a form
// of its own. All are safe to show.
type Outline struct {
	// Compared has a line for each side, with name and commit; empty if neither is a commit.
	Compared []string
	// Pools has the config before and after of each changed pool.
	Pools []string
	// Warnings are the most important remarks.
	Warnings []string
	// Groups are by the pools that get the changes.
	Groups []Group
	// Cluster are changes in cluster/, each list with its title.
	Cluster []List
	// Costs says for each changed pool what its nodes do and how long that takes. A disruptive one drains nodes.
	Costs []Cost
	// Unchanged names the pools without a change; empty if there are none.
	Unchanged string
	// WithoutEffect names the changed files that change nothing on nodes; empty if there are none.
	WithoutEffect string
	// Undo reverts the change; empty if nothing changes.
	Undo string
	// Sum is the last line: how many items change.
	Sum string
}

// Group has the changes that one group of pools gets.
type Group struct {
	// Title names the pools; empty if the comparison has only one.
	Title   string
	Entries []Entry
}

// Entry is one changed item.
type Entry struct {
	// Sign is + for an added, - for a removed and ~ for a changed item, with an exclamation mark if it drains nodes.
	Sign string
	// Line names the item, what nodes do and why, and its position in the repository.
	Line string
	// Disruptive: it drains nodes.
	Disruptive bool
	// Diff hides secrets.
	Diff []string
	// Hint is the rule that avoids a reboot, or empty.
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

// comparedText says which commit a revision such as HEAD~1 or v1 was.
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
