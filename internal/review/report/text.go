package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/review"
)

// Style selects the colours of a text. The zero Style gives a text without colours.
type Style struct {
	// Colour turns ANSI colours on.
	Colour bool
}

// Text prints the comparison for people: what was compared, and what it costs each pool; then the remarks and each
// change once; then the names of the configs, the undo and the sums.
func Text(c review.Comparison, s Style) string {
	var b strings.Builder
	o := OutlineOf(c)
	for _, side := range o.Compared {
		fmt.Fprintf(&b, "%s\n", side)
	}
	for _, cost := range o.Costs {
		line := cost.Line
		if cost.Already != "" {
			line += "; " + cost.Already
		}
		if cost.Disruptive {
			line = s.red(line)
		}
		fmt.Fprintf(&b, "%s\n", line)
	}
	if o.Unchanged != "" {
		fmt.Fprintf(&b, "unchanged: %s\n", o.Unchanged)
	}
	if o.WithoutEffect != "" {
		fmt.Fprintf(&b, "changed without an effect on nodes: %s\n", o.WithoutEffect)
	}
	for _, w := range o.Warnings {
		fmt.Fprintf(&b, "%s\n", s.red("! "+w))
	}
	if b.Len() > 0 && len(o.Groups)+len(o.Cluster)+len(o.Pools) > 0 {
		b.WriteString("\n")
	}
	for _, g := range o.Groups {
		if g.Title != "" {
			fmt.Fprintf(&b, "%s\n\n", s.bold(g.Title))
		}
		for _, e := range g.Entries {
			e.write(&b, s)
		}
	}
	for _, l := range o.Cluster {
		fmt.Fprintf(&b, "%s\n", s.bold(l.Title))
		for _, line := range l.Lines {
			fmt.Fprintf(&b, "~ %s\n", line)
		}
		b.WriteString("\n")
	}
	writeAvoid(c.AvoidReboots, &b, s)
	for _, p := range o.Pools {
		fmt.Fprintf(&b, "%s\n", s.bold(p))
	}
	if o.Undo != "" {
		fmt.Fprintf(&b, "undo: %s\n", o.Undo)
	}
	if o.UndoCost != "" {
		fmt.Fprintf(&b, "%s\n", s.red("! "+o.UndoCost))
	}
	return b.String() + o.Sum + "\n"
}

