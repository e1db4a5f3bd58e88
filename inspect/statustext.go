package inspect

import (
	"fmt"
	"strings"

	"github.com/bunsen-os/bunsen/source"
)

// SourceTable shows the sources.
func (s Status) SourceTable() Table {
	t := Table{Head: []string{"SOURCE", "REVISION", "READY", "MESSAGE"}}
	for _, r := range s.Sources {
		t.Rows = append(t.Rows, []string{r.Name, dash(shortRevision(r.Revision)), r.Ready, briefly(r.Message)})
	}
	return t
}

// PoolTable shows the pools.
func (s Status) PoolTable() Table {
	t := Table{Head: []string{"POOL", "TARGET", "COMMIT", "NODES", "UPDATED", "BUSY", "WAITING", "DEGRADED", "STATE"}}
	for _, r := range s.Pools {
		t.Rows = append(t.Rows, []string{
			r.Name, dash(ShortRendered(r.Target)), dash(shortRevision(r.Revision)),
			fmt.Sprint(r.Nodes), fmt.Sprint(r.Updated), fmt.Sprint(r.Busy), fmt.Sprint(r.Waiting()), fmt.Sprint(r.Degraded), brief(r.State),
		})
	}
	return t
}

// NodeTable shows all nodes.
func (s Status) NodeTable() Table { return nodeTable(s.Nodes) }

func nodeTable(rows []NodeRow) Table {
	t := Table{Head: []string{"NODE", "POOL", "CURRENT", "DESIRED", "STATE", "STEP", "WHY"}}
	for _, r := range rows {
		t.Rows = append(t.Rows, []string{
			r.Name, dash(r.Pool), dash(ShortRendered(r.Current)), dash(ShortRendered(r.Desired)), r.State, dash(r.Step), brief(r.Reason),
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
	for _, text := range []string{s.SourceTable().String(), s.PoolTable().String(), s.Servers.text(s.at), nodeTable(shown).String()} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	if len(parts) == 0 {
		return nothing
	}
	if hidden := len(s.Nodes) - len(shown); hidden > 0 {
		parts = append(parts, fmt.Sprintf("%d more nodes: bunsen get nodes\n", hidden))
	}
	return strings.Join(parts, "\n")
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
