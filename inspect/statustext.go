package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/source"
)

// SourceTable shows the sources.
func (s Status) SourceTable() Table {
	t := Table{Head: []string{"SOURCE", "REVISION", "READY", "LOOKED", "MESSAGE"}}
	for _, r := range s.Sources {
		t.Rows = append(t.Rows, []string{r.Name, dash(shortRevision(r.Revision)), r.Ready, r.looked(s.at), briefly(r.Message)})
	}
	return t.without("LOOKED", "-")
}

// PoolTable shows the pools.
func (s Status) PoolTable() Table {
	t := Table{Head: []string{"POOL", "TARGET", "COMMIT", "NODES", "UPDATED", "UNREADY", "BUSY", "WAITING", "DEGRADED", "BACK", "UNKNOWN", "STATE"}}
	for _, r := range s.Pools {
		t.Rows = append(t.Rows, []string{
			r.Name, dash(ShortRendered(r.Target)), dash(commitLabel(r.API, cmp.Or(r.Revision, r.Unproven))),
			fmt.Sprint(r.Nodes), fmt.Sprint(r.Updated), fmt.Sprint(r.Unready), fmt.Sprint(r.Busy), fmt.Sprint(r.Waiting), fmt.Sprint(r.Degraded),
			fmt.Sprint(r.Back), fmt.Sprint(r.Unknown), brief(r.State),
		})
	}
	return t.without("UNREADY", "0").without("BACK", "0").without("UNKNOWN", "0")
}

// NodeTable shows all nodes, also those that no pool selects.
func (s Status) NodeTable() Table { return nodeTable(s.AllNodes(), s.at) }

// AllNodes are the nodes of all pools, and then those that no pool selects.
func (s Status) AllNodes() []NodeRow { return slices.Concat(s.Nodes, s.Unmanaged) }

func nodeTable(rows []NodeRow, now time.Time) Table {
	t := Table{Head: []string{"NODE", "POOL", "CURRENT", "DESIRED", "STATE", "STEP", "WHY"}}
	for _, r := range rows {
		t.Rows = append(t.Rows, []string{
			r.Name, dash(r.Pool), dash(ShortRendered(r.Current)), dash(ShortRendered(r.Desired)), r.state(now), dash(r.Step), brief(r.Reason),
		})
	}
	return t
}

// fewNodes fit on a screen whole; of more, only those with something to say are shown.
const fewNodes = 12

// Text prints the screen: sources, pools, servers, then nodes.
func (s Status) Text() string {
	shown := s.Nodes
	if len(shown) > fewNodes {
		shown = nil
		for _, r := range s.Nodes {
			if r.Reason != "" && len(shown) < 2*fewNodes {
				shown = append(shown, r)
			}
		}
	}
	var parts []string
	for _, text := range []string{s.head(), s.PoolTable().String(), s.Servers.text(s.at), nodeTable(shown, s.at).String()} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	if n := len(s.Unmanaged); n > 0 {
		parts = append(parts, count(n, "node")+" of no pool, which Bunsen does not manage: bunsen get nodes\n")
	}
	if len(parts) == 0 {
		return nothing
	}
	if hidden := len(s.Nodes) - len(shown); hidden > 0 {
		more := "more nodes"
		if len(shown) == 0 {
			more = "nodes, all in service"
		}
		parts = append(parts, fmt.Sprintf("%d %s: bunsen get nodes\n", hidden, more))
	}
	return strings.Join(parts, "\n")
}

// head prints the sources, the controllers, and what concerns nothing else.
func (s Status) head() string {
	text := s.SourceTable().String()
	for _, r := range s.Sources {
		if r.Overdue {
			text += "WARNING: " + r.overdue(ago(s.at)) + "\n"
		}
	}
	for _, w := range s.Warnings {
		text += "WARNING: " + w + "\n"
	}
	controllers := s.Controllers.text(s.at)
	if text != "" && controllers != "" {
		text += "\n"
	}
	return text + controllers
}

// looked is how long ago the controller asked the repository.
func (r SourceRow) looked(now time.Time) string {
	if r.LastLook == nil {
		return "-"
	}
	return Age(*r.LastLook, now) + " ago"
}

// overdue says that the controller should have asked the repository again.
func (r SourceRow) overdue(when func(time.Time) string) string {
	return fmt.Sprintf("the controller last looked at the repository of GitSource %s %s, longer ago than two intervals; a newer commit has no effect yet", r.Name, when(*r.LastLook))
}

// state is the daemon's word, and how old it is where it is old.
func (r NodeRow) state(now time.Time) string {
	if r.AsOf == nil || r.State == unknown {
		return r.State
	}
	return r.State + " (" + Age(*r.AsOf, now) + " ago)"
}

// nothing is the screen of an empty cluster.
const nothing = "Nothing here yet: no GitSource, pool or node.\n"

func shortRevision(s string) string {
	r, err := source.ParseRevision(s)
	if err != nil {
		return s
	}
	return r.Short()
}

// person is the name of an author, without the address.
func person(author string) string {
	name, _, _ := strings.Cut(firstLine(author), "<")
	if name = strings.TrimSpace(name); name != "" {
		return name
	}
	return dash(firstLine(author))
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func firstLine(s string) string {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		return fmt.Sprintf("%s (+%d more)", s[:i], strings.Count(s[i+1:], "\n")+1)
	}
	return s
}
