package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// SearchPage is the page of a search.
type SearchPage struct {
	// Query is empty before the first search.
	Query string
	Items []FoundItem
	// Others are nodes, pools and commits.
	Others []FoundList
	// Notes say which configs the search did not read, and why.
	Notes []string
}

// FoundItem is an item of one or several configs.
type FoundItem struct {
	Kind, Name string
	In         []FoundConfig
}

// FoundConfig is a rendered config that has an item.
type FoundConfig struct {
	// Target: the pool should run the config.
	Config, Pool string
	Target       bool
	// Of are the nodes with a config of their own that have the item from Origin, sorted; empty for an item of the
	// pool's config.
	Of []string
	// Nodes run the config now: of those in Of, or else of all that have no other origin.
	Nodes int
	// Origin says which documents set the item, Commit who requested the config.
	Origin, Commit string
	// Changed is nil if it is not known or was not searched.
	Changed *LastChange
	// ByHand are the nodes on which somebody changed the item since.
	ByHand []ManualChange
}

// ManualChange is a change of an item on a node, by somebody whom nothing records.
type ManualChange struct {
	Node string
	// At is the modification time of the file, or when the daemon found the difference.
	At time.Time
}

func manualChange(r inspect.DriftRow) ManualChange {
	at := r.Since.Time
	if r.Modified != nil {
		at = r.Modified.Time
	}
	return ManualChange{Node: r.Node, At: at}
}

// FoundList are matches of one kind.
type FoundList struct {
	Kind  string
	Found []Found
	// More are left out.
	More int
}

// Found is a node, a pool or a commit.
type Found struct {
	Name, Text   string
	Pool, Config string
}

func (f Found) href(kind string) string {
	switch kind {
	case "node":
		return nodePath(f.Name)
	case "pool":
		return poolPath(f.Name)
	}
	return commitPath(f.Pool, f.Config)
}

// Regions draws the form and the matches.
func (p SearchPage) Regions() []Region {
	type row struct {
		Name, Href, Text string
	}
	type list struct {
		Title string
		Rows  []row
		More  int
	}
	type holder struct {
		Text, Href, Origin, Commit string
		Changed                    *LastChange
		ByHand                     []ManualChange
		// MoreByHand are further ones.
		MoreByHand int
	}
	type item struct {
		Kind, Name string
		In         []holder
	}
	data := struct {
		Query string
		Lists []list
		Items []item
		None  bool
	}{Query: p.Query}
	for _, o := range p.Others {
		l := list{Title: strings.ToUpper(o.Kind[:1]) + o.Kind[1:] + "s", More: o.More}
		for _, f := range o.Found {
			l.Rows = append(l.Rows, row{f.Name, f.href(o.Kind), f.Text})
		}
		data.Lists = append(data.Lists, l)
	}
	for _, it := range p.Items {
		x := item{Kind: it.Kind, Name: it.Name}
		for _, c := range it.In {
			x.In = append(x.In, holder{
				c.text(), commitPath(c.Pool, c.Config), c.Origin, c.Commit, c.Changed,
				c.ByHand[:min(len(c.ByHand), mostNamed)], max(0, len(c.ByHand)-mostNamed),
			})
		}
		data.Items = append(data.Items, x)
	}
	data.None = p.Query != "" && len(data.Lists)+len(data.Items)+len(p.Notes) == 0
	return []Region{
		draw("search-form", "search-form", p.Query), draw("search-notes", "search-notes", p.Notes),
		draw("search-found", "search-found", data),
	}
}

// mostNamed limits the nodes that a match names.
const mostNamed = 5

func (c FoundConfig) text() string {
	text := "pool " + c.Pool
	if c.Target {
		text += ", its target"
	}
	switch {
	case len(c.Of) == 1 && c.Nodes == 1:
		return text + ", on node " + c.Of[0] + " now"
	case len(c.Of) == 1:
		return text + ", for node " + c.Of[0] + ", not on it now"
	case len(c.Of) > 1:
		text += ", for " + fleet.Names(c.Of, mostNamed)
	}
	return fmt.Sprintf("%s, on %s now", text, fleet.Count(c.Nodes, "node"))
}
