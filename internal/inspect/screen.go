package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"

	"github.com/bunsen-os/bunsen/internal/terminal"
)

// controllerLines also have the general warnings.
func (s Status) controllerLines(now time.Time, width int, spare *int) []terminal.Line {
	out := s.Controllers.Lines(now, width, spare)
	for _, w := range s.Warnings {
		out = append(out, terminal.Labelled("warning", terminal.Bad.Of(w), width, spare)...)
	}
	for _, r := range s.Sources {
		if r.Overdue {
			out = append(out,
				terminal.Labelled("warning",
					terminal.Bad.Of(fleet.OverdueText(r.Name, fleet.Ago(now)(*r.LastLook))), width, spare)...)
		}
	}
	return out
}

// Screen returns the overview for a terminal of that size, in the order of the console: what needs a person with what
// to type, what moves, what is well, the parts of Bunsen, and the nodes in flight. What does not fit is counted.
func (o Overview) Screen(size terminal.Size, now time.Time) []terminal.Line {
	s := o.Status
	clock := now.UTC().Format("15:04:05 MST")
	head := terminal.Line{terminal.Head.Of(o.Headline())}
	if len(s.Sources)+len(s.Pools)+len(s.Nodes) == 0 {
		return []terminal.Line{head, nil, {terminal.Plain.Of(strings.TrimSpace(nothing))}}
	}
	if counts := o.Counts(); counts != "" {
		head = append(head, terminal.Dim.Of(" · "+counts))
	}
	head = append(head, terminal.Dim.Of(" · "+clock))
	column := o.column()
	var blocks []block
	for _, w := range o.Needs() {
		blocks = append(blocks, o.needBlock(w, column, size.Width, now))
	}
	for _, w := range o.Moves() {
		blocks = append(blocks, o.moveBlock(w, column, size.Width, now))
	}
	rest := o.restLines(column, now)
	parts := o.partLines(size.Width, now)
	fixed := 1 + len(parts)
	for _, lines := range [][]terminal.Line{rest, parts} {
		if len(lines) > 0 {
			fixed++
		}
	}
	fixed += len(rest) + 2*len(blocks)
	reserve := 0
	if rows := s.inFlight(); len(rows) > 0 {
		reserve = min(len(rows)+2, max(3, size.Height/3))
	}
	spare := max(0, size.Height-fixed-reserve)
	out := []terminal.Line{head}
	for i, b := range blocks {
		// Each block gets its share, and what the earlier ones left.
		share := min(len(b.details), spare/(len(blocks)-i))
		out = append(append(out, nil, b.head), b.details[:share]...)
		spare -= share
	}
	for _, lines := range [][]terminal.Line{rest, parts} {
		if len(lines) > 0 {
			out = append(append(out, nil), lines...)
		}
	}
	if room := size.Height - len(out) - 2; room < 3 && len(out) > size.Height {
		more := len(out) - size.Height + 1
		return append(out[:max(0, size.Height-1)],
			terminal.Line{terminal.Dim.Of(fmt.Sprintf("%d more lines: bunsen get pools", more))})
	}
	return append(out, s.flight(terminal.Size{Width: size.Width, Height: size.Height - len(out) - 1}, now)...)
}

// block is a line about a subject, and what more there is to say about it, the most important first.
type block struct {
	head    terminal.Line
	details []terminal.Line
}

// column is where the texts begin, behind the names.
func (o Overview) column() int {
	const widest = 16
	n := 6
	for _, row := range o.Status.Pools {
		n = max(n, terminal.Width(row.Name))
	}
	return 2 + min(n, widest) + 2
}

// begin returns the sign and the name of a line.
func begin(sign, name string, style terminal.Style, column int) terminal.Line {
	name = terminal.Truncate(name, column-4)
	return terminal.Line{
		style.Of(sign + " "),
		terminal.Head.Of(name + strings.Repeat(" ", max(1, column-2-terminal.Width(name)))),
	}
}

