package review

import (
	"cmp"
	"slices"
	"strings"
)

// section is the changes that the very same pools get.
type section struct {
	pools []string
	items []Item
}

// identity is what makes two pools' changes the same for a reader. Where they come from may differ.
type identity struct{ kind, path, change, parts, from, to, actions, why, avoid, diff string }

func identityOf(it Item) identity {
	return identity{it.Kind, it.Path, it.Change, strings.Join(it.Parts, "\n"), it.RenamedFrom, it.RenamedTo, it.deed(), it.Why, it.AvoidReboot.name(), it.Diff}
}

// sections groups the changes of all pools by the pools that get them, so that a change of a shared document is shown
// once. Those of most pools come first, then by name; within one, the order is that of policy.Changes.
func (c Comparison) sections() []section {
	type shared struct {
		item   Item
		pools  []string
		places []string // by pool
	}
	var all []*shared
	known := map[identity]*shared{}
	for _, p := range c.Pools {
		for _, it := range p.Items {
			id := identityOf(it)
			s := known[id]
			if s == nil {
				s = &shared{item: it}
				known[id] = s
				all = append(all, s)
			}
			s.pools = append(s.pools, p.Pool)
			s.places = append(s.places, it.places())
		}
	}
	byPools := map[string]*section{}
	var out []*section
	for _, s := range all {
		key := strings.Join(s.pools, "\n")
		sec := byPools[key]
		if sec == nil {
			sec = &section{pools: s.pools}
			byPools[key] = sec
			out = append(out, sec)
		}
		it := s.item
		it.Origin, it.Origins = joinPlaces(s.pools, s.places), nil
		sec.items = append(sec.items, it)
	}
	slices.SortStableFunc(out, func(a, b *section) int {
		return cmp.Or(len(b.pools)-len(a.pools), slices.Compare(a.pools, b.pools))
	})
	sections := make([]section, len(out))
	for i, s := range out {
		sections[i] = *s
	}
	firstHints(sections)
	return sections
}

// joinPlaces says each place once, with its pools where there are several.
func joinPlaces(pools, places []string) string {
	of := map[string][]string{}
	var order []string
	for i, place := range places {
		if of[place] == nil {
			order = append(order, place)
		}
		of[place] = append(of[place], pools[i])
	}
	if len(order) == 1 {
		return order[0]
	}
	var out []string
	for _, place := range order {
		if place != "" {
			out = append(out, place+" ("+strings.Join(of[place], ", ")+")")
		}
	}
	return strings.Join(out, ", ")
}

// remark is a sentence and the pools that it is about.
type remark struct {
	pools []string
	text  string
}

// remarks gathers what pools have to say, equal texts once.
func (c Comparison) remarks(of func(PoolChange) []string) (out []remark) {
	at := map[string]int{}
	for _, p := range c.Pools {
		for _, text := range of(p) {
			i, ok := at[text]
			if !ok {
				i = len(out)
				at[text] = i
				out = append(out, remark{text: text})
			}
			if !slices.Contains(out[i].pools, p.Pool) {
				out[i].pools = append(out[i].pools, p.Pool)
			}
		}
	}
	return out
}

// split tells the pools that change from those that do not.
func (c Comparison) split() (changed []PoolChange, same []string) {
	for _, p := range c.Pools {
		if p.changed() {
			changed = append(changed, p)
		} else {
			same = append(same, p.Pool)
		}
	}
	return changed, same
}
