package view

import (
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/inspect/history"
	"github.com/bunsen-os/bunsen/internal/terminal"
	"github.com/bunsen-os/bunsen/reconcile/drain"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

//go:embed static
var static embed.FS

//go:embed templates/*.html
var files embed.FS

// Static returns the files below /static/: scripts, the style sheet and licences.
func Static() fs.FS {
	sub, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // The folder is embedded in the program, so there is no error.
	}
	return sub
}

// Frame is what surrounds the regions of a page.
type Frame struct {
	// Title is without the name of the console.
	Title string
	// Here is the page's entry of the navigation; empty for none.
	Here string
	// Viewer is the name of the user who is signed in.
	Cluster, Viewer string
	// SignOut shows the button that ends the session.
	SignOut bool
	// Command prints the same data on the command line; empty for none.
	Command string
	// Stream is the path of the page's events; empty for a page that does not change.
	Stream string
	// OwnHead: the first region has the heading of the page.
	OwnHead bool
}

// Page is one page.
type Page struct {
	Frame
	Regions []Region
}

// Write writes the whole page as HTML.
func (p Page) Write(w io.Writer) error {
	var body strings.Builder
	for _, r := range p.Regions {
		body.WriteString(r.HTML())
	}
	data := struct {
		Frame
		Body template.HTML
	}{p.Frame, template.HTML(body.String())} // Templates make the regions, and templates escape texts.
	if err := templates().ExecuteTemplate(w, "page.html", data); err != nil {
		return fmt.Errorf("writing the page %q: %w", p.Title, err)
	}
	return nil
}

// partsMarker marks where the parts of a region are inserted. Data cannot contain it, because templates escape `<`.
const partsMarker = "<!--parts-->"

// templates are parsed at the first page: most verbs of bunsen draw none.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"parts":    func() template.HTML { return partsMarker },
		"shown":    func(text string) string { return safetext.Line(cutLine(text)) },
		"rendered": fleet.ShortRendered,
		"icon":     iconOf,
		"tone":     toneOf,
		"sign":     signOf,
		"when":     timeOf,
		"clock":    clockOf,
		"sides":    hasSides,
		"copied":   safetext.Line, // whole, unlike what is shown
		"firstOf":  firstOf,
	}).ParseFS(files, "templates/*.html"))
})

// draw makes a region with a template. Its first element has the id, and `{{parts}}` is where the parts go.
func draw(id, name string, data any, parts ...Region) Region {
	var b strings.Builder
	if err := templates().ExecuteTemplate(&b, name, data); err != nil {
		// Templates and the types of their data are fixed, and tests draw each template.
		panic(fmt.Sprintf("template %s: %v", name, err))
	}
	open, end, _ := strings.Cut(strings.TrimSpace(b.String()), partsMarker)
	return Region{ID: id, Open: open, Parts: parts, Close: end}
}

// NodePage has the data of the page of a node.
type NodePage struct {
	// Why is the answer of `bunsen why node/NAME`.
	Why     inspect.Why
	Configs []ConfigLine
	// Drift is the answer of `bunsen drift node/NAME`.
	Drift inspect.DriftReport
	// Contents of the current config; nil if ContentsNote says why they are not shown.
	Contents     *Contents
	ContentsNote string
	// Changed says which commits last changed the items, as far as that is known.
	Changed map[history.ItemKey]LastChange
	Daemon  *v1alpha1.DaemonReport
	// Conditions and Events are those of the Node and of its MachineConfigNode, the newest events first.
	Conditions []Condition
	Events     []Event
	// Updates are named by the events, the newest first.
	Updates []history.Update
	// Notes say which data the reports do not have, and why.
	Notes []string
}

// ConfigLine is a rendered config with its role for a node, such as `current`.
type ConfigLine struct {
	Role string
	Row  fleet.RenderedRow
}

// Condition is a condition of the Node or of its MachineConfigNode.
type Condition struct {
	// Of is the kind of the object that has the condition.
	Of, Type, Status, Reason, Message string
	// Since is when the status changed last; zero if unknown.
	Since time.Time
}

// Event is an event about the Node or its MachineConfigNode.
type Event struct {
	Of, Type, Reason, Message string
	// By is another node that wrote the event; empty for the node itself and for controllers.
	By    string
	Count int
	// Last time of the event; zero if unknown.
	Last time.Time
}

// The page says how many entries it leaves out.
const (
	mostItems = 2000
	mostPods  = 100
	mostDrift = 200
)

// Regions draws the node: why it waits and what its updates did, and beside that its configs and its reports.
func (p NodePage) Regions(now time.Time) []Region {
	return []Region{p.head(now), draw("node-columns", "node-columns", nil,
		draw("node-main", "node-main", nil, p.state(now), p.drain(now), p.drift(now), p.origins(), p.updates()),
		draw("node-aside", "node-aside", nil, p.configs(), p.reports(now)))}
}

