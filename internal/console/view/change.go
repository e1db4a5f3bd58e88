package view

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/inspect/history"
	"github.com/bunsen-os/bunsen/internal/review/report"
)

// ChangePage is the page of a commit, or of a comparison.
type ChangePage struct {
	// Title is for a commit.
	Title string
	// Form is nil on the page of a commit.
	Form *CompareForm
	// Head is nil in a comparison.
	Head  *CommitHead
	About []Fact
	// Notes say which data the page does not have, and why.
	Notes []string
	// Review says what the change does; nil if there is nothing to compare.
	Review *report.Outline
	// Runs are nodes that run the config now, of all that are Running; none in a comparison.
	Runs    []string
	Running int
	// Forecast has the numbers that the review expects, and what happened; nil in a comparison.
	Forecast []ForecastRow
	// Undo has commands that return the pool to the config before the commit.
	Undo []string
}

// CommitHead says who made a commit, and what came of it in a pool.
type CommitHead struct {
	Pool string
	Row  history.Row
}

// Fact is a label with its text, and a link if it names a pool or a config of one.
type Fact struct {
	Label, Text  string
	Pool, Config string
}

// rows of a forecast, and what stands for a number that is not known
const (
	forecastReboots = "Reboots"
	forecastDrains  = "Drains"
	unknownNumber   = "–"
)

// ForecastRow is a number of a rollout as the review expects it, and as it happened.
type ForecastRow struct{ What, Forecast, Happened string }

// CompareForm has both fields of a comparison, and the values that a user may write into them.
type CompareForm struct {
	From, To string
	Offers   []string
	// Problem says why there is no comparison, or is empty.
	Problem string
}

type change struct {
	Sign, SignName, Line, Hint string
	Disruptive, Open           bool
	Lines                      []diffRow
	More                       int
}

type group struct {
	Title   string
	Changes []change
}

// Regions draws the change. On the page of a commit, what it does to machines stands beside the lines that cause it.
func (p ChangePage) Regions() []Region {
	if p.Form != nil {
		return []Region{
			draw("compare-form", "compare-form", p.Form),
			draw("compare-offers", "compare-offers", p.Form.Offers),
			draw("change-notes", "change-notes", p.Notes), p.review(),
		}
	}
	notes := draw("change-notes", "change-notes", p.Notes)
	return []Region{p.head(), notes, draw("commit-columns", "commit-columns", nil,
		draw("commit-main", "commit-main", nil, p.review()),
		draw("commit-aside", "commit-aside", nil, p.effect(), draw("commit-undo", "commit-undo", commandsOf(p.Undo)),
			p.nodes(), p.about()))}
}

func (p ChangePage) head() Region {
	data := struct {
		Title, Pool, Href, Hash string
		Commit                  commit
	}{Title: p.Title}
	if h := p.Head; h != nil {
		data.Pool, data.Href = h.Pool, poolPath(h.Pool)
		data.Commit, data.Hash = commitBy(h.Row.Author), fleet.HashOf(h.Row.Revision)
		data.Title = cmp.Or(h.Row.Subject, p.Title)
		if at := cmp.Or(h.Row.Committed, h.Row.At, h.Row.RenderedAt); at != nil {
			data.Commit.At = *at
		}
		data.Commit.Hash = shortHash(h.Row.Revision)
	}
	return draw("commit-head", "commit-head", data)
}

// effect draws the forecast of a rollout beside what happened.
func (p ChangePage) effect() Region {
	data := struct {
		Pool, Href, Word, Tone, Sign, Outcome string
		Bar                                   []barPart
		Rows                                  []ForecastRow
	}{Rows: p.Forecast}
	if h := p.Head; h != nil {
		data.Pool, data.Href = h.Pool, poolPath(h.Pool)
		if p.Review == nil || p.happened() == "" { // It says so too.
			data.Outcome = h.Row.Outcome
		}
		view := resultOf(h.Row.RowOutcome)
		data.Word, data.Tone, data.Sign = view.word, view.tone, view.sign
		if h.Row.Nodes > 0 {
			width := barWidth * h.Row.Updated / h.Row.Nodes
			data.Bar = []barPart{{"updated", 0, width}, {"degraded", width, barWidth * h.Row.Failed / h.Row.Nodes}}
		}
	}
	return draw("commit-effect", "commit-effect", data)
}

