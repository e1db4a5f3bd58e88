package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/inspect/history"
)

// TimelinePage is the timeline of a pool's last rollout, on a page of its own or on the page of the pool.
type TimelinePage struct {
	Pool     string
	Timeline history.Timeline
	// Elsewhere: the page has only a link to the timeline's page.
	Elsewhere bool
	Notes     []string
}

// mostBars limits the nodes with a bar: those with the last steps.
const mostBars = 40

type keyEntry struct{ Class, Word string }

// timelineKey names the colours of the bars.
var timelineKey = []keyEntry{
	{"fetch", "assigned"},
	{"apply", "applied"},
	{"drain", "drained"},
	{"reboot", "rebooted, checked"},
	{"soak", "soak, gate or window"},
	{"fail", "failed"},
}

// timedRow: bar has the steps on the time axis of the rollout.
type timedRow struct {
	Name, Href, Began, Drain, Reboot, End, Took string
	Failed                                      bool
	Bar                                         []barPart
}

// Regions draws the page of a timeline.
func (p TimelinePage) Regions(now time.Time) []Region {
	return []Region{draw("timeline-of", "timeline-of",
		[]fact{{Label: "Pool", Text: p.Pool, Href: poolPath(p.Pool)}}), p.region(now, true)}
}

func timelinePath(pool string) string { return poolPath(pool) + "/timeline" }

// region draws the timeline; alone on its page, it also says what the page of the pool says elsewhere.
func (p TimelinePage) region(now time.Time, alone bool) Region {
	t := p.Timeline
	data := struct {
		Elsewhere, Text, Curve string
		Fine                   bool
		From, Middle           time.Time
		To                     *time.Time
		Key                    []keyEntry
		Pauses                 []barPart
		Rows                   []timedRow
		Notes                  []string
		More                   int
	}{Notes: p.Notes, To: t.Ended}
	if p.Elsewhere {
		data.Elsewhere = timelinePath(p.Pool)
		return draw("pool-timeline", "pool-timeline", data)
	}
	if t.Config == "" {
		data.Text = "No rollout of the pool's config is recorded."
		return draw("pool-timeline", "pool-timeline", data)
	}
	end := now
	if t.Ended != nil {
		end = *t.Ended
	}
	data.From, data.Middle, data.Fine = t.Began, t.Began.Add(end.Sub(t.Began)/2), end.Sub(t.Began) < 10*time.Minute
	if alone {
		data.Text = p.summary()
	}
	if len(t.Nodes)+t.Waiting > mostBars { // With few nodes, their bars say the same.
		data.Curve = curve(t, end)
	}
	data.More = max(0, len(t.Nodes)-mostBars)
	shown := slices.Clone(t.Nodes[:len(t.Nodes)-data.More])
	slices.SortStableFunc(shown, func(a, b history.TimelineNode) int {
		return cmp.Or(a.First().Compare(b.First()), fleet.CompareNames(a.Name, b.Name))
	})
	for _, n := range shown {
		data.Rows = append(data.Rows, timed(n, t.Began, end))
	}
	data.Pauses = pauses(t.Nodes, t.Began, end)
	drawn := map[string]bool{"soak": len(data.Pauses) > 0}
	for _, row := range data.Rows {
		for _, part := range row.Bar {
			drawn[part.Class] = true
		}
	}
	data.Key = slices.DeleteFunc(slices.Clone(timelineKey), func(k keyEntry) bool { return !drawn[k.Class] })
	return draw("pool-timeline", "pool-timeline", data)
}

func (p TimelinePage) summary() string {
	t := p.Timeline
	done, failed := 0, 0
	for _, n := range t.Nodes {
		switch {
		case n.Done != nil:
			done++
		case n.Failed != nil:
			failed++
		}
	}
	moving, rest := "under way", "not begun"
	if t.Reverted { // Nothing is under way any more.
		moving, rest = "went back", "did not get it"
	}
	parts := []string{fmt.Sprintf("%s done", fleet.Count(done, "node"))}
	for _, x := range []struct {
		n    int
		text string
	}{
		{len(t.Nodes) - done - failed, moving},
		{failed, "failed"},
		{t.Waiting, rest},
		{t.Before, "done at an unknown time"},
	} {
		if x.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", x.n, x.text))
		}
	}
	return strings.Join(parts, ", ")
}

