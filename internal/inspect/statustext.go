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

// SourceTable returns a table of the sources.
func (s Status) SourceTable() terminal.Table {
	t := terminal.Table{Head: []string{"SOURCE", "REVISION", "READY", "VERIFIED", "LOOKED", "MESSAGE"}}
	for _, r := range s.Sources {
		t.Rows = append(t.Rows, []string{
			r.Name, terminal.Dash(fleet.ShortRevision(r.Revision)), r.Ready,
			terminal.Dash(r.Verified), r.looked(s.at), r.brief,
		})
	}
	return t.Without("VERIFIED", "-").Without("LOOKED", "-")
}

// PoolTable returns a table of the pools.
func (s Status) PoolTable() terminal.Table {
	t := terminal.Table{Head: []string{
		"POOL", "TARGET", "COMMIT", "NODES", "UPDATED", "UNREADY", "BUSY", "WAITING",
		"DEGRADED", "BACK", "UNKNOWN", "STATE",
	}}
	for _, r := range s.Pools {
		t.Rows = append(t.Rows, []string{
			r.Name, terminal.Dash(fleet.ShortRendered(r.Target)),
			terminal.Dash(fleet.CommitLabel(r.API, cmp.Or(r.Revision, r.Unproven))),
			fmt.Sprint(r.Nodes), fmt.Sprint(r.Updated), fmt.Sprint(r.Unready), fmt.Sprint(r.Busy),
			fmt.Sprint(r.Waiting), fmt.Sprint(r.Degraded),
			fmt.Sprint(r.Back), fmt.Sprint(r.Unknown), fleet.Brief(r.State),
		})
	}
	return t.Without("UNREADY", "0").Without("BACK", "0").Without("UNKNOWN", "0")
}

// NodeTable returns a table of all nodes, also those that no pool selects, with the commit that each one runs.
func (s Status) NodeTable() terminal.Table {
	t := nodeTable(s.AllNodes(), s.at)
	const at = 3 // behind CURRENT
	t.Head = slices.Insert(t.Head, at, "COMMIT")
	for i, r := range s.AllNodes() {
		t.Rows[i] = slices.Insert(t.Rows[i], at, terminal.Dash(fleet.CommitLabel(r.API, r.Revision)))
	}
	return t
}

// AllNodes returns the nodes of all pools, and then those that no pool selects.
func (s Status) AllNodes() []fleet.NodeRow { return slices.Concat(s.Nodes, s.Unmanaged) }

func nodeTable(rows []fleet.NodeRow, now time.Time) terminal.Table {
	t := terminal.Table{Head: []string{"NODE", "POOL", "CURRENT", "DESIRED", "STATE", "STEP", "WHY"}}
	for _, r := range rows {
		t.Rows = append(t.Rows, []string{
			r.Name, terminal.Dash(r.Pool), terminal.Dash(fleet.ShortRendered(r.Current.String())),
			terminal.Dash(fleet.ShortRendered(r.Desired.String())), r.StateText(now), terminal.Dash(r.Step),
			fleet.Brief(r.Reason),
		})
	}
	return t
}

// fewNodes are listed completely; of more, only those with a step or a problem, and those with the same one in a line.
const fewNodes = 12

// nodeRows returns the rows of Text, and how many nodes are not in them.
func (s Status) nodeRows() (rows []fleet.NodeRow, hidden int) {
	if len(s.Nodes) <= fewNodes {
		return s.Nodes, 0
	}
	var groups [][]string // the names of the nodes in a row
	rowOf := map[string]int{}
	for _, r := range s.Nodes {
		if r.Reason == "" {
			hidden++
			continue
		}
		same := fmt.Sprintf("%q %q %q %q %q %q", r.Pool, r.Current, r.Desired, r.StateText(s.at), r.Step, r.Reason)
		at, known := rowOf[same]
		switch {
		case known:
			groups[at] = append(groups[at], r.Name)
		case len(rows) < 2*fewNodes:
			rowOf[same] = len(rows)
			rows, groups = append(rows, r), append(groups, []string{r.Name})
		default:
			hidden++
		}
	}
	for i, names := range groups {
		rows[i].Name = fleet.Names(names, 1)
	}
	return rows, hidden
}

// Text prints the screen: sources, pools, servers, then nodes.
func (s Status) Text() string { return s.tables(s.Controllers.Problems(s.at)) }

// tables prints the screen below the problems of the controllers.
func (s Status) tables(problems string) string {
	shown, hidden := s.nodeRows()
	var parts []string
	for _, text := range []string{
		problems, s.head(), s.PoolTable().String(), s.Servers.Text(s.at),
		nodeTable(shown, s.at).String(),
	} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	if n := len(s.Unmanaged); n > 0 {
		parts = append(parts, fleet.Count(n, "node")+" of no pool, which Bunsen does not manage: bunsen get nodes\n")
	}
	if len(parts) == 0 {
		return nothing
	}
	if hidden > 0 {
		more := "more nodes"
		if len(shown) == 0 {
			more = "nodes, all in service"
		}
		parts = append(parts, fmt.Sprintf("%d %s: bunsen get nodes\n", hidden, more))
	}
	if s.Outcome.NeedsUser() {
		parts = append(parts, "Why, and what helps: bunsen why\n")
	}
	var begin terminal.Labels
	for _, do := range s.Begin {
		begin.Add("To do", do)
	}
	if text := begin.String(); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, "\n")
}

// head prints the sources, the controllers, and the general warnings.
func (s Status) head() string {
	var b terminal.Labels
	b.Text(s.SourceTable())
	for _, r := range s.Sources {
		if r.Overdue {
			b.Line("WARNING: %s", fleet.OverdueText(r.Name, r.looked(s.at)))
		}
	}
	for _, w := range s.Warnings {
		b.Line("WARNING: %s", w)
	}
	text := b.String() + s.Notifier.Text()
	controllers := s.Controllers.Text(s.at)
	if text != "" && controllers != "" {
		text += "\n"
	}
	return text + controllers
}

func (r SourceRow) looked(now time.Time) string {
	if r.LastLook == nil {
		return "-"
	}
	return terminal.Age(*r.LastLook, now) + " ago"
}

// nothing is the text for an empty cluster.
const nothing = "Nothing here yet: no GitSource, pool or node.\n"