func (p NodePage) head(now time.Time) Region {
	data := struct {
		Name, Pool, Href, State string
		Outcome                 inspect.Outcome
	}{Name: strings.TrimPrefix(p.Why.About, "node/"), Outcome: p.Why.Outcome}
	if n := p.Why.Node; n != nil {
		data.Pool, data.Href = n.Pool, poolPath(n.Pool)
		if text := n.StateText(now); text != string(p.Why.Outcome) && !p.Why.Outcome.NeedsUser() {
			data.State = text
		}
	}
	return draw("node-head", "node-head", data)
}

// fact is a label with its text, a link if Href is not empty, and a text below it; or with a time.
type fact struct {
	Label, Text, Href, Below string
	At                       time.Time
}

func (p NodePage) state(now time.Time) Region {
	w := p.Why
	data := struct {
		Need    need
		Outcome string
		Needs   bool
		Facts   []fact
	}{Need: needOf(w, now), Outcome: string(w.Outcome), Needs: w.Outcome.NeedsUser()}
	if rows := p.Drift.Rows; len(rows) > 0 && w.Cause == poolstate.CauseFailed && data.Needs {
		data.Need.Title = rows[0].Name + " differs from the config"
		if more := len(rows) - 1; more > 0 {
			data.Need.Title = rows[0].Name + " and " + fleet.Count(more, "more item") + " differ from the config"
		}
	}
	if n := w.Node; n != nil {
		if n.Step != "" && !data.Needs { // What needs a person says it.
			step := n.Step
			if n.Since != nil {
				step += fleet.Since(*n.Since, now)
			}
			data.Facts = append(data.Facts, fact{Label: "Step", Text: step})
		}
		// If the causes are equal, or a person is needed, the sentence above already has the reason.
		if n.Reason != "" && n.Cause != w.Cause && !data.Needs {
			data.Facts = append(data.Facts, fact{Label: "Reason", Text: n.Reason})
		}
	}
	if w.Target != nil {
		for _, text := range w.Target.Secrets.Texts() {
			data.Facts = append(data.Facts, fact{Label: "Secret", Text: text})
		}
	}
	if text := w.WindowsText(now); text != "" {
		data.Facts = append(data.Facts, fact{Label: "Windows", Text: text})
	}
	return draw("node-state", "node-state", data)
}

func (p NodePage) configs() Region {
	var rows []fact
	for _, c := range p.Configs {
		rows = append(rows, fact{
			Label: c.Role, Text: fleet.ShortRendered(c.Row.Name), Href: commitPath(c.Row.Pool, c.Row.Name),
			Below: configAfter(c.Row),
		})
	}
	data := struct {
		Rows    []fact
		Compare string
	}{Rows: rows}
	if len(p.Configs) > 1 && p.Configs[0].Row.Name != "" {
		data.Compare = comparePath(p.Configs[0].Row.Name, p.Configs[1].Row.Name)
	}
	return draw("node-configs", "node-configs", data)
}

// configAfter names the commit of a config, and who made it.
func configAfter(r fleet.RenderedRow) string {
	text := cmp.Or(r.Subject, fleet.CommitLabel(r.API, r.Revision))
	if r.Author != "" {
		text += ", " + fleet.Person(r.Author)
	}
	return text
}

func comparePath(from, to string) string {
	return "/compare?" + url.Values{"from": {from}, "to": {to}}.Encode()
}

// updates draws a line for each update of the last hour: its begin, how long it took, how it ended, and its steps.
func (p NodePage) updates() Region {
	type line struct {
		At                            time.Time
		Took, Text, Steps, Tone, Sign string
	}
	var lines []line
	if n := p.Why.Node; n != nil && n.Step == fleet.StepFailed && n.Current != n.Desired && n.Since != nil &&
		!slices.ContainsFunc(p.Updates, func(u history.Update) bool { return u.Failed && !u.Ended.Before(*n.Since) }) {
		// No event tells of a failure before the drain.
		lines = append(lines, line{
			At: *n.Since, Took: "failed", Text: fleet.ShortRendered(n.Desired.Config), Steps: fleet.Brief(n.Reason),
			Tone: "bad", Sign: "cross",
		})
	}
	for _, u := range p.Updates {
		l := line{At: u.Began, Took: "under way", Text: fleet.Shorten(u.Text), Tone: "busy", Sign: "turn"}
		if !u.Ended.IsZero() {
			l.Took, l.Tone, l.Sign = fleet.Took(u.Took()), "good", "check"
		}
		if u.Failed {
			l.Tone, l.Sign = "bad", "cross"
		}
		var steps []string
		for _, s := range u.Steps {
			steps = append(steps, s.Name+" "+s.At.UTC().Format(time.TimeOnly))
		}
		l.Steps = strings.Join(steps, ", ")
		lines = append(lines, l)
	}
	return draw("node-updates", "node-updates", lines)
}