// axis returns the position of a time, in units of a bar.
func axis(at, began, ended time.Time) int {
	span := max(ended.Sub(began), time.Second)
	return min(barWidth, max(0, int(barWidth*int64(at.Sub(began)/time.Millisecond)/int64(span/time.Millisecond))))
}

// pauses returns the times in which no node was at work, because a step soaked, or a gate or a window was closed.
func pauses(nodes []history.TimelineNode, began, ended time.Time) []barPart {
	byStart := slices.SortedFunc(slices.Values(nodes), func(a, b history.TimelineNode) int {
		return a.First().Compare(b.First())
	})
	var out []barPart
	var busyUntil time.Time
	for _, n := range byStart {
		from := n.First()
		if !busyUntil.IsZero() && from.After(busyUntil) {
			x := axis(busyUntil, began, ended)
			if width := axis(from, began, ended) - x; width > 0 {
				out = append(out, barPart{"soak", x, width})
			}
		}
		until := ended
		if at := cmp.Or(n.Done, n.Failed); at != nil {
			until = *at
		}
		if until.After(busyUntil) {
			busyUntil = until
		}
	}
	return out
}

// timed returns the row of a node: its times, and a bar with those until the drain, until the reboot, and until the
// end.
func timed(n history.TimelineNode, began, ended time.Time) timedRow {
	r := timedRow{
		Name: n.Name, Href: nodePath(n.Name), Began: clock(n.Began), Drain: clock(n.Drain),
		Reboot: clock(n.Reboot), End: clock(cmp.Or(n.Done, n.Failed)), Failed: n.Failed != nil,
	}
	if took := n.Took(); took > 0 {
		r.Took = fleet.Took(took)
	}
	if n.Began == nil {
		return r
	}
	from, class := n.Began, "fetch"
	if n.Drain == nil && n.Reboot == nil {
		class = "apply"
	}
	for _, next := range []struct {
		at    *time.Time
		class string
	}{{n.Drain, "drain"}, {n.Reboot, "reboot"}, {cmp.Or(n.Done, n.Failed, &ended), ""}} {
		if next.at == nil || next.at.Before(*from) {
			continue
		}
		x := axis(*from, began, ended)
		if width := axis(*next.at, began, ended) - x; width > 0 {
			r.Bar = append(r.Bar, barPart{class, x, width})
		}
		from, class = next.at, next.class
	}
	if n.Failed != nil {
		at := min(axis(*n.Failed, began, ended), barWidth-barWidth/50)
		r.Bar = append(r.Bar, barPart{"fail", at, barWidth / 50})
	}
	if len(r.Bar) == 0 { // A step that took no time is still a step.
		r.Bar = append(r.Bar, barPart{"done", min(axis(*n.Began, began, ended), barWidth-barWidth/100), barWidth / 100})
	}
	return r
}

// clock returns a dash for an unknown time.
func clock(at *time.Time) string {
	if at == nil {
		return "–"
	}
	return at.UTC().Format(time.RFC3339)
}

// afterEnd: the part of a curve's width that shows the end, so that the last step of a finished rollout is visible
const afterEnd = barWidth / 50

// curve draws how many nodes were done at each time, as a path in a box of 1000 by 100 units; "" if none is.
func curve(t history.Timeline, ended time.Time) string {
	var done []time.Time
	for _, n := range t.Nodes {
		if n.Done != nil {
			done = append(done, *n.Done)
		}
	}
	all := t.Before + t.Waiting + len(t.Nodes)
	if len(done) == 0 || all == 0 {
		return ""
	}
	slices.SortFunc(done, time.Time.Compare)
	height := func(n int) int { return 100 - 100*n/all }
	var b strings.Builder
	fmt.Fprintf(&b, "M0 100V%d", height(t.Before))
	at, y := 0, height(t.Before)
	for i, when := range done {
		x, next := axis(when, t.Began, ended)*(barWidth-afterEnd)/barWidth, height(t.Before+i+1)
		if x != at {
			fmt.Fprintf(&b, "H%d", x)
			at = x
		}
		if next != y {
			fmt.Fprintf(&b, "V%d", next)
			y = next
		}
	}
	fmt.Fprintf(&b, "H%dV100Z", barWidth)
	return b.String()
}
