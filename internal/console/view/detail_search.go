package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/inspect/history"
)

const (
	// of the text that a user searches for, in bytes
	longestQuery, shortestQuery = 200, 2
	// the configs that a search reads, and the matches of each kind that it lists
	mostSearched, mostFound = 60, 100
	// If a search finds no more items, it says who changed each last.
	mostTraced = 5
	// the configs that it reads for that
	mostReads = 200
)

type place struct {
	// the config, and that of its pool, which differs for the config of single nodes
	name   string
	row    *fleet.RenderedRow
	target bool
	// that run the config now, or one of their own that belongs to it
	nodes map[string]bool
}

// Search returns the page with all items, nodes, pools and commits that contain a text.
func (s DetailSession) Search(ctx context.Context, query string, now time.Time) (SearchPage, error) {
	query = strings.TrimSpace(safetext.Strip(query))
	p := SearchPage{Query: query}
	switch {
	case query == "":
		return p, nil
	case len(query) < shortestQuery || len(query) > longestQuery:
		p.Query = query[:min(len(query), longestQuery)]
		p.Notes = append(p.Notes, fmt.Sprintf("A search has %d to %d bytes.", shortestQuery, longestQuery))
		return p, nil
	}
	c, err := s.Cluster(ctx)
	if err != nil {
		return p, err
	}
	p.Others = others(&c, strings.ToLower(query))
	f := fleet.New(c, now)
	places := searched(f)
	byName := map[string]place{}
	var all []Contents
	for i := 0; i < len(places); i++ {
		if i == mostSearched {
			p.Notes = append(p.Notes, fmt.Sprintf("The cluster has %d configs that pools should run or nodes run; "+
				"this search read the %d that the most nodes run.", len(places), mostSearched))
			break
		}
		x := places[i]
		of, err := s.contents(ctx, &c, x.name, now)
		switch note := deniedNote(err, "MachineConfigs", "items of configs", configViewerRole); {
		case note != "":
			p.Notes = append(p.Notes, note)
			return p, nil
		case err != nil && (apierrors.IsTimeout(err) || errors.Is(err, ctx.Err())):
			return p, err
		case err != nil:
			p.Notes = append(p.Notes, "not searched: "+err.Error())
			continue
		}
		all = append(all, *of)
		byName[x.name] = x
		if of.Unread {
			places = append(places, variantsOf(x)...)
		}
	}
	reads, drift := mostReads, inspect.NewDriftReport(c.Nodes, c.Daemons, now)
	found, more := SearchContents(all, query, mostFound)
	if more > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d more items match; write more of the name.", more))
	}
	for _, m := range found {
		item := foundItem(m, byName)
		for i := range item.In {
			for _, row := range drift.Rows {
				if row.Name == m.Name && byName[m.In[i].Config].nodes[row.Node] {
					item.In[i].ByHand = append(item.In[i].ByHand, manualChange(row))
				}
			}
		}
		if len(found) <= mostTraced || m.Name == query {
			if err := s.findChanges(ctx, f, m, item.In, &reads, now); err != nil {
				p.Notes = append(p.Notes, "Who changed "+m.Kind+" "+m.Name+" last is not known: "+err.Error())
			}
		}
		p.Items = append(p.Items, item)
	}
	return p, nil
}

// findChanges sets who last changed an item, for each config that has it. An item that nodes have from documents of
// their own is left out: the configs before are in other objects. reads is how many configs the request may still read.
func (s DetailSession) findChanges(ctx context.Context, f *fleet.Fleet, m ContentMatch, in []FoundConfig,
	reads *int, now time.Time,
) error {
	for i := range in {
		if len(m.In[i].Nodes) > 0 || in[i].Config != m.In[i].Config {
			continue
		}
		key := m.In[i].key
		all, err := s.lastChanges(ctx, f, ref{in[i].Pool, in[i].Config}, []history.ItemKey{key}, reads, now)
		if err != nil {
			return err
		}
		if last, known := all[key]; known {
			in[i].Changed = &last
		}
	}
	return nil
}

// LastChange is the commit that last changed an item. Unchanged: it did not, and what was before is not known.
type LastChange struct {
	By        commit
	Unchanged bool
}

// lastChanges returns the last changes of items of a pool's config, as far as its history and the configs before are
// still there. reads is how many configs the request may still read.
func (s DetailSession) lastChanges(ctx context.Context, f *fleet.Fleet, of ref, items []history.ItemKey,
	reads *int, now time.Time,
) (map[history.ItemKey]LastChange, error) {
	h, err := history.Of(f, of.pool)
	if err != nil {
		return nil, nil // The pool was deleted.
	}
	rows, err := h.LastChanges(of.config, items, func(name string) (machineconfig.Config, bool, error) {
		if *reads--; *reads < 0 {
			return machineconfig.Config{}, false, nil
		}
		mc, err := s.config(ctx, name, now)
		if apierrors.IsNotFound(err) {
			return machineconfig.Config{}, false, nil
		}
		if err != nil {
			return machineconfig.Config{}, false, err
		}
		config, err := machineconfig.Parse(mc.Spec)
		return config, true, err
	})
	if err != nil {
		return nil, err
	}
	out := map[history.ItemKey]LastChange{}
	for item, last := range rows {
		by := rowCommit(of.pool, &h.Rows[last.Row])
		if row := &h.Rows[last.Row]; row.IsOfCommit() { // Who held, released or retried it did not write it.
			by.Subject = cmp.Or(row.Subject, by.Subject)
		}
		out[item] = LastChange{by, last.Unchanged}
	}
	return out, nil
}

