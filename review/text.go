package review

import (
	"fmt"
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/policy"
)

// Style colours the text; the zero value leaves it plain.
type Style struct {
	// Colour turns ANSI colours on.
	Colour bool
}

// Text prints the comparison for people: what becomes of each pool, each change once, and the sums as its last lines.
func (c Comparison) Text(s Style) string {
	var b strings.Builder
	changed, same := c.split()
	for _, p := range changed {
		fmt.Fprintf(&b, "%s\n", s.bold(fmt.Sprintf("pool %s: %s → %s", safetext.Line(p.Pool), nameOr(p.From, "(new)"), nameOr(p.To, p.gone()))))
	}
	warnings(&b, s, c)
	if len(changed)+len(c.Warnings) > 0 {
		b.WriteString("\n")
	}
	sections := c.sections()
	for _, sec := range sections {
		if len(sections) > 1 || len(sec.pools) > 1 {
			fmt.Fprintf(&b, "%s\n\n", s.bold("in "+safetext.Line(enumerate(sec.pools))))
		}
		for _, it := range sec.items {
			it.text(&b, s)
		}
	}
	clusterText(&b, s, c)
	c.AvoidReboots.text(&b, s)
	for _, p := range changed {
		fmt.Fprintf(&b, "%s\n", p.summary(s))
	}
	if len(same) > 0 {
		fmt.Fprintf(&b, "unchanged: %s\n", safetext.Line(strings.Join(same, ", ")))
	}
	if c.Undo != "" {
		fmt.Fprintf(&b, "undo: %s\n", safetext.Line(c.Undo))
	}
	switch o := overviewOf(c); {
	case len(c.Pools) == 0:
		b.WriteString("No pools on either side.\n")
	case len(changed) == 0:
		b.WriteString(nothing(c) + "\n")
	default:
		fmt.Fprintf(&b, "%s in %s.%s\n", o.Counts, count(len(changed), "pool"), sentence(o.HiddenItems.text()))
	}
	return b.String()
}

// sentence writes a text as a further sentence, nothing for none.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return " " + text + "."
}

// clusterText prints what changes in cluster/ and is in no rendered config.
func clusterText(b *strings.Builder, s Style, c Comparison) {
	for _, part := range []struct {
		title string
		lines []string
	}{
		{"disruption policy: what later changes cost", c.Policy},
		{"MachineConfigPools: whose nodes, and how many at once", c.MachineConfigPools},
		{"objects of cluster/: how and when nodes are updated", c.ClusterObjects},
	} {
		if len(part.lines) == 0 {
			continue
		}
		fmt.Fprintf(b, "%s\n", s.bold(part.title))
		for _, line := range part.lines {
			fmt.Fprintf(b, "~ %s\n", safetext.Line(line))
		}
		b.WriteString("\n")
	}
}

// warnings are what a reviewer must not miss.
func warnings(b *strings.Builder, s Style, c Comparison) {
	say := func(of func(PoolChange) []string, format string) {
		for _, r := range c.remarks(of) {
			fmt.Fprintf(b, "%s\n", s.red("! "+safetext.Line(strings.NewReplacer("POOLS", enumerate(r.pools), "TEXT", r.text).Replace(format))))
		}
	}
	for _, w := range c.Warnings {
		fmt.Fprintf(b, "%s\n", s.red("! warning: "+safetext.Line(w.text())))
	}
	for _, level := range []policy.Disruption{policy.Reboot, policy.Drain} {
		say(because(level), level.String()+" of POOLS because of TEXT")
	}
	say(func(p PoolChange) []string { return p.Refused }, "running nodes of POOLS cannot take TEXT")
	say(func(p PoolChange) []string { return p.CheckedOnNode }, "in POOLS, TEXT")
	say(func(p PoolChange) []string { return p.NewMarks }, "marks that this change adds hide nothing here; in POOLS, TEXT is shown")
	say(func(p PoolChange) []string { return p.NewNodesOnly }, "existing nodes of POOLS will not get TEXT")
	say(PoolChange.noticeTexts, "in POOLS the order of merging decides: TEXT")
	say(moving, "nodes of POOLS: TEXT")
}

