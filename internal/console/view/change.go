package view

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/review/report"
)

// ChangePage is the page of a commit, or of a comparison.
type ChangePage struct {
	// Title is for a commit.
	Title string
	// Form is nil on the page of a commit.
	Form  *CompareForm
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

// Fact is a label with its text, and a link if it names a pool or a config of one.
type Fact struct {
	Label, Text  string
	Pool, Config string
}

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
	Disruptive                 bool
	Lines                      []diffLine
	More                       int
}

type group struct {
	Title   string
	Changes []change
}

// Regions draws the change.
func (p ChangePage) Regions() []Region {
	var out []Region
	if p.Form != nil {
		out = append(out, draw("compare-form", "compare-form", p.Form), draw("compare-offers", "compare-offers",
			p.Form.Offers))
	}
	if p.Form == nil {
		out = append(out, p.about())
	}
	out = append(out, draw("change-notes", "change-notes", p.Notes), p.review())
	if p.Form == nil {
		out = append(out, draw("commit-forecast", "commit-forecast", p.Forecast), p.nodes(),
			draw("commit-undo", "commit-undo", p.Undo))
	}
	return out
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
	}{Outline: o}
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
			c.Lines, c.More = diffLines(e.Diff, left)
			left -= len(c.Lines) + 1
			shown.Changes = append(shown.Changes, c)
		}
		data.Changes = append(data.Changes, shown)
	}
	return draw("change-review", "change-review", data)
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

const (
	// of a line, in bytes
	longestLine = 2000
	// of differences
	mostLines = 5000
)

// diffLine is one line of a difference. Class is add, del, meta or same; the text begins with the sign, which also
// helps a user who sees no colours.
type diffLine struct{ Class, Text string }

// diffLines returns the first lines, and how many more there are.
func diffLines(lines []string, most int) (out []diffLine, more int) {
	for i, l := range lines {
		if i >= most {
			return out, len(lines) - i
		}
		class := "same"
		switch {
		case strings.HasPrefix(l, "@@"), strings.HasPrefix(l, "#"), strings.HasPrefix(l, "---"),
			strings.HasPrefix(l, "+++"):
			class = "meta"
		case strings.HasPrefix(l, "+"):
			class = "add"
		case strings.HasPrefix(l, "-"):
			class = "del"
		}
		out = append(out, diffLine{class, cutLine(l)})
	}
	return out, 0
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
