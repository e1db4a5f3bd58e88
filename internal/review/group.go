package review

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Section has the changes that one group of pools gets.
type Section struct {
	Pools []string
	Items []Item
}

// identity is equal for changes with the same text, whatever their origins.
type identity struct{ kind, path, change, parts, from, to, actions, why, avoid, diff string }

func identityOf(it Item) identity {
	return identity{
		it.Kind, it.Path, it.Change, strings.Join(it.Parts, "\n"), it.RenamedFrom, it.RenamedTo,
		fmt.Sprint(it.Effect, it.Actions), it.Why, it.AvoidReboot.Name(), it.Diff,
	}
}

// Sections groups the changes of all pools by the pools that get them, so that a change of a shared document is shown
// once: sections with more pools first, then by name, each in the order of disruption.Changes.
func (c Comparison) Sections() []Section {
	type shared struct {
		item   Item
		pools  []string
		places []string // The indexes are those of the pools.
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
			s.places = append(s.places, it.Places())
		}
	}
	byPools := map[string]*Section{}
	var out []*Section
	for _, s := range all {
		key := strings.Join(s.pools, "\n")
		sec := byPools[key]
		if sec == nil {
			sec = &Section{Pools: s.pools}
			byPools[key] = sec
			out = append(out, sec)
		}
		it := s.item
		it.Origin, it.Origins = joinPlaces(s.pools, s.places), nil
		sec.Items = append(sec.Items, it)
	}
	slices.SortStableFunc(out, func(a, b *Section) int {
		return cmp.Or(len(b.Pools)-len(a.Pools), slices.Compare(a.Pools, b.Pools))
	})
	sections := make([]Section, len(out))
	for i, s := range out {
		sections[i] = *s
	}
	firstHints(sections)
	return sections
}

// firstHints removes a rule that an item above has too, so that a directory of 40 files has one hint.
func firstHints(sections []Section) {
	known := map[string]bool{}
	for _, sec := range sections {
		for i := range sec.Items {
			name := sec.Items[i].AvoidReboot.Name()
			if known[name] {
				sec.Items[i].AvoidReboot = nil
			}
			known[name] = true
		}
	}
}

// joinPlaces lists each position once; of several, each has the names of its pools.
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

// Places lists where the repository sets the changed values, with the names of attributes that come from different
// lines.
func (it Item) Places() string {
	attributes := map[string][]string{}
	for attribute, place := range it.Origins {
		attributes[place] = append(attributes[place], attribute)
	}
	if len(attributes) < 2 {
		for place := range attributes {
			return place
		}
		return it.Origin
	}
	var out []string
	for place, names := range attributes {
		slices.Sort(names)
		out = append(out, strings.Join(names, " and ")+" "+place)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
