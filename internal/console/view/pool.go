package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/inspect/history"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
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
	// Stages of the rollout; none if its policy has no steps.
	Stages []inspect.Stage
	Rules  []inspect.Rule
	// Expected is when the rollout is done; nil if that cannot be said.
	Expected *time.Time
}

// Regions draws the pool: what needs a person, how far its rollout is, its nodes with the one under the pointer beside
// them, their time, the rules in force, and the pool's history.
func (p PoolPage) Regions(now time.Time) []Region {
	m := nodeMap{
		pool: p.Why.Pool.Name, nodes: p.Nodes, zones: p.Zones, options: p.Map, now: now,
		texts: map[stepKey]string{},
	}
	main := []Region{m.region()}
	if p.Timeline != nil {
		main = append(main, p.Timeline.region(now, false))
	}
	main = append(main, p.waiting())
	return []Region{
		p.head(), p.state(now), p.progress(now), draw("pool-columns", "pool-columns", nil,
			draw("pool-main", "pool-main", nil, main...),
			draw("pool-aside", "pool-aside", nil, draw("pool-node", "pool-node", nil), p.rules())),
		m.table(), p.history(),
	}
}

func (p PoolPage) head() Region {
	row := p.Why.Pool
	data := struct {
		Name, Sub string
		Outcome   inspect.Outcome
	}{Name: row.Name, Outcome: p.Why.Outcome}
	if word := firstWords(row.State); p.Why.Outcome.NeedsUser() && !strings.HasPrefix(word, string(p.Why.Outcome)) {
		data.Sub = word
	}
	return draw("pool-head", "pool-head", data)
}

// firstWords returns a state such as "Halted: node-1 failed" without the reason, which the page says elsewhere.
func firstWords(state string) string {
	word, _, _ := strings.Cut(state, ": ")
	word, _, _ = strings.Cut(word, ", step ")
	return word
}

// state draws what needs a person; an empty region otherwise.
func (p PoolPage) state(now time.Time) Region {
	return draw("pool-state", "pool-state", struct {
		Need    need
		Outcome string
		Needs   bool
	}{needOf(p.Why, now), string(p.Why.Outcome), p.Why.Outcome.NeedsUser()})
}

// stageView is a stage with the name of its icon.
type stageView struct {
	inspect.Stage
	Sign string
}

var stageSigns = map[inspect.StageState]string{
	inspect.StageDone: "check", inspect.StageNow: "turn", inspect.StageLater: "clock", inspect.StageFailed: "cross",
}

func (p PoolPage) progress(now time.Time) Region {
	w, row := p.Why, p.Why.Pool
	data := struct {
		Outcome, Text, Sentence string
		Commit                  *commit
		Bar                     []barPart
		Expected                *time.Time
		Facts                   []fact
		Also                    []string
		Commands                []command
		Stages                  []stageView
	}{Outcome: string(w.Outcome), Text: countsText(row.PoolCounts), Bar: bar(row.PoolCounts), Expected: p.Expected}
	add := func(label, text string) {
		if text != "" {
			data.Facts = append(data.Facts, fact{Label: label, Text: text})
		}
	}
	if w.Target != nil {
		data.Commit = commitOf(row.Name, *w.Target)
		for _, text := range w.Target.Secrets.Texts() {
			add("Secret", text)
		}
	}
	if !w.Outcome.NeedsUser() {
		n := needOf(w, now)
		if w.Outcome != inspect.Fine && w.Cause != poolstate.CauseUpdating { // The map shows the nodes at work.
			data.Sentence = sentenceCase(w.Short()) + w.When(now)
		}
		data.Also, data.Commands = n.Also, n.Commands
	}
	if t := w.Back; t != nil && t.Name != "" {
		data.Facts = append(data.Facts, configFact("Reverted to", row.Name, *t))
	}
	add("Next", row.Next)
	for _, s := range p.Stages {
		data.Stages = append(data.Stages, stageView{s, stageSigns[s.State]})
	}
	return draw("pool-progress", "pool-progress", data)
}

func (p PoolPage) rules() Region {
	var facts []fact
	for _, r := range p.Rules {
		facts = append(facts, fact{Label: r.Name, Text: r.Text})
	}
	if p.History != nil && len(p.Rules) > 0 {
		if text := lastRollout(*p.History); text != "" {
			facts = append(facts, fact{Label: "Last rollout", Text: strings.TrimPrefix(text, "last rollout ")})
		}
	}
	return draw("pool-rules", "pool-rules", facts)
}

