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

// Screen returns the status for a terminal of that size: sources, pools with their bars, nodes in flight, blockers, and
// the next steps. What does not fit is counted.
func (s Status) Screen(size terminal.Size, now time.Time) []terminal.Line {
	head := terminal.Line{
		terminal.Head.Of("bunsen status"),
		terminal.Dim.Of("   " + now.UTC().Format("2006-01-02 15:04:05 MST")),
	}
	if len(s.Sources)+len(s.Pools)+len(s.Nodes) == 0 {
		return []terminal.Line{head, nil, {terminal.Plain.Of(strings.TrimSpace(nothing))}}
	}
	out := []terminal.Line{head, nil}
	spare := size.Height - len(out) - 1
	for _, r := range s.Sources {
		spare -= len(r.lines(size.Width, new(int)))
	}
	for _, r := range s.Pools {
		spare -= 1 + len(r.lines(size.Width, new(int)))
	}
	controllers := s.controllerLines(now, size.Width, new(int))
	spare -= len(controllers)
	if servers := s.Servers.Lines(size.Width, new(int)); len(servers) > 0 {
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
	if servers := s.Servers.Lines(size.Width, &spare); len(servers) > 0 {
		out = append(append(out, nil), servers...)
	}
	if room := size.Height - len(out) - 2; room < 3 && len(out) > size.Height {
		more := len(out) - size.Height + 1
		return append(out[:max(0, size.Height-1)],
			terminal.Line{terminal.Dim.Of(fmt.Sprintf("%d more lines: bunsen get pools", more))})
	}
	return append(out, s.flight(terminal.Size{Width: size.Width, Height: size.Height - len(out) - 1}, now)...)
}

// lines has the name, the state and the problem of a source; spare is how many more lines there may be.
func (r SourceRow) lines(width int, spare *int) []terminal.Line {
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
	if r.Subject != "" {
		l = append(l, terminal.Plain.Of(fmt.Sprintf(" %q", r.Subject)))
	}
	out := []terminal.Line{l}
	switch {
	case style == terminal.Bad:
		out = append(out, terminal.Labelled("why", style.Of(r.brief), width, spare)...)
	case r.Progress != nil:
		out = append(out, terminal.Labelled("now", terminal.Active.Of(r.brief), width, spare)...)
	}
	return out
}

// lines has the name, the state, the bar and the blockers of a pool; spare is how many more lines there may be.
func (r PoolRow) lines(width int, spare *int) []terminal.Line {
	style := map[Outcome]terminal.Style{
		Fine: terminal.Good, Progressing: terminal.Active, Waiting: terminal.Active,
		Blocked: terminal.Active, Unknown: terminal.Active, Degraded: terminal.Bad,
	}[r.Outcome]
	state, why, _ := strings.Cut(fleet.Brief(r.State), ": ")
	if !strings.HasPrefix(r.State, renderFailed) { // The next lines have this reason.
		why = ""
	}
	out := []terminal.Line{
		{
			terminal.Dim.Of("POOL "), terminal.Head.Of(r.Name), style.Of("   " + state),
			terminal.Plain.Of("   " + terminal.Dash(fleet.ShortRendered(r.Target)) + "   " +
				terminal.Dash(fleet.ShortRevision(r.Revision))),
		},
		append(r.bar(width), terminal.Plain.Of(fmt.Sprintf("  %d of %d updated, %s", r.Updated, r.Nodes,
			r.OthersText()))),
	}
	add := func(label, text string, style terminal.Style) {
		out = append(out, terminal.Labelled(label, style.Of(text), width, spare)...)
	}
	add("why", why, style)
	add("step", strings.TrimPrefix(r.Step, "step "), terminal.Plain)
	help := r.Outcome == Degraded || r.Outcome == Unknown
	for i, b := range r.Blocked {
		if i < len(r.temporary) && r.temporary[i] {
			add("waits", fleet.FirstLine(b), terminal.Plain)
			continue
		}
		help = true
		add("blocked", fleet.FirstLine(b), terminal.Bad)
	}
	add("next", r.Next, terminal.Plain)
	if help {
		add("to do", "bunsen why pool/"+r.Name, terminal.Plain)
	}
	return out
}

// bar shows the pool's nodes as characters, which are clear without colours: # updated, > busy, ! failed, < reverted,.
// waiting, ? unready or unknown. Each kind of nodes has at least one if there is room.
func (r PoolRow) bar(width int) terminal.Line {
	beside := 58 // beside is the width of the words after the bar.
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