// indented wraps a text behind the names. It has at most most lines, the last one with the rest of the text.
func indented(text string, style terminal.Style, column, width, most int) []terminal.Line {
	if text == "" {
		return nil
	}
	spare := most - 1
	var out []terminal.Line
	for _, part := range terminal.WrapLines(text, max(1, width-column), &spare) {
		out = append(out, terminal.Line{terminal.Plain.Of(strings.Repeat(" ", column)), style.Of(part)})
	}
	return out
}

// subjectOf names what an answer is about, without its kind: the sentence tells.
func subjectOf(w Why) string {
	_, name, _ := strings.Cut(w.About, "/")
	return name
}

const (
	// of the reason of what needs a person, in lines
	mostReason = 4
	// that help, besides the ones for which the screen has no room
	mostShown = 2
)

func (o Overview) needBlock(w Why, column, width int, now time.Time) block {
	sign, style := "!", terminal.Bad
	if w.Outcome == Degraded {
		sign = "✗"
	}
	head := begin(sign, subjectOf(w), style, column)
	const age = 7 // columns for the age behind the first line
	reason := indented(w.Short()+w.When(now), style, column, width-age, mostReason)
	head = append(head, reason[0][1])
	if w.Since != nil {
		head = append(head, terminal.Dim.Of("   "+terminal.Age(*w.Since, now)))
	}
	b := block{head: head, details: reason[1:]}
	commands := w.Commands()
	for _, do := range commands[:min(len(commands), mostShown)] {
		_, command, note := fleet.CommandParts(do)
		prompt := "→ "
		if fleet.IsTyped(command) {
			prompt = "$ "
		}
		if isOfHost(command) && note != "" { // It must not be typed here.
			command += "   # " + note
		}
		b.details = append(b.details, indented(prompt+command, terminal.Plain, column, width, 2)...)
	}
	if w.Pool != nil && w.Target != nil {
		b.details = append(b.details, indented(commitLine(*w.Target), terminal.Dim, column, width, 1)...)
	}
	if text := w.sameForText(); text != "" {
		b.details = append(b.details, indented(text, terminal.Dim, column, width, 2)...)
	}
	if w.Pool != nil && w.Pool.Nodes > 0 {
		line := terminal.Line{terminal.Plain.Of(strings.Repeat(" ", column))}
		b.details = append(b.details, append(append(line, w.Pool.bar(width-column)...),
			terminal.Plain.Of(fmt.Sprintf("  %d/%d", w.Pool.Updated, w.Pool.Nodes))))
	}
	if more := len(commands) - mostShown; more > 0 {
		b.details = append(b.details, indented(fmt.Sprintf("and %s: bunsen why %s", fleet.Count(more, "more command"),
			w.About), terminal.Dim, column, width, 1)...)
	}
	return b
}

// commitLine is a commit in one line: what and who.
func commitLine(r fleet.RenderedRow) string {
	if r.Name == "" {
		return ""
	}
	text := cmp.Or(fleet.CommitLabel(r.API, r.Revision), fleet.ShortRendered(r.Name))
	if hash := fleet.HashOf(r.Revision); hash != "" && !r.ByAPI() {
		text = hash[:min(len(hash), 8)]
	}
	if r.Subject != "" {
		text += fmt.Sprintf(" %q", r.Subject)
	}
	if r.Author != "" {
		text += " " + fleet.Person(r.Author)
	}
	return text
}

func (o Overview) moveBlock(w Why, column, width int, now time.Time) block {
	b := block{head: begin("↻", subjectOf(w), terminal.Active, column)}
	reason := w.Short() + w.When(now)
	if w.Pool == nil || w.Pool.Nodes == 0 {
		lines := indented(reason, terminal.Plain, column, width, 2)
		b.head, b.details = append(b.head, lines[0][1]), lines[1:]
		return b
	}
	b.head = append(append(b.head, w.Pool.bar(width-column)...),
		terminal.Plain.Of(fmt.Sprintf("  %d/%d", w.Pool.Updated, w.Pool.Nodes)))
	b.details = indented(reason, terminal.Plain, column, width, 2)
	if w.Target != nil {
		b.details = append(b.details, indented(commitLine(*w.Target), terminal.Dim, column, width, 1)...)
	}
	if w.Pool.Next != "" && w.Outcome == Progressing { // The reason of a wait says when it ends.
		b.details = append(b.details, indented(w.Pool.Next, terminal.Dim, column, width, 1)...)
	}
	return b
}