func configFact(label, pool string, c fleet.RenderedRow) fact {
	return fact{
		Label: label, Text: fleet.ShortRendered(c.Name), Below: configAfter(c),
		Href: commitPath(pool, v1alpha1.ParseConfigVersion(c.Name).Config),
	}
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
	at, said := map[string]int{}, map[string]bool{}
	for _, a := range append([]inspect.Answer{p.Why.Answer}, p.Why.Also...) {
		said[a.Reason] = true
	}
	for i := range p.Nodes {
		r := &p.Nodes[i]
		if r.Step != fleet.StepWaiting || r.Reason == "" || said[r.Reason] {
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
	Result, Outcome, Word, Tone, Sign, Took string
	Commit                                  commit
	// Width is the bar of the duration, in hundredths of the longest; 0 without a duration.
	Width int
}

func (p PoolPage) history() Region {
	data := struct {
		Rows  []historyRow
		Notes []string
		More  int
	}{}
	h := p.History
	if h == nil {
		return draw("pool-history", "pool-history", data)
	}
	data.Notes, data.More = h.Notes, max(0, len(h.Rows)-mostRows)
	shown := h.Rows[:len(h.Rows)-data.More]
	longest := time.Duration(1)
	for i := range shown {
		longest = max(longest, took(shown[i]))
	}
	for i := range shown {
		row := historyRowOf(p.Why.Pool.Name, &shown[i], p.Why.Outcome)
		if d := took(shown[i]); d > 0 {
			row.Took, row.Width = fleet.Took(d), max(1, int(100*d/longest))
		}
		data.Rows = append(data.Rows, row)
	}
	return draw("pool-history", "pool-history", data)
}

func historyRowOf(pool string, r *history.Row, outcome inspect.Outcome) historyRow {
	look := lookOf(r.RowOutcome, outcome)
	return historyRow{
		Result: string(r.Result), Outcome: withoutWord(r.Line().Outcome, resultOf(r.RowOutcome).word), Word: look.word,
		Tone: look.tone, Sign: look.sign, Commit: rowCommit(pool, r),
	}
}

func rowCommit(pool string, r *history.Row) commit {
	var out commit
	line := r.Line()
	if r.IsOfCommit() && r.Cause != v1alpha1.RolloutCauseHold { // Who wrote the commit is not who holds the pool at it.
		out = commitBy(r.Author)
	}
	out.Subject = cmp.Or(line.Subject, line.Commit, fleet.ShortRendered(r.Rendered))
	out.Href, out.At = rowPath(pool, r), line.When
	if r.IsOfCommit() {
		out.Hash = shortHash(r.Revision)
	}
	return out
}

// rowPath returns the page of a row of a pool's history.
func rowPath(pool string, r *history.Row) string {
	if r.Revision != "" && len(r.API) == 0 {
		return commitPath(pool, fleet.HashOf(r.Revision))
	}
	return commitPath(pool, r.Rendered)
}

// resultView is how the result of a commit looks.
type resultView struct{ word, tone, sign string }

var resultViews = map[history.Result]resultView{
	history.Result(v1alpha1.RolloutCompleted):   {"rolled out", "good", "check"},
	history.Result(v1alpha1.RolloutWasHalted):   {"halted", "bad", "cross"},
	history.Result(v1alpha1.RolloutWasReverted): {"went back", "bad", "back"},
	history.Result(v1alpha1.RolloutSuperseded):  {"replaced", "", "dot"},
	history.ResultRefused:                       {"refused", "bad", "cross"},
	history.ResultNotRendered:                   {"not rendered", "bad", "cross"},
	history.ResultPending:                       {"pending", "", "clock"},
	history.ResultHeld:                          {"held", "warn", "pause"},
	history.ResultNoEffect:                      {"no effect", "", "dot"},
	history.ResultSkipped:                       {"skipped", "", "dot"},
	history.ResultRollingOut:                    {"moving", "busy", "turn"},
	history.ResultWaiting:                       {"waiting", "busy", "clock"},
	history.ResultPaused:                        {"paused", "warn", "pause"},
	history.ResultNoNodes:                       {"no nodes", "", "dot"},
	history.ResultDrifted:                       {"drifted", "bad", "alert"},
}

// lookOf is resultOf for a rollout of a pool that may need a person now.
func lookOf(r history.RowOutcome, pool inspect.Outcome) resultView {
	if r.Result == history.ResultWaiting && pool.NeedsUser() {
		return resultView{strings.ToLower(string(pool)), toneOf(pool), "alert"}
	}
	return resultOf(r)
}

func resultOf(r history.RowOutcome) resultView {
	if r.RanBefore && r.Result == history.Result(v1alpha1.RolloutCompleted) {
		return resultView{"no rollout", "", "dot"}
	}
	if v, known := resultViews[r.Result]; known {
		return v
	}
	return resultView{"unknown", "", "dot"}
}

// took is 0 if the time is unknown or the rollout continues.
func took(r history.Row) time.Duration {
	if r.Began == nil || r.Ended == nil || r.RanBefore {
		return 0
	}
	return r.Ended.Sub(*r.Began)
}