// Outline is the text of a comparison in its parts. Text prints them in this order, and a browser shows each in a form
// of its own. All are safe to show.
type Outline struct {
	// Compared has a line for each side, with name and commit; empty if neither is a commit.
	Compared []string
	// Costs says for each changed pool what its nodes do and how long that takes. A disruptive one drains nodes.
	Costs []Cost
	// Unchanged names the pools without a change; empty if there are none.
	Unchanged string
	// WithoutEffect names the changed files that change nothing on nodes; empty if there are none.
	WithoutEffect string
	// Warnings are the most important remarks.
	Warnings []string
	// Groups are by the pools that get the changes.
	Groups []Group
	// Cluster are changes in cluster/, each list with its title.
	Cluster []List
	// Pools has the config before and after of each changed pool.
	Pools []string
	// Undo reverts the change; empty if nothing changes. UndoCost says that the undo costs more than the change, or is
	// empty.
	Undo, UndoCost string
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
	// Already says how far the rollout is, if the config is the pool's target already; otherwise empty. A page of the
	// console says that beside it.
	Already string
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
	if text := undoCostText(c.UndoCosts); text != "" {
		o.UndoCost = safetext.Line("this undo " + text)
	}
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

func nameOr(name, otherwise string) string {
	if name == "" {
		return otherwise
	}
	return safetext.Line(name)
}

func warnings(c review.Comparison) (out []string) {
	say := func(of func(review.PoolChange) []string, format string) {
		for _, r := range remarks(c, of) {
			out = append(out, safetext.Line(strings.NewReplacer("POOLS", enumerate(r.pools), "TEXT",
				r.text).Replace(format)))
		}
	}
	say(func(p review.PoolChange) []string {
		return p.NotYetAllowed
	}, "in POOLS, nothing before this change allows TEXT. Merge the allowance first, in a change of its own")
	for _, text := range recipientTexts(c) {
		out = append(out, safetext.Line(text))
	}
	say(unreadableTexts, "in POOLS, TEXT")
	say(func(p review.PoolChange) []string {
		return p.NewlyUnreviewed
	}, "this change itself allows contents that no reviewer can read; in POOLS at TEXT")
	for _, w := range c.Warnings {
		out = append(out, safetext.Line("warning: "+warningText(w)))
	}
	for _, text := range submoduleTexts(c) {
		out = append(out, safetext.Line(text))
	}
	for _, level := range []disruption.Disruption{disruption.Reboot, disruption.Drain} {
		say(because(level), level.String()+" of POOLS because of TEXT")
	}
	say(notEvicted, "pods of POOLS go down with the reboot: TEXT")
	say(func(p review.PoolChange) []string { return p.Refused }, "running nodes of POOLS cannot take TEXT")
	say(func(p review.PoolChange) []string { return p.CheckedOnNode }, "in POOLS, TEXT")
	say(fetchTexts, "before they are drained, nodes of POOLS download TEXT")
	say(nodeWritesTexts, "for single nodes of POOLS, the cluster stores TEXT on its API server")
	say(func(p review.PoolChange) []string {
		return p.NewMarks
	}, "this change itself marks secrets, and the marks hide nothing here; in POOLS at TEXT")
	say(func(p review.PoolChange) []string {
		return p.RemovedMarks
	}, "this change removes marks of secrets, so that later reviews show them; in POOLS at TEXT")
	say(func(p review.PoolChange) []string { return p.NewNodesOnly }, "existing nodes of POOLS will not get TEXT")
	say(func(p review.PoolChange) []string { return noticeTexts(p) }, "in POOLS the order of merging decides: TEXT")
	say(moving, "nodes of POOLS: TEXT")
	return out
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

// clusterLists are the changes in cluster/ that are in no rendered config.
func clusterLists(c review.Comparison) (out []List) {
	for _, part := range []List{
		{"disruption policy: what later changes cost", c.Policy},
		{"MachineConfigPools: whose nodes, and how many at once", c.MachineConfigPools},
		{"objects of cluster/: how and when nodes are updated", c.ClusterObjects},
		{"creation rules: for whom secrets are encrypted", c.CreationRules},
	} {
		if len(part.Lines) == 0 {
			continue
		}
		lines := make([]string, len(part.Lines))
		for i, line := range part.Lines {
			lines[i] = safetext.Line(line)
		}
		out = append(out, List{part.Title, lines})
	}
	return out
}

// poolCost describes the pool in one line: `worker: 3 changes, reload chronyd.service, 40 nodes, 0 reboots, up to 45
// min`.
func poolCost(p review.PoolChange) Cost {
	if p.KeepsConfig {
		return Cost{Line: fmt.Sprintf("%s: no document any more, so its nodes keep %s and the pool becomes degraded",
			safetext.Line(p.Pool), safetext.Line(p.From)), Disruptive: true}
	}
	line := fmt.Sprintf("%s: %s, %s", safetext.Line(p.Pool), count(len(p.Items), "change"), safetext.Line(actionsOf(p)))
	already := ""
	switch r := p.Rollout; {
	case r != nil && r.Nodes == 0 && len(p.Refused) == 0:
		return Cost{Line: fmt.Sprintf("%s: %s; %s, so nothing reboots", safetext.Line(p.Pool),
			count(len(p.Items), "change"), cmp.Or(absentText(p), "no nodes"))}
	case len(p.Refused) > 0:
		line += ", refused by running nodes"
	case p.From == "":
		line += ", for machines that join"
	case p.To == "":
		line += ", the pool goes"
	case r == nil:
		line += ", nodes unknown without --cluster"
	default:
		line += fmt.Sprintf(", %s, %s, %s", count(r.Nodes, "node"), count(r.Reboots, "reboot"), DurationText(*r))
		if r.Paused {
			line += " once it is resumed (paused)"
		}
		if r.Updated != nil {
			already = alreadyText(p.PoolName(), *r)
		}
		if absent := absentText(p); absent != "" {
			line += "; " + absent
		}
	}
	return Cost{line, p.Level() >= disruption.Drain, already}
}

// alreadyText says how far the rollout is of a config that is the pool's target.
func alreadyText(pool string, r review.Rollout) string {
	text := fmt.Sprintf("already the pool's target: %d of %s run it", *r.Updated, count(r.Nodes, "node"))
	if r.Stopped != "" {
		text += ", and the rollout is stopped (" + r.Stopped + "): bunsen why pool/" + pool
	}
	return safetext.Line(text)
}

// maxAbsent is for a text about missing nodes.
const maxAbsent = 5

// absentText names the nodes with configs of their own that the pool does not have: `node-9 is not in the pool`.
func absentText(p review.PoolChange) string {
	n := len(p.Absent)
	names := strings.Join(p.Absent[:min(n, maxAbsent)], ", ")
	switch {
	case n == 0:
		return ""
	case n == 1:
		return safetext.Line(names) + " is not in the pool"
	case n > maxAbsent:
		names += " and " + thousands(n-maxAbsent) + " more"
	}
	return safetext.Line(names) + " are not in the pool"
}

// togetherCosts says for pools with several entries what all nodes do in one rollout.
func togetherCosts(c review.Comparison) (out []Cost) {
	for _, pool := range slices.Sorted(maps.Keys(c.Together)) {
		r := c.Together[pool]
		line := fmt.Sprintf("%s in all: %s, %s, %s", safetext.Line(pool), count(r.Nodes, "node"),
			count(r.Reboots, "reboot"), DurationText(r))
		if r.Paused {
			line += " once it is resumed (paused)"
		}
		out = append(out, Cost{Line: line, Disruptive: r.Drains > 0})
	}
	return out
}

// undoCostText says, behind the undo as its subject, what it does to nodes, if that is more than what the change does;
// "" otherwise.
func undoCostText(costs []review.UndoCost) string {
	var each []string
	for _, c := range costs {
		each = append(each, c.Pool+": "+strings.Replace(c.Disruption, "reboot", "drain + reboot", 1))
	}
	if len(each) == 0 {
		return ""
	}
	return "disturbs nodes more than the change, because it also takes the rules of cluster/ back (" +
		strings.Join(each, ", ") + "). Rules that are merged before, in a change of their own, stay"
}

// sentence writes nothing for "".
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return " " + text + "."
}

func (e Entry) write(b *strings.Builder, s Style) {
	line := e.Sign + " " + e.Line
	if e.Disruptive {
		line = s.red(line)
	}
	b.WriteString(line + "\n")
	for _, text := range e.Diff {
		b.WriteString("  " + s.line(text) + "\n")
	}
	if e.Hint != "" {
		b.WriteString("  " + s.line("# "+e.Hint) + "\n")
	}
	b.WriteString("\n")
}

func writeAvoid(a *review.AvoidReboots, b *strings.Builder, s Style) {
	if a == nil {
		return
	}
	fmt.Fprintf(b, "%s\n%s", s.bold(safetext.Line(avoidTitle(a))), review.Indented(a.YAML, "  "))
	if still := stillRebootText(a); still != "" {
		b.WriteString(safetext.Line(still) + "\n")
	}
	b.WriteString("\n")
}

func (s Style) bold(t string) string { return s.wrap("1", t) }

// red marks what disrupts nodes. It is bold, so that a removed line of a file does not look the same.
func (s Style) red(t string) string { return s.wrap("1;31", t) }

// line colours one line of a diff according to its first character.
func (s Style) line(l string) string {
	switch {
	case strings.HasPrefix(l, "+"):
		return s.wrap("32", l)
	case strings.HasPrefix(l, "-"):
		return s.wrap("31", l)
	case strings.HasPrefix(l, "@@"), strings.HasPrefix(l, "#"):
		return s.wrap("36", l)
	}
	return l
}

func (s Style) wrap(code, t string) string {
	if !s.Colour {
		return t
	}
	return "\x1b[" + code + "m" + t + "\x1b[0m"
}

// enumerate writes a list as in a sentence: `master, worker and gpu`.
func enumerate(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " and " + list[last]
}