// restLines has a line for each other pool.
func (o Overview) restLines(column int, now time.Time) []terminal.Line {
	var out []terminal.Line
	for _, row := range o.Rest() {
		sign, style := "✓", terminal.Good
		switch {
		case row.Nodes == 0:
			sign, style = "·", terminal.Dim
		case row.Outcome.NeedsUser():
			sign, style = "!", terminal.Bad
		}
		line := append(begin(sign, row.Name, style, column),
			terminal.Plain.Of(fmt.Sprintf("%-9s", fmt.Sprintf("%d/%d", row.Updated, row.Nodes))))
		if target := o.Status.Targets[row.Name]; target.Name != "" {
			line = append(line, terminal.Dim.Of(commitLine(target)))
			if !target.Created.IsZero() {
				line = append(line, terminal.Dim.Of("   "+terminal.Age(target.Created, now)))
			}
		}
		for _, b := range row.Blocked {
			line = append(line, terminal.Active.Of("   "+fleet.FirstLine(b)))
		}
		if len(row.Blocked) == 0 && row.State != updated && row.Nodes > 0 { // such as Paused
			line = append(line, terminal.Active.Of("   "+fleet.Brief(row.State)))
		}
		out = append(out, line)
	}
	return out
}

// partLines has a line for each part of Bunsen, and its warnings. A problem of the controllers that an answer tells is
// not told again.
func (o Overview) partLines(width int, now time.Time) []terminal.Line {
	var out []terminal.Line
	few, s := 2, o.Status
	for _, r := range s.Sources {
		out = append(out, r.screenLine())
	}
	told := slices.ContainsFunc(o.Whys, func(w Why) bool { return w.Cause == fleet.CauseController })
	controllers := s.controllerLines(now, width, &few)
	if told && len(controllers) > 0 {
		controllers = controllers[:1]
	}
	if len(s.Begin) > 0 {
		controllers = append(controllers, terminal.Labelled("to do", terminal.Plain.Of("bunsen why"), width, &few)...)
	}
	if n := s.Notifier; n != nil {
		controllers = append(controllers, terminal.Labelled("warning", terminal.Bad.Of(n.Problem), width, &few)...)
	}
	return append(append(out, controllers...), s.Servers.Lines(width, &few)...)
}

// screenLine has the name, the state and the revision of a source. Its problem is one of the needs.
func (r SourceRow) screenLine() terminal.Line {
	state, style := "ready", terminal.Good
	switch r.Ready {
	case "True":
	case "Suspended":
		state, style = "suspended", terminal.Active
	default:
		state, style = "not ready", terminal.Bad
	}
	l := terminal.Line{
		terminal.Dim.Of("SOURCE "), terminal.Head.Of(r.Name), style.Of("   " + state),
		terminal.Plain.Of("   " + terminal.Dash(fleet.ShortRevision(r.Revision))),
	}
	if r.Progress != nil {
		l = append(l, terminal.Active.Of("   "+r.brief))
	}
	return l
}

// bar shows the pool's nodes as characters, which are clear without colours: # updated, > busy, ! failed, < reverted,.
// waiting, ? unready or unknown. Each kind of nodes has at least one if there is room.
func (r PoolRow) bar(width int) terminal.Line {
	const beside = 18 // is the width of the numbers after the bar.
	size := min(max(width-beside, 10), 40)
	if r.Nodes == 0 {
		return terminal.Line{terminal.Dim.Of("[" + strings.Repeat(" ", size) + "]")}
	}
	parts := []struct {
		n     int
		sign  string
		style terminal.Style
	}{
		{r.Updated, "#", terminal.Good},
		{r.Busy, ">", terminal.Active},
		{r.Degraded, "!", terminal.Bad},
		{r.Back, "<", terminal.Active},
		{r.Waiting, ".", terminal.Dim},
		{r.Unready + r.Unknown, "?", terminal.Bad},
	}
	wide := make([]int, len(parts))
	left := size
	for i, p := range parts {
		if p.n > 0 {
			wide[i] = max(1, p.n*size/r.Nodes)
		}
		left -= wide[i]
	}
	for left != 0 { // The longest part absorbs the rounding.
		i := slices.Index(wide, slices.Max(wide))
		step := cmp.Compare(left, 0)
		wide[i] += step
		left -= step
	}
	out := terminal.Line{terminal.Dim.Of("[")}
	for i, p := range parts {
		out = append(out, p.style.Of(strings.Repeat(p.sign, wide[i])))
	}
	return append(out, terminal.Dim.Of("]"))
}