func foundItem(m ContentMatch, places map[string]place) FoundItem {
	out := FoundItem{Kind: m.Kind, Name: m.Name}
	overridden := map[string]map[string]bool{} // config → nodes with documents of their own for the item
	for _, h := range m.In {
		for _, node := range h.Nodes {
			if overridden[h.Config] == nil {
				overridden[h.Config] = map[string]bool{}
			}
			overridden[h.Config][node] = true
		}
	}
	for _, h := range m.In {
		x := places[h.Config]
		of := FoundConfig{
			Config: x.row.Name, Pool: x.row.Pool, Target: x.target, Of: h.Nodes, Origin: h.Origin,
			Commit: x.row.CommitText(),
		}
		switch {
		case len(h.Nodes) == 0:
			for node := range x.nodes {
				if !overridden[h.Config][node] {
					of.Nodes++
				}
			}
		default:
			for _, node := range h.Nodes {
				if x.nodes[node] {
					of.Nodes++
				}
			}
		}
		if x.name != x.row.Name {
			of.Of = slices.Sorted(maps.Keys(x.nodes))
		}
		out.In = append(out.In, of)
	}
	return out
}

// searched returns the configs that pools should run and that nodes run, the one with the most nodes first. Configs of
// single nodes count as that of their pool.
func searched(f *fleet.Fleet) []place {
	byName := map[string]*place{}
	at := func(name string) *place {
		if byName[name] == nil {
			byName[name] = newPlace(f, name)
		}
		return byName[name]
	}
	for _, v := range f.PoolByName {
		if !v.Facts.Target.IsZero() {
			at(v.TargetConfig()).target = true
		}
		for i := range v.Rows {
			if current := v.Rows[i].Current.Config; current != "" {
				at(f.ConfigOfPool(v, current, v.Rows[i].Name)).nodes[v.Rows[i].Name] = true
			}
		}
	}
	return inOrder(byName)
}

func newPlace(f *fleet.Fleet, name string) *place {
	p := &place{name: name, row: f.ConfigNamed(name), nodes: map[string]bool{}}
	p.row.Pool = cmp.Or(p.row.Pool, v1alpha1.RenderedPool(name))
	return p
}

func inOrder(byName map[string]*place) []place {
	var out []place
	for _, x := range byName {
		out = append(out, *x)
	}
	slices.SortFunc(out, func(a, b place) int {
		return cmp.Or(cmp.Compare(len(b.nodes), len(a.nodes)), cmp.Compare(a.name, b.name))
	})
	return out
}

func variantsOf(of place) []place {
	byName := map[string]*place{}
	for node := range of.nodes {
		own := of.row.Nodes.Of(node)
		if own == of.row.Nodes.Base {
			continue
		}
		if byName[own] == nil {
			byName[own] = &place{name: own, row: of.row, target: of.target, nodes: map[string]bool{}}
		}
		byName[own].nodes[node] = true
	}
	return inOrder(byName)
}

// others returns what contains a text in lower case.
func others(c *fleet.Cluster, query string) []FoundList {
	has := func(texts ...string) bool {
		return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(strings.ToLower(t), query) })
	}
	nodes, pools, commits := FoundList{Kind: "node"}, FoundList{Kind: "pool"}, FoundList{Kind: "commit"}
	for i := range c.Pools {
		if has(c.Pools[i].Name) {
			pools.add(Found{Name: c.Pools[i].Name})
		}
	}
	for i := range c.Nodes {
		if has(c.Nodes[i].Name) {
			nodes.add(Found{Name: c.Nodes[i].Name})
		}
	}
	seen := map[string]bool{}
	for i := range c.Sources {
		all := c.Sources[i].Status.History
		for j, h := range all {
			for pool, config := range h.Pools {
				seen[pool+" "+config] = true
			}
			if has(h.Subject, h.Author, h.Revision) {
				commits.addCommit(h, all[j+1:])
			}
		}
	}
	for _, r := range c.Rendered {
		if r.VariantOf == "" && !seen[r.Pool+" "+r.Name] && has(r.Subject, r.Author, r.Revision) {
			commits.add(Found{Name: fleet.ShortRevision(r.Revision), Text: r.Subject + "   " + r.Author +
				"   pool " + r.Pool, Pool: r.Pool, Config: r.Name})
		}
	}
	return slices.DeleteFunc([]FoundList{pools, nodes, commits}, func(l FoundList) bool {
		return len(l.Found) == 0
	})
}

func (l *FoundList) add(f Found) {
	if len(l.Found) == mostFound {
		l.More++
		return
	}
	l.Found = append(l.Found, f)
}

// addCommit adds a commit once for each pool whose config it changed; if it changed none, once. The parameter older has
// the commits before it.
func (l *FoundList) addCommit(h v1alpha1.HistoryEntry, older []v1alpha1.HistoryEntry) {
	found := Found{Name: fleet.ShortRevision(h.Revision), Text: h.Subject + "   " + h.Author}
	pools, changed := slices.Sorted(maps.Keys(h.Pools)), false
	for _, pool := range pools {
		if h.Pools[pool] == fleet.RenderedBefore(older, pool) {
			continue
		}
		changed = true
		l.add(Found{Name: found.Name, Text: found.Text + "   pool " + pool, Pool: pool, Config: h.Revision})
	}
	if changed {
		return
	}
	if len(pools) > 0 {
		found.Pool, found.Config = pools[0], h.Revision
	}
	l.add(found)
}
