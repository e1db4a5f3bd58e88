package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/safetext"
)

// Style is what a piece of text means; colours are made of it.
type Style int

// Values of Style.
const (
	// Plain text.
	Plain Style = iota
	// Head is a heading, Dim is beside the point.
	Head
	Dim
	// Good, Active, Bad: done, under way, failed.
	Good
	Active
	Bad
)

// colours of the styles, as terminals take them.
var colours = map[Style]string{Head: "1", Dim: "2", Good: "32", Active: "36", Bad: "1;31"}

// Span is a piece of a line.
type Span struct {
	Text  string
	Style Style
}

// Line is one line of a screen.
type Line []Span

// Cut is the line as a terminal of that width takes it, with colours or without. What is cut off is shown by an ellipsis.
// Characters that terminals act on are replaced: texts come from nodes and commits, which may be in wrong hands.
func (l Line) Cut(width int, colour bool) string {
	if width <= 0 {
		return ""
	}
	total, room, end := 0, width, ""
	for _, s := range l {
		total += Width(safetext.OneLine(s.Text))
	}
	if total > width {
		room, end = width-1, "…"
	}
	var b strings.Builder
	for _, s := range l {
		whole := safetext.OneLine(s.Text)
		text := take(whole, room)
		room -= Width(text)
		code := colours[s.Style]
		if colour && code != "" && text != "" {
			b.WriteString("\x1b[" + code + "m" + text + "\x1b[0m")
		} else {
			b.WriteString(text)
		}
		if text != whole {
			break
		}
	}
	return b.String() + end
}

// take is the beginning of a text that fits into so many columns.
func take(text string, room int) string {
	for i, r := range text {
		if room -= columns(r); room < 0 {
			return text[:i]
		}
	}
	return text
}

// Size of a terminal, in columns and lines.
type Size struct{ Width, Height int }

// Screen lays the status out for a terminal of that size: sources, pools with their bars, nodes in flight, what blocks, and
// what comes next. It is never more lines than fit; what is left out is counted.
func (s Status) Screen(size Size, now time.Time) []Line {
	head := Line{{"bunsen status", Head}, {"   " + now.UTC().Format("2006-01-02 15:04:05 MST"), Dim}}
	if len(s.Sources)+len(s.Pools)+len(s.Nodes) == 0 {
		return []Line{head, nil, {{strings.TrimSpace(nothing), Plain}}}
	}
	out := []Line{head, nil}
	spare := size.Height - len(out) - 1
	for _, r := range s.Sources {
		spare -= len(r.lines(size.Width, new(int)))
	}
	for _, r := range s.Pools {
		spare -= 1 + len(r.lines(size.Width, new(int)))
	}
	controllers := s.controllerLines(now, size.Width, new(int))
	spare -= len(controllers)
	if servers := s.Servers.lines(size.Width, new(int)); len(servers) > 0 {
		spare -= 1 + len(servers)
	}
	if rows := s.inFlight(); len(rows) > 0 {
		spare -= len(rows) + 2
	}
	for _, r := range s.Sources {
		out = append(out, r.lines(size.Width, &spare)...)
	}
	out = append(out, s.controllerLines(now, size.Width, &spare)...)
	for _, r := range s.Pools {
		out = append(out, nil)
		out = append(out, r.lines(size.Width, &spare)...)
	}
	if servers := s.Servers.lines(size.Width, &spare); len(servers) > 0 {
		out = append(append(out, nil), servers...)
	}
	if room := size.Height - len(out) - 2; room < 3 && len(out) > size.Height {
		more := len(out) - size.Height + 1
		return append(out[:max(0, size.Height-1)], Line{{fmt.Sprintf("%d more lines: bunsen get pools", more), Dim}})
	}
	return append(out, s.flight(Size{size.Width, size.Height - len(out) - 1}, now)...)
}

// lines of a source: its name and state, and what is wrong, on so many more lines as there are to spare.
func (r SourceRow) lines(width int, spare *int) []Line {
	state, style := "ready", Good
	switch r.Ready {
	case "True":
	case "Suspended":
		state, style = "suspended", Active
	default:
		state, style = "not ready", Bad
	}
	l := Line{{"SOURCE ", Dim}, {r.Name, Head}, {"   " + state, style}, {"   " + dash(shortRevision(r.Revision)), Plain}}
	if r.Subject != "" {
		l = append(l, Span{fmt.Sprintf(" %q", r.Subject), Plain})
	}
	out := []Line{l}
	if style == Bad {
		out = append(out, labelled("why", briefly(r.Message), style, width, spare)...)
	}
	return out
}

// lines of a pool: its name and state, its bar, and what it waits for, on so many more lines as there are to spare.
func (r PoolRow) lines(width int, spare *int) []Line {
	style := map[Outcome]Style{Fine: Good, Progressing: Active, Blocked: Active, Degraded: Bad}[r.Outcome]
	state, why, _ := strings.Cut(brief(r.State), ": ")
	if !strings.HasPrefix(r.State, renderFailed) { // the lines below say it
		why = ""
	}
	out := []Line{
		{{"POOL ", Dim}, {r.Name, Head}, {"   " + state, style}, {"   " + dash(ShortRendered(r.Target)) + "   " + dash(shortRevision(r.Revision)), Plain}},
		append(r.bar(width), Span{fmt.Sprintf("  %d of %d updated, %s", r.Updated, r.Nodes, r.others()), Plain}),
	}
	add := func(label, text string, style Style) {
		out = append(out, labelled(label, text, style, width, spare)...)
	}
	add("why", why, style)
	add("step", strings.TrimPrefix(r.Step, "step "), Plain)
	help := r.Outcome == Degraded
	for i, b := range r.Blocked {
		if i < len(r.patient) && r.patient[i] {
			add("waits", firstLine(b), Plain)
			continue
		}
		help = true
		add("blocked", firstLine(b), Bad)
	}
	add("next", r.Next, Plain)
	if help {
		add("to do", "bunsen why pool/"+r.Name, Plain)
	}
	return out
}