// inFlight returns failed nodes, and then those in flight.
func (s Status) inFlight() []fleet.NodeRow {
	var rows []fleet.NodeRow
	for _, n := range s.Nodes {
		if n.Step == fleet.StepFailed || n.State == "Conflict" {
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

// flight lists as many nodes as fit. A failure uses several lines if there is room.
func (s Status) flight(size terminal.Size, now time.Time) []terminal.Line {
	room, rows := size.Height, s.inFlight()
	if len(rows) == 0 || room < 3 {
		return nil
	}
	shown := rows[:min(len(rows), room-1)]
	if len(shown) < len(rows) {
		shown = rows[:room-2]
	}
	t := terminal.Table{Head: []string{"NODE", "POOL", "STEP", "SINCE", "WHAT"}}
	for _, n := range shown {
		at := time.Time{}
		if n.Since != nil {
			at = *n.Since
		}
		t.Rows = append(t.Rows, []string{
			n.Name, terminal.Dash(n.Pool), cmp.Or(n.Step, strings.ToLower(n.State)),
			terminal.Age(at, now), fleet.Brief(n.Reason),
		})
	}
	out, spare := []terminal.Line{nil}, room-2-len(shown)
	if len(shown) < len(rows) {
		spare--
	}
	texts := strings.Split(strings.TrimRight(t.String(), "\n"), "\n")
	column := max(0, terminal.Width(texts[0])-len("WHAT"))
	for i, text := range texts {
		switch {
		case i == 0:
			out = append(out, terminal.Line{terminal.Dim.Of(text)})
		case !shown[i-1].InFlight():
			out = append(out, failedNodeLines(shown[i-1], text, textColumn{column, size.Width}, &spare)...)
		default:
			out = append(out, terminal.Line{terminal.Plain.Of(text)})
		}
	}
	if more := len(rows) - len(shown); more > 0 {
		out = append(out, terminal.Line{terminal.Dim.Of(fmt.Sprintf("%d more nodes: bunsen get nodes", more))})
	}
	return out
}

type textColumn struct {
	// where the column begins, and the width of the screen
	start, width int
}

func failedNodeLines(r fleet.NodeRow, text string, c textColumn, spare *int) []terminal.Line {
	const narrow, most = 30, 6
	reason := fleet.Shorten(r.Reason)
	if *spare < 1 || c.start+terminal.Width(reason) <= c.width && !strings.Contains(reason, "\n") {
		return []terminal.Line{{terminal.Bad.Of(text)}}
	}
	share := min(most, *spare)
	*spare -= share
	if c.width-c.start >= narrow {
		parts := terminal.WrapLines(reason, c.width-c.start, &share)
		out := []terminal.Line{{terminal.Bad.Of(terminal.Truncate(text, c.start) + parts[0])}}
		for _, part := range parts[1:] {
			out = append(out, terminal.Line{terminal.Bad.Of(strings.Repeat(" ", c.start) + part)})
		}
		*spare += share
		return out
	}
	const indent = "    "
	share-- // The first part takes a line, too.
	out := []terminal.Line{{terminal.Bad.Of(strings.TrimRight(terminal.Truncate(text, c.start), " "))}}
	for _, part := range terminal.WrapLines(reason, c.width-len(indent), &share) {
		out = append(out, terminal.Line{terminal.Bad.Of(indent + part)})
	}
	*spare += share
	return out
}
