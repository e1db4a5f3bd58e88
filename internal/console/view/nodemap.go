package view

import (
	"cmp"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/safetext"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// The ways to group the nodes of a map.
const (
	// ByZone groups nodes by zone, ByState by phase, and ByNothing not at all.
	ByZone    = "zone"
	ByState   = "state"
	ByNothing = "none"
)

// MapOptions say how a map shows the nodes of a pool.
type MapOptions struct {
	// By is ByZone, ByState or ByNothing. Anything else means ByZone if nodes have zones, and otherwise ByNothing.
	By string
	// Filter is a part of a node's name or state; empty for all.
	Filter string
	// Page of the table, from 1.
	Page int
}

// phaseView is how a phase looks on a page.
type phaseView struct{ Phase, Word, Sign string }

// phaseViews are in the order of a legend.
var phaseViews = []phaseView{
	{"degraded", "failed", "✕"},
	{"unknown", "unknown", "?"},
	{"unready", "unready", "!"},
	{"draining", "draining", "D"},
	{"applying", "applying", "A"},
	{"rebooting", "rebooting", "R"},
	{"back", "went back", "↩"},
	{"next", "next", "→"},
	{"waiting", "waiting", "·"},
	{"updated", "updated", "✓"},
}

func viewOf(r *fleet.NodeRow) phaseView {
	phase := string(r.Phase)
	if r.Step == fleet.StepNext {
		phase = "next"
	}
	for _, v := range phaseViews {
		if v.Phase == phase {
			return v
		}
	}
	return phaseViews[1] // The phase is unknown.
}

// stepKey is what the text of a node's step depends on, if its time is unknown.
type stepKey struct{ step, reason string }

// nodeMap draws the nodes of a pool: each as a cell, and as rows of a table.
type nodeMap struct {
	pool    string
	nodes   []fleet.NodeRow
	zones   map[string]string
	options MapOptions
	now     time.Time
	// by key, because thousands of nodes may have the same
	texts map[stepKey]string
}

func (m *nodeMap) by() string {
	switch by := m.options.By; {
	case by == ByState, by == ByNothing, by == ByZone:
		return by
	case len(m.zones) > 0:
		return ByZone
	}
	return ByNothing
}

func (m *nodeMap) path(by, filter string, page int) string {
	q := url.Values{}
	if by != "" {
		q.Set("by", by)
	}
	if filter != "" {
		q.Set("filter", filter)
	}
	if page > 1 {
		q.Set("page", strconv.Itoa(page))
	}
	if len(q) == 0 {
		return poolPath(m.pool)
	}
	return poolPath(m.pool) + "?" + q.Encode()
}

// text says what a node does, without the reason of a waiting node: one busy node changes the reasons of all waiting
// ones.
func (m *nodeMap) text(r *fleet.NodeRow) string {
	word := viewOf(r).Word
	switch {
	case r.Step == fleet.StepWaiting:
		return word
	case r.Step == fleet.StepNext:
		return "next"
	case r.Step == "" && r.Reason == "":
		return word
	}
	key := stepKey{r.Step, r.Reason}
	text, known := m.texts[key]
	if !known || r.Since != nil {
		text = r.StepText(m.now)
		if r.Step == "" {
			text = word + text
		}
		text = cutLine(text)
		if r.Since == nil {
			m.texts[key] = text
		}
	}
	return text
}

// label is the accessible name of a node's cell.
func (m *nodeMap) label(r *fleet.NodeRow) string { return safetext.Line(r.Name + ": " + m.text(r)) }

func (m *nodeMap) isShown(r *fleet.NodeRow) bool {
	return m.options.Filter == "" || strings.Contains(strings.ToLower(m.label(r)), strings.ToLower(m.options.Filter))
}

// manyNodes: from this number on, the cells are smaller. fewNodes: up to this number, they have the names.
const manyNodes, fewNodes = 300, 12

func (m *nodeMap) region() Region {
	class := ""
	switch {
	case len(m.nodes) >= manyNodes:
		class = "many"
	case len(m.nodes) <= fewNodes:
		class = "few"
	}
	return draw("pool-map", "pool-map", class, m.controls(), m.cells(), m.legend())
}

// controls does not change while the page is open, so that a user can type.
func (m *nodeMap) controls() Region {
	type way struct {
		Name, Href string
		Is         bool
	}
	data := struct {
		Action, Filter, By string
		Ways               []way
	}{poolPath(m.pool), m.options.Filter, "", nil}
	if m.by() == m.options.By {
		data.By = m.options.By
	}
	for _, by := range []struct{ by, name string }{
		{ByZone, "by zone"}, {ByState, "by state"}, {ByNothing, "all together"},
	} {
		data.Ways = append(data.Ways, way{by.name, m.path(by.by, m.options.Filter, 0), m.by() == by.by})
	}
	return draw("map-controls", "map-controls", data)
}

func (m *nodeMap) legend() Region {
	type entry struct {
		phaseView
		Count int
	}
	var entries []entry
	for _, v := range phaseViews {
		n := 0
		for i := range m.nodes {
			if viewOf(&m.nodes[i]).Phase == v.Phase {
				n++
			}
		}
		if n > 0 {
			entries = append(entries, entry{v, n})
		}
	}
	return draw("map-legend", "map-legend", entries)
}

type cellGroup struct {
	id, title string
	nodes     []*fleet.NodeRow
}

func (m *nodeMap) groups() []cellGroup {
	var out []cellGroup
	at := map[string]int{}
	for i := range m.nodes {
		r := &m.nodes[i]
		if !m.isShown(r) {
			continue
		}
		id, title := "", ""
		switch m.by() {
		case ByZone:
			id = m.zones[r.Name]
			title = cmp.Or(id, "no zone")
		case ByState:
			id = viewOf(r).Phase
			title = viewOf(r).Word
		}
		k, known := at[id]
		if !known {
			k = len(out)
			at[id] = k
			out = append(out, cellGroup{id: id, title: title})
		}
		out[k].nodes = append(out[k].nodes, r)
	}
	slices.SortStableFunc(out, func(a, b cellGroup) int {
		if m.by() == ByState {
			rank := func(g cellGroup) int {
				return slices.IndexFunc(phaseViews, func(v phaseView) bool { return v.Phase == g.id })
			}
			return cmp.Compare(rank(a), rank(b))
		}
		if (a.id == "") != (b.id == "") { // Nodes without a zone come last.
			return cmp.Compare(b.id, a.id)
		}
		return cmp.Compare(a.id, b.id)
	})
	return out
}

// cells draws one cell for each node. A node that changes, changes its own cell, and the numbers of its group.
func (m *nodeMap) cells() Region {
	groups := m.groups()
	var parts []Region
	for _, g := range groups {
		var cells []Region
		updated := 0
		for _, r := range g.nodes {
			if viewOf(r).Phase == "updated" {
				updated++
			}
			cells = append(cells, m.cell(r))
		}
		count := fleet.Count(len(g.nodes), "node")
		if m.by() != ByState {
			count = fmt.Sprintf("%d of %s updated", updated, count)
		}
		head := struct{ ID, Title, Text string }{idOf("head", g.id), g.title, count}
		list, id := idOf("list", g.id), idOf("group", g.id)
		parts = append(parts, draw(id, "map-group", id, draw(head.ID, "map-head", head),
			draw(list, "map-list", list, cells...)))
	}
	return draw("map", "map", struct{ None bool }{len(groups) == 0}, parts...)
}

// cell uses no template, because a page has thousands of cells.
func (m *nodeMap) cell(r *fleet.NodeRow) Region {
	v, id, label := viewOf(r), idOf("cell", r.Name), template.HTMLEscapeString(m.label(r))
	open := `<a id="` + template.HTMLEscapeString(id) + `" class="cell ` + v.Phase + `" href="` +
		template.HTMLEscapeString(nodePath(r.Name)) +
		`" title="` + label + `" aria-label="` + label + `">` + v.Sign
	if len(m.nodes) <= fewNodes {
		open += ` <span>` + template.HTMLEscapeString(safetext.Line(r.Name)) + `</span>`
	}
	return Region{ID: id, Open: open, Close: "</a>"}
}

// idOf returns the id of an element about an object. Different names have different ids.
func idOf(kind, name string) string { return kind + "-" + url.PathEscape(name) }

// mostNodes is for one page of the table.
const mostNodes = 200

// table draws one page of the nodes, each row as a region of its own.
func (m *nodeMap) table() Region {
	data := struct {
		Shown, Open      bool
		From, To, Total  int
		Earlier, Further string
	}{}
	var rows []Region
	page := max(1, m.options.Page)
	from := (page - 1) * mostNodes
	for i := range m.nodes {
		r := &m.nodes[i]
		if !m.isShown(r) {
			continue
		}
		if at := data.Total; at >= from && at < from+mostNodes {
			rows = append(rows, m.row(r))
		}
		data.Total++
	}
	data.Shown, data.Open, data.From, data.To = len(rows) > 0, page > 1, from+1, from+len(rows)
	if page > 1 {
		data.Earlier = m.path(m.options.By, m.options.Filter, page-1)
	}
	if data.To < data.Total && data.Shown {
		data.Further = m.path(m.options.By, m.options.Filter, page+1)
	}
	if !data.Shown {
		return draw("pool-nodes", "pool-nodes", data)
	}
	return draw("pool-nodes", "pool-nodes", data, draw("pool-nodes-rows", "pool-nodes-rows", nil, rows...))
}

func (m *nodeMap) row(r *fleet.NodeRow) Region {
	v, id := viewOf(r), idOf("row", r.Name)
	return draw(id, "pool-nodes-row", struct{ ID, Name, Href, Class, Sign, State, Zone, Runs, Desired string }{
		id, r.Name, nodePath(r.Name), v.Phase, v.Sign, m.text(r), m.zones[r.Name],
		fleet.ShortRendered(r.Current.String()),
		fleet.ShortRendered(r.Desired.String()),
	})
}
