package report

import (
	"fmt"
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
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
	if o.UndoCost != "" {
		fmt.Fprintf(&b, "%s\n", s.red("! "+o.UndoCost))
	}
	return b.String() + o.Sum + "\n"
}

// maxAbsent is for a text about missing nodes.
const maxAbsent = 5

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
