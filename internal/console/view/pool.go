package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/inspect/history"
)

// PoolPage has the data of the page of a pool.
type PoolPage struct {
	// Why is the answer of `bunsen why pool/NAME`.
	Why inspect.Why
	// Nodes are sorted by name.
	Nodes []fleet.NodeRow
	Zones map[string]string
	Map   MapOptions
	// History is nil if it is not known.
	History *history.History
	// Timeline of the last rollout; nil if it is not known.
	Timeline *TimelinePage
}

// Regions draws the pool: why it waits, how far it is, its nodes, the timeline of its rollout, and its history.
func (p PoolPage) Regions(now time.Time) []Region {
	m := nodeMap{
		pool: p.Why.Pool.Name, nodes: p.Nodes, zones: p.Zones, options: p.Map, now: now,
		texts: map[stepKey]string{},
	}
	out := []Region{p.state(now), p.progress(), p.waiting(), m.controls(), m.legend(), m.cells(), m.table()}
	if p.Timeline != nil {
		out = append(out, p.Timeline.region(now))
	}
	return append(out, p.history(now))
}

// mostCommands: each failed node has a command.
const mostCommands = 12

func (p PoolPage) state(now time.Time) Region {
	w, row := p.Why, p.Why.Pool
	data := struct {
		Sentence, Outcome string
		Also              []string
		Facts             []fact
		Commands          []string
		More              int
	}{Sentence: w.Sentence(), Outcome: string(w.Outcome), Commands: w.Commands()}
	data.More = max(0, len(data.Commands)-mostCommands)
	data.Commands = data.Commands[:len(data.Commands)-data.More]
	for _, a := range w.Also {
		data.Also = append(data.Also, a.Short()+a.When(now))
	}
	add := func(label, text string) {
		if text != "" {
			data.Facts = append(data.Facts, fact{Label: label, Text: text})
		}
	}
	if t := w.Target; t != nil && t.Name != "" {
		data.Facts = append(data.Facts, configFact("Target", row.Name, *t))
		for _, text := range t.Secrets.Texts() {
			add("Secret", text)
		}
	}
	if t := w.Back; t != nil && t.Name != "" {
		data.Facts = append(data.Facts, configFact("Reverted to", row.Name, *t))
	}
	said := append([]string{data.Sentence}, data.Also...)
	add("State", fleet.Shorten(stateText(row, said...)))
	add("Step", row.Step)
	for _, b := range row.Blocked {
		if !slices.ContainsFunc(said, func(text string) bool { return strings.Contains(text, b) }) {
			add("Blocked", b)
		}
	}
	add("Next", row.Next)
	if w.Until != nil {
		add("Until", fleet.Moment(*w.Until, nil, now))
	}
	if w.Windows != nil {
		add("Windows", w.Windows.Text(now))
	}
	return draw("pool-state", "pool-state", data)
}

func configFact(label, pool string, c fleet.RenderedRow) fact {
	return fact{
		label, fleet.ShortRendered(c.Name), commitPath(pool, v1alpha1.ParseConfigVersion(c.Name).Config),
		strings.TrimPrefix(c.CommitText(), c.Name),
	}
}

func (p PoolPage) progress() Region {
	c := p.Why.Pool.PoolCounts
	return draw("pool-progress", "pool-progress", struct {
		Bar  []barPart
		Text string
	}{bar(c), countsText(c)})
}

func countsText(c fleet.PoolCounts) string {
	if c.Nodes == 0 {
		return "no nodes"
	}
	text := fmt.Sprintf("%d of %s updated", c.Updated, fleet.Count(c.Nodes, "node"))
	if c.Updated == c.Nodes {
		return text
	}
	return text + ", " + c.OthersText()
}

// barWidth is in the units of barPart.
const barWidth = 1000

type barPart struct {
	Class    string
	X, Width int
}

// bar gives each kind of nodes at least one hundredth.
func bar(c fleet.PoolCounts) []barPart {
	counts := []struct {
		class string
		n     int
	}{
		{"updated", c.Updated},
		{"busy", c.Busy},
		{"back", c.Back},
		{"degraded", c.Degraded},
		{"unready", c.Unready},
		{"unknown", c.Unknown},
		{"waiting", c.Waiting},
	}
	var parts []barPart
	total := 0
	for _, k := range counts {
		if k.n > 0 {
			parts = append(parts, barPart{Class: k.class, Width: max(barWidth/100, k.n*barWidth/max(1, c.Nodes))})
			total += parts[len(parts)-1].Width
		}
	}
	at := 0
	for i := range parts {
		parts[i].X, parts[i].Width = at, parts[i].Width*barWidth/total
		at += parts[i].Width
	}
	if len(parts) > 0 { // The last part also gets the remainder of the rounding.
		parts[len(parts)-1].Width += barWidth - at
	}
	return parts
}

const mostReasons = 10

// waiting lists why nodes wait. Their cells do not say it, because one busy node changes all reasons.
func (p PoolPage) waiting() Region {
	type reason struct {
		Count int
		Text  string
	}
	data := struct {
		Reasons []reason
		More    int
	}{}
	at := map[string]int{}
	for i := range p.Nodes {
		r := &p.Nodes[i]
		if r.Step != fleet.StepWaiting || r.Reason == "" {
			continue
		}
		k, known := at[r.Reason]
		switch {
		case known:
			data.Reasons[k].Count++
		case len(data.Reasons) == mostReasons:
			data.More++
		default:
			at[r.Reason] = len(data.Reasons)
			data.Reasons = append(data.Reasons, reason{1, fleet.Brief(r.Reason)})
		}
	}
	return draw("pool-waiting", "pool-waiting", data)
}

// mostRows limits the commits of a history on a page.
const mostRows = 100

type historyRow struct {
	history.Line
	Result, Took, Href, At string
	// Width is the bar of the duration, in hundredths of the longest; 0 without a duration.
	Width int
}

func (p PoolPage) history(now time.Time) Region {
	data := struct {
		Rows  []historyRow
		Notes []string
		More  int
		Now   time.Time
	}{Now: now}
	h := p.History
	if h == nil {
		return draw("pool-history", "pool-history", data)
	}
	data.Notes, data.More = h.Notes, max(0, len(h.Rows)-mostRows)
	longest := time.Duration(1)
	for i := range h.Rows[:len(h.Rows)-data.More] {
		longest = max(longest, took(h.Rows[i]))
	}
	for i := range h.Rows[:len(h.Rows)-data.More] {
		r := historyRow{Line: h.Line(i), Result: string(h.Rows[i].Result)}
		r.Href = commitPath(p.Why.Pool.Name, r.Rendered)
		if rev := h.Rows[i].Revision; rev != "" && r.Commit != "API" {
			r.Href = commitPath(p.Why.Pool.Name, fleet.HashOf(rev))
		}
		r.At = moment(r.When)
		if d := took(h.Rows[i]); d > 0 {
			r.Took, r.Width = fleet.Took(d), max(1, int(100*d/longest))
		}
		data.Rows = append(data.Rows, r)
	}
	return draw("pool-history", "pool-history", data)
}

// took is 0 if the time is unknown or the rollout continues.
func took(r history.Row) time.Duration {
	if r.Began == nil || r.Ended == nil || r.RanBefore {
		return 0
	}
	return r.Ended.Sub(*r.Began)
}