// maxCauses is how many reasons of a reboot are named; the rest is counted.
const maxCauses = 3

// because returns what says why a pool's nodes do this much.
func because(level policy.Disruption) func(PoolChange) []string {
	return func(p PoolChange) []string { return p.because(level, Item.cause) }
}

// because names the causes of this much disruption, in one text; none for pools that no nodes leave or reach.
func (p PoolChange) because(level policy.Disruption, name func(Item) string) []string {
	causes := p.causes()
	if len(causes) == 0 || p.level() != level || p.From == "" || p.To == "" {
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

// cause is the item with why it costs what it costs.
func (it Item) cause() string {
	why := it.Why
	if it.listed() {
		lines := strings.Split(strings.TrimSuffix(it.Diff, "\n"), "\n")
		why = strings.Join(lines[:min(maxCauses, len(lines))], " ")
	}
	if place := it.places(); place != "" {
		why += ", from " + place
	}
	return it.title() + " (" + strings.TrimPrefix(why, ", ") + ")"
}

// listed tells that the difference itself is the reason: a short list of arguments, or one value.
func (it Item) listed() bool {
	switch policy.ChangeKind(it.Kind) {
	case policy.KindKargs, policy.KindExtensions, policy.KindKernelType, policy.KindOSImage:
		return true
	}
	return false
}

// summary is the pool in one line: `worker: 3 changes, reload chronyd.service, 40 nodes, 0 reboots, up to 45 min`.
func (p PoolChange) summary(s Style) string {
	if p.KeepsConfig {
		return s.red(fmt.Sprintf("%s: no document any more, so its nodes keep %s and the pool becomes degraded", safetext.Line(p.Pool), safetext.Line(p.From)))
	}
	line := fmt.Sprintf("%s: %s, %s", safetext.Line(p.Pool), count(len(p.Items), "change"), safetext.Line(p.sum()))
	switch r := p.Rollout; {
	case r != nil && r.Nodes == 0 && len(p.Refused) == 0:
		return fmt.Sprintf("%s: %s; no nodes, so nothing reboots", safetext.Line(p.Pool), count(len(p.Items), "change"))
	case len(p.Refused) > 0:
		line += ", refused by running nodes"
	case p.From == "":
		line += ", for machines that join"
	case p.To == "":
		line += ", the pool goes"
	case r == nil:
		line += ", nodes unknown"
	default:
		line += fmt.Sprintf(", %s, %s, %s", count(r.Nodes, "node"), count(r.Reboots, "reboot"), r.words())
		if r.Paused {
			line += " once it is resumed (paused)"
		}
	}
	if p.level() >= policy.Drain {
		return s.red(line)
	}
	return line
}

func (it Item) text(b *strings.Builder, s Style) {
	line := it.sign() + " " + it.title()
	if move := it.move(); move != "" {
		line += " · " + move
	}
	line += " · " + it.deed()
	if it.Why != "" {
		line += " (" + it.Why + ")"
	}
	if it.Origin != "" {
		line += " · from " + it.Origin
	}
	line = safetext.Line(line)
	if it.disturbs() {
		line = s.red(line)
	}
	b.WriteString(line + "\n")
	for text := range strings.Lines(it.body()) {
		b.WriteString("  " + s.line(safetext.Line(strings.TrimSuffix(text, "\n"))) + "\n")
	}
	if hint := it.AvoidReboot.hint(); hint != "" {
		b.WriteString("  " + s.line("# "+safetext.Line(hint)) + "\n")
	}
	b.WriteString("\n")
}

func nameOr(name, otherwise string) string {
	if name == "" {
		return otherwise
	}
	return safetext.Line(name)
}

// enumerate writes a list as people do: `master, worker and gpu`.
func enumerate(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " and " + list[last]
}

func (s Style) bold(t string) string { return s.wrap("1", t) }
func (s Style) red(t string) string  { return s.wrap("31", t) }

// line colours one line of a diff by its first character.
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
