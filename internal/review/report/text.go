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

// Text prints the comparison for people: what was compared, the result of each pool, then each change once, and then
// the sums.
func Text(c review.Comparison, s Style) string {
	var b strings.Builder
	o := OutlineOf(c)
	for _, side := range o.Compared {
		fmt.Fprintf(&b, "%s\n", side)
	}
	for _, p := range o.Pools {
		fmt.Fprintf(&b, "%s\n", s.bold(p))
	}
	for _, w := range o.Warnings {
		fmt.Fprintf(&b, "%s\n", s.red("! "+w))
	}
	if len(o.Pools)+len(o.Warnings) > 0 {
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
	for _, cost := range o.Costs {
		if cost.Disruptive {
			cost.Line = s.red(cost.Line)
		}
		fmt.Fprintf(&b, "%s\n", cost.Line)
	}
	if o.Unchanged != "" {
		fmt.Fprintf(&b, "unchanged: %s\n", o.Unchanged)
	}
	if o.WithoutEffect != "" {
		fmt.Fprintf(&b, "changed without an effect on nodes: %s\n", o.WithoutEffect)
	}
	if o.Undo != "" {
		fmt.Fprintf(&b, "undo: %s\n", o.Undo)
	}
	return b.String() + o.Sum + "\n"
}

// sentence writes nothing for "".
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return " " + text + "."
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

// maxCauses: the others are counted only.
const maxCauses = 3

// because returns the reasons for a disruption of one level in a pool.
func because(level disruption.Disruption) func(review.PoolChange) []string {
	return func(p review.PoolChange) []string {
		if p.Rollout != nil && p.Rollout.Nodes == 0 {
			return nil // The pool has no node to disrupt.
		}
		return reasonsFor(p, level, func(it review.Item) string { return causeText(it) })
	}
}

// reasonsFor names the causes of a disruption of one level; nothing for a new or a removed pool.
func reasonsFor(p review.PoolChange, level disruption.Disruption, name func(review.Item) string) []string {
	causes := causes(p)
	if len(causes) == 0 || p.Level() != level || p.From == "" || p.To == "" {
		return nil
	}
	var reasons []string
	for _, it := range causes[:min(maxCauses, len(causes))] {
		reasons = append(reasons, name(it))
	}
	if more := len(causes) - maxCauses; more > 0 {
		reasons = append(reasons, thousands(more)+" more")
	}
	return []string{strings.Join(reasons, "; ")}
}

// causeText has the reason for the item's disruption.
func causeText(it review.Item) string {
	why := it.Why
	if isListed(it) {
		lines := strings.Split(strings.TrimSuffix(it.Diff, "\n"), "\n")
		why = strings.Join(lines[:min(maxCauses, len(lines))], " ")
	}
	if place := it.Places(); place != "" {
		why += ", from " + place
	}
	return itemTitle(it) + " (" + strings.TrimPrefix(why, ", ") + ")"
}

// isListed reports whether the difference itself can be the reason: a short list of arguments, or one value.
func isListed(it review.Item) bool {
	switch disruption.ChangeKind(it.Kind) {
	case disruption.KindKargs, disruption.KindExtensions, disruption.KindKernelType, disruption.KindOSImage:
		return true
	}
	return false
}

// poolCost describes the pool in one line: `worker: 3 changes, reload chronyd.service, 40 nodes, 0 reboots, up to 45
// min`.
func poolCost(p review.PoolChange) Cost {
	if p.KeepsConfig {
		return Cost{fmt.Sprintf("%s: no document any more, so its nodes keep %s and the pool becomes degraded",
			safetext.Line(p.Pool), safetext.Line(p.From)), true}
	}
	line := fmt.Sprintf("%s: %s, %s", safetext.Line(p.Pool), count(len(p.Items), "change"), safetext.Line(actionsOf(p)))
	switch r := p.Rollout; {
	case r != nil && r.Nodes == 0 && len(p.Refused) == 0:
		return Cost{fmt.Sprintf("%s: %s; %s, so nothing reboots", safetext.Line(p.Pool),
			count(len(p.Items), "change"), cmp.Or(absentText(p), "no nodes")), false}
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
		if absent := absentText(p); absent != "" {
			line += "; " + absent
		}
	}
	return Cost{line, p.Level() >= disruption.Drain}
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
		out = append(out, Cost{line, r.Drains > 0})
	}
	return out
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

func nameOr(name, otherwise string) string {
	if name == "" {
		return otherwise
	}
	return safetext.Line(name)
}

// enumerate writes a list as in a sentence: `master, worker and gpu`.
func enumerate(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " and " + list[last]
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