func (p NodePage) drain(now time.Time) Region {
	type pod struct{ Pod, State, Since, Why string }
	data := struct {
		Head string
		Pods []pod
		More int
	}{}
	if d := p.Why.Drain; d != nil {
		data.Head = "to " + fleet.ShortRendered(d.For) + "," + fleet.Since(d.Started.Time, now)
		data.More = d.More + max(0, len(d.Pods)-mostPods)
		for _, x := range d.Pods[:min(len(d.Pods), mostPods)] {
			at := time.Time{}
			if x.Since != nil {
				at = x.Since.Time
			}
			data.Pods = append(data.Pods, pod{x.Pod, string(x.State), terminal.Age(at, now), drain.PodText(x)})
		}
	}
	return draw("node-drain", "node-drain", data)
}

type driftItem struct {
	Name, Kind, Action, Since, Why, Command string
	Lines                                   []diffRow
}

func (p NodePage) drift(now time.Time) Region {
	data := struct {
		Items []driftItem
		None  string
		More  int
	}{}
	if len(p.Drift.Rows) == 0 {
		data.None = "No drift: the node is as its current config says."
	}
	data.More = max(0, len(p.Drift.Rows)-mostDrift)
	for _, more := range p.Drift.Unlisted {
		data.More += more
	}
	for _, r := range p.Drift.Rows[:min(len(p.Drift.Rows), mostDrift)] {
		item := driftItem{
			Name: r.Name, Kind: string(r.Kind), Action: string(r.Action), Since: terminal.Age(r.Since.Time, now),
			Why:     r.Why,
			Command: fleet.ShellLine("bunsen", "drift", "show", "node/"+r.Node, r.Name),
		}
		lines := []string{"--- as the config says: " + fleet.ShortRendered(r.Config), "+++ on the node"}
		if text := r.ExpectedText(); text != "" {
			lines = append(lines, "-"+text)
		}
		if text := r.ActualText(); text != "" {
			lines = append(lines, "+"+text)
		}
		if r.Modified != nil {
			lines = append(lines, "# modified "+r.Modified.UTC().Format(time.RFC3339))
		}
		item.Lines, _ = diffRows(lines, len(lines), nil)
		data.Items = append(data.Items, item)
	}
	return draw("node-drift", "node-drift", data)
}

// reports draws the heartbeat, the conditions and the events as regions of their own, because the age of the heartbeat
// changes all the time.
func (p NodePage) reports(now time.Time) Region {
	type row struct{ Of, Type, Status, Reason, Message, At string }
	facts := []fact{{Label: "Daemon", Text: "no heartbeat is known"}}
	if d := p.Daemon; d != nil {
		facts = []fact{
			{Label: "Daemon", Text: cmp.Or(d.Version, "unknown version") + ", last heartbeat " +
				terminal.Age(d.Seen.Time, now) + " ago"},
			{Label: "Reads configs from", Text: terminal.Dash(string(d.ConfigsFrom))},
		}
		if d.Form != "" {
			facts = append(facts, fact{Label: "Runs as", Text: d.Form})
		}
	}
	var conditions, events []row
	for _, c := range p.Conditions {
		conditions = append(conditions, row{c.Of, c.Type, c.Status, c.Reason, c.Message, moment(c.Since)})
	}
	for _, e := range p.Events {
		count := ""
		if e.Count > 1 {
			count = fmt.Sprintf("%d times", e.Count)
		}
		message := e.Message
		if e.By != "" {
			message = "written by node " + e.By + ", not by this one: " + message
		}
		events = append(events, row{e.Of, e.Type, count, e.Reason, message, moment(e.Last)})
	}
	return draw("node-reports", "node-reports", p.Notes,
		draw("node-daemon", "node-daemon", facts), draw("node-conditions", "node-conditions", conditions),
		draw("node-events", "node-events", events))
}

// moment is in UTC.
func moment(at time.Time) string {
	if at.IsZero() {
		return "unknown"
	}
	return at.UTC().Format(time.RFC3339)
}

func (p NodePage) origins() Region {
	type item struct {
		Item
		Changed *LastChange
		// ByHand is nil unless the item on the node is another one.
		ByHand *ManualChange
	}
	data := struct {
		Name, Href, Note string
		Asked            []string
		Items            []item
		Dated            bool
		More             int
	}{Note: p.ContentsNote, Dated: len(p.Changed) > 0}
	if c := p.Contents; c != nil {
		data.Name, data.Note, data.Asked = c.Trace.Rendered.Name, cmp.Or(data.Note, c.Note), c.Trace.Asked
		data.Href = commitPath(c.Trace.Rendered.Pool, data.Name)
		for _, it := range c.Items[:min(len(c.Items), mostItems)] {
			x := item{Item: it}
			for _, r := range p.Drift.Rows {
				if r.Name == it.Name {
					change := manualChange(r)
					x.ByHand = &change
				}
			}
			if last, known := p.Changed[it.key]; known && len(it.Nodes) == 0 {
				x.Changed = &last
			}
			data.Items = append(data.Items, x)
		}
		data.More = len(c.Items) - len(data.Items)
	}
	return draw("node-origins", "node-origins", data)
}
