package view

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/safetext"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/review/report"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

const (
	// of the text in a field
	longestName = 300
	mostOffers  = 200
)

// Compare returns the page that compares two configs. Each input is a rendered config, pool/NAME, node/NAME, or a
// commit. If one means no config, the page shows that; it is no error.
func (s DetailSession) Compare(ctx context.Context, from, to string, now time.Time) (ChangePage, error) {
	c, err := s.Cluster(ctx)
	if err != nil {
		return ChangePage{}, err
	}
	from, to = strings.TrimSpace(safetext.Strip(from)), strings.TrimSpace(safetext.Strip(to))
	p := ChangePage{Form: &CompareForm{From: from, To: to, Offers: offers(&c)}}
	if from == "" && to == "" {
		return p, nil
	}
	f := fleet.New(c, now)
	what, problem := pairsOf(f, from, to)
	if problem != "" {
		p.Form.Problem = problem
		return p, nil
	}
	found, notes, err := s.compare(ctx, f, what, now)
	p.Notes = notes
	if err != nil {
		p.Notes = append(p.Notes, failedReview(err))
		return p, nil
	}
	found.Undo = ""
	outline := report.OutlineOf(found)
	p.Review = &outline
	return p, nil
}

func offers(c *fleet.Cluster) []string {
	var out []string
	for i := range c.Pools {
		out = append(out, "pool/"+c.Pools[i].Name)
	}
	for _, r := range c.Rendered {
		if r.VariantOf == "" { // that of a node is node/NAME
			out = append(out, r.Name)
		}
	}
	for i := range c.Nodes {
		out = append(out, "node/"+c.Nodes[i].Name)
	}
	return out[:min(len(out), mostOffers)]
}

func pairsOf(f *fleet.Fleet, from, to string) (sides, string) {
	before, problem := refsOf(f, from)
	if problem != "" {
		return sides{}, "From: " + problem
	}
	after, problem := refsOf(f, to)
	if problem != "" {
		return sides{}, "To: " + problem
	}
	out := sides{base: from, head: to}
	switch {
	case len(before) == 1 && len(after) == 1:
		nodes := -1
		if before[0].pool != after[0].pool || strings.HasPrefix(from, "node/") {
			nodes = 1 // that goes from one to the other
		}
		out.pairs = []pair{{before[0], after[0], nodes}}
		return out, ""
	case len(before) == 1:
		after = slices.DeleteFunc(after, func(r ref) bool { return r.pool != before[0].pool })
	case len(after) == 1:
		before = slices.DeleteFunc(before, func(r ref) bool { return r.pool != after[0].pool })
	}
	for _, b := range before {
		if i := slices.IndexFunc(after, func(a ref) bool { return a.pool == b.pool }); i >= 0 {
			out.pairs = append(out.pairs, pair{b, after[i], -1})
		}
	}
	if len(out.pairs) == 0 {
		return out, "no pool has a config of both sides"
	}
	return out, ""
}

// refsOf returns the configs that an input means: one, or for each pool to which a commit gave one; or a problem.
func refsOf(f *fleet.Fleet, what string) ([]ref, string) {
	kind, name, _ := strings.Cut(what, "/")
	switch {
	case what == "":
		return nil, "name a rendered config, pool/NAME, node/NAME or a commit"
	case len(what) > longestName:
		return nil, fmt.Sprintf("the name has %d bytes; at most %d are possible", len(what), longestName)
	case kind == "pool":
		v := f.PoolByName[name]
		if v == nil {
			return nil, fleet.NoPool(name).Error()
		}
		if v.Facts.Target.IsZero() {
			return nil, "nothing is rendered for pool " + name + " yet"
		}
		return []ref{{name, v.TargetConfig()}}, ""
	case kind == "node":
		return nodeRef(f, name)
	}
	return configRefs(f, what)
}

func nodeRef(f *fleet.Fleet, name string) ([]ref, string) {
	node, err := f.FindNode(name)
	if err != nil {
		return nil, err.Error()
	}
	current := poolstate.ReadNode(node).Config.Current.Config
	if current == "" {
		return nil, "node " + name + " has no config yet"
	}
	row, _ := f.Find(name)
	pool := row.Pool
	if pool == "" {
		pool = f.ConfigNamed(current).Pool
	}
	if pool == "" {
		return nil, "no pool selects node " + name
	}
	return []ref{{pool, current}}, ""
}

// configRefs returns the rendered config with a name, or the configs that a commit gave to pools.
func configRefs(f *fleet.Fleet, what string) ([]ref, string) {
	var found []ref
	for _, r := range f.Rendered {
		if r.Name == what {
			return []ref{{r.Pool, r.Name}}, ""
		}
		if isConfig(r.Name, what) {
			found = append(found, ref{r.Pool, r.Name})
		}
	}
	if len(found) > 1 {
		return nil, fmt.Sprintf("%d configs have a name that begins with %q; write the whole name", len(found), what)
	}
	if len(found) == 1 {
		return found, ""
	}
	byPool := configsOfCommit(f, what)
	for _, pool := range slices.Sorted(maps.Keys(byPool)) {
		if byPool[pool] != "" {
			found = append(found, ref{pool, byPool[pool]})
		}
	}
	if len(found) == 0 {
		return nil, fmt.Sprintf("there is no rendered config and no commit %q on the cluster; `bunsen get rendered` "+
			"lists the configs", what)
	}
	return found, ""
}

// configsOfCommit returns the configs that a commit gave to pools. The newest entry of a source's history counts.
func configsOfCommit(f *fleet.Fleet, what string) map[string]string {
	byPool := map[string]string{}
	for i := range f.Sources {
		for _, h := range f.Sources[i].Status.History {
			if !isRevision(h.Revision, what) {
				continue
			}
			for pool, config := range h.Pools {
				if byPool[pool] == "" {
					byPool[pool] = config
				}
			}
		}
	}
	for _, r := range f.Rendered {
		if r.VariantOf == "" && isRevision(r.Revision, what) && byPool[r.Pool] == "" {
			byPool[r.Pool] = r.Name
		}
	}
	return byPool
}