// labelled is a text beside a label, on so many more lines as there are to spare; nothing for no text.
func labelled(label, text string, style Style, width int, spare *int) []Line {
	const indent = 11
	if text == "" {
		return nil
	}
	var out []Line
	for _, part := range wrapInto(text, width-indent, spare) {
		out = append(out, Line{{fmt.Sprintf("  %-9s", label), Dim}, {part, style}})
		label = ""
	}
	return out
}

// bar shows the pool's nodes as signs that need no colour: # updated, > busy, ! failed, < went back, . waiting. Whatever there
// is has a sign at least, while there is room; ? are the nodes that are unready or unknown.
func (r PoolRow) bar(width int) Line {
	beside := 58 // the words after the bar
	if r.Back > 0 {
		beside += 14
	}
	if r.Unready > 0 {
		beside += 12
	}
	if r.Unknown > 0 {
		beside += 12
	}
	size := min(max(width-beside, 10), 60)
	if r.Nodes == 0 {
		return Line{{"[" + strings.Repeat(" ", size) + "]", Dim}}
	}
	parts := []struct {
		n     int
		sign  string
		style Style
	}{{r.Updated, "#", Good}, {r.Busy, ">", Active}, {r.Degraded, "!", Bad}, {r.Back, "<", Active}, {r.Waiting, ".", Dim}, {r.Unready + r.Unknown, "?", Bad}}
	wide := make([]int, len(parts))
	left := size
	for i, p := range parts {
		if p.n > 0 {
			wide[i] = max(1, p.n*size/r.Nodes)
		}
		left -= wide[i]
	}
	for left != 0 { // rounding goes to, or comes from, the longest
		i := slices.Index(wide, slices.Max(wide))
		step := cmp.Compare(left, 0)
		wide[i] += step
		left -= step
	}
	out := Line{{"[", Dim}}
	for i, p := range parts {
		out = append(out, Span{strings.Repeat(p.sign, wide[i]), p.style})
	}
	return append(out, Span{"]", Dim})
}

// wrapInto breaks a text into lines, the first of which there is room for, the others as far as there are lines to spare.
func wrapInto(text string, width int, spare *int) []string {
	parts := Wrap(text, max(width, 1))
	if most := 1 + max(0, *spare); len(parts) > most {
		parts = append(parts[:most-1:most-1], strings.Join(parts[most-1:], " "))
	}
	*spare -= len(parts) - 1
	return parts
}

// inFlight are the nodes that failed, then those in flight.
func (s Status) inFlight() []NodeRow {
	var rows []NodeRow
	for _, n := range s.Nodes {
		if n.Step == StepFailed || n.State == "Conflict" {
			rows = append(rows, n)
		}
	}
	for _, n := range s.Nodes {
		if n.InFlight() {
			rows = append(rows, n)
		}
	}
	return rows
}

// flight lists the nodes that failed and those in flight, as far as there is room; what failed on them is told whole where
// there is more.
func (s Status) flight(size Size, now time.Time) []Line {
	room, rows := size.Height, s.inFlight()
	if len(rows) == 0 || room < 3 {
		return nil
	}
	shown := rows[:min(len(rows), room-1)]
	if len(shown) < len(rows) {
		shown = rows[:room-2]
	}
	t := Table{Head: []string{"NODE", "POOL", "STEP", "SINCE", "WHAT"}}
	for _, n := range shown {
		at := time.Time{}
		if n.Since != nil {
			at = *n.Since
		}
		t.Rows = append(t.Rows, []string{n.Name, dash(n.Pool), cmp.Or(n.Step, strings.ToLower(n.State)), Age(at, now), brief(n.Reason)})
	}
	out, spare := []Line{nil}, room-2-len(shown)
	if len(shown) < len(rows) {
		spare--
	}
	texts := strings.Split(strings.TrimRight(t.String(), "\n"), "\n")
	column := max(0, Width(texts[0])-len("WHAT"))
	for i, text := range texts {
		switch {
		case i == 0:
			out = append(out, Line{{text, Dim}})
		case !shown[i-1].InFlight():
			out = append(out, shown[i-1].whole(text, column, size.Width, &spare)...)
		default:
			out = append(out, Line{{text, Plain}})
		}
	}
	if more := len(rows) - len(shown); more > 0 {
		out = append(out, Line{{fmt.Sprintf("%d more nodes: bunsen get nodes", more), Dim}})
	}
	return out
}

// whole is the line of a node that failed, and below it the text that does not fit, while there are lines to spare.
func (r NodeRow) whole(text string, column, width int, spare *int) []Line {
	const narrow, most = 30, 6
	reason := shorten(r.Reason)
	if *spare < 1 || column+Width(reason) <= width && !strings.Contains(reason, "\n") {
		return []Line{{{text, Bad}}}
	}
	share := min(most, *spare)
	*spare -= share
	if width-column >= narrow {
		parts := wrapInto(reason, width-column, &share)
		out := []Line{{{take(text, column) + parts[0], Bad}}}
		for _, part := range parts[1:] {
			out = append(out, Line{{strings.Repeat(" ", column) + part, Bad}})
		}
		*spare += share
		return out
	}
	const indent = "    "
	share-- // the first part takes a line, too
	out := []Line{{{strings.TrimRight(take(text, column), " "), Bad}}}
	for _, part := range wrapInto(reason, width-len(indent), &share) {
		out = append(out, Line{{indent + part, Bad}})
	}
	*spare += share
	return out
}
