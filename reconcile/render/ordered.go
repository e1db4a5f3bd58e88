package render

import "github.com/coreos/ignition/v2/config/util"

// ordered is a list of items with unique keys, in which each item keeps its position. The zero value is an empty list.
type ordered[T util.Keyed] struct {
	items []T
	dead  []bool
	place map[string]int
}

// meeting has the items of one list that both a config and the result so far contain.
type meeting[T util.Keyed] struct {
	// ours are the items of the result whose keys the config also has. theirs are the items of the config whose keys
	// the result also has.
	ours, theirs []T
}

// meet returns the items of the list that have the given keys, and the items of another list whose keys are known. If
// several lists share their keys, the parameter known says which keys are known; otherwise the keys of the list itself
// are known.
func (o *ordered[T]) meet(keys []string, known map[string]bool, list []T) (m meeting[T]) {
	for _, k := range keys {
		if i, ok := o.place[k]; ok {
			m.ours = append(m.ours, o.items[i])
		}
	}
	for _, x := range list {
		if known[x.Key()] || known == nil && o.has(x.Key()) {
			m.theirs = append(m.theirs, x)
		}
	}
	return m
}

func (o *ordered[T]) has(key string) bool {
	_, ok := o.place[key]
	return ok
}

// put adds the list of a config. For each item, put uses the merged item if there is one, and otherwise the config's
// item. Known items replace those in their places, new items are appended in the config's order, and items that the
// merge dropped are removed.
func (o *ordered[T]) put(m meeting[T], merged, list []T) {
	if o.place == nil {
		o.place = map[string]int{}
	}
	byKey := make(map[string]T, len(merged))
	for _, x := range merged {
		byKey[x.Key()] = x
	}
	for _, x := range m.ours {
		if k := x.Key(); !contains(byKey, k) {
			o.dead[o.place[k]] = true
			delete(o.place, k)
		}
	}
	for _, x := range list {
		k := x.Key()
		if contains(byKey, k) {
			x = byKey[k]
		}
		if i, ok := o.place[k]; ok {
			o.items[i] = x
			continue
		}
		o.place[k] = len(o.items)
		o.items = append(o.items, x)
		o.dead = append(o.dead, false)
	}
}

func contains[T any](m map[string]T, key string) bool {
	_, ok := m[key]
	return ok
}

func (o *ordered[T]) list() (all []T) {
	for i, x := range o.items {
		if !o.dead[i] {
			all = append(all, x)
		}
	}
	return all
}