// signNames are the words for the signs of changes.
var signNames = map[byte]string{'+': "added", '-': "removed", '~': "changed"}

// review is an empty region until there is something to compare, because a stream can only replace a region that the
// page has.
func (p ChangePage) review() Region {
	o := p.Review
	if o == nil {
		return draw("change-review", "change-review-none", nil)
	}
	data := struct {
		*report.Outline
		Changes []group
		Cut     int
		// Happened is what came of a rollout that ended; then its costs stand beside it, with the forecast. If it
		// halted, they stand before it, because most of them are still to come.
		Happened   string
		Unfinished bool
	}{Outline: o, Happened: p.happened(), Unfinished: p.isHalted()}
	left := mostLines
	for _, g := range o.Groups {
		shown := group{Title: g.Title}
		for _, e := range g.Entries {
			if left <= 0 {
				data.Cut++
				continue
			}
			c := change{
				Sign: e.Sign, SignName: signNames[e.Sign[0]], Line: cutLine(e.Line), Hint: e.Hint,
				Disruptive: e.Disruptive,
			}
			c.Lines, c.More = diffRows(e.Diff, left, languageOf(itemName(e.Line)))
			c.Open = len(c.Lines) <= foldedLines
			left -= len(c.Lines) + 1
			shown.Changes = append(shown.Changes, c)
		}
		data.Changes = append(data.Changes, shown)
	}
	return draw("change-review", "change-review", data)
}

// happened says what a rollout that ended did to nodes; empty for others.
func (p ChangePage) happened() string {
	if p.Head == nil || p.Head.Row.Ended == nil || p.Head.Row.Nodes == 0 {
		return ""
	}
	text := p.Head.Pool + ": " + p.Head.Row.ShortOutcome()
	if p.isHalted() {
		text = "so far, " + text
	}
	for _, row := range p.Forecast {
		if (row.What == forecastReboots || row.What == forecastDrains) && row.Happened != unknownNumber {
			text += ", " + row.Happened + " " + strings.ToLower(row.What)
		}
	}
	return text
}

func (p ChangePage) isHalted() bool {
	return p.Head != nil && p.Head.Row.Result == history.Result(v1alpha1.RolloutWasHalted)
}

func (p ChangePage) about() Region {
	var facts []fact
	for _, f := range p.About {
		href := commitPath(f.Pool, f.Config)
		if f.Config == "" && f.Pool != "" {
			href = poolPath(f.Pool)
		}
		facts = append(facts, fact{Label: f.Label, Text: f.Text, Href: href})
	}
	return draw("commit-about", "commit-about", facts)
}

// foldedLines: a difference with more lines is folded at first.
const foldedLines = 120

// itemName returns the path or the unit that a line of the review is about.
func itemName(line string) string {
	words := strings.Fields(line)
	if len(words) < 2 {
		return ""
	}
	return words[1]
}

func (p ChangePage) nodes() Region {
	type link struct{ Name, Href string }
	data := struct {
		Count string
		Nodes []link
		More  int
	}{Count: fleet.Count(p.Running, "node"), More: p.Running - len(p.Runs)}
	for _, n := range p.Runs {
		data.Nodes = append(data.Nodes, link{n, nodePath(n)})
	}
	return draw("commit-nodes", "commit-nodes", data)
}

// cutLine shortens a long line, and says so.
func cutLine(text string) string {
	if len(text) <= longestLine {
		return text
	}
	at := longestLine
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return text[:at] + fmt.Sprintf("… (%d more bytes in this line)", len(text)-at)
}

func poolPath(pool string) string { return "/pool/" + url.PathEscape(pool) }

func nodePath(node string) string { return "/node/" + url.PathEscape(node) }

// commitPath returns the path of a rendered config in its pool; "" if either is unknown.
func commitPath(pool, config string) string {
	if pool == "" || config == "" {
		return ""
	}
	return poolPath(pool) + "/commit/" + url.PathEscape(config)
}
