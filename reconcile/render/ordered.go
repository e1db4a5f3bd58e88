package render

import "github.com/coreos/ignition/v2/config/util"

// ordered is a list of keyed items in which each keeps its place. The zero value is empty.
type ordered[T util.Keyed] struct {
	items []T
	dead  []bool
	place map[string]int
	// born says with which config each item came into the list: the one that gives it its place.
	born map[string]int
}

// meeting is what a config and the result so far have to do with each other in one list.
type meeting[T util.Keyed] struct {
	// ours are the items that the config's keys name, theirs the config's items that are not new.
	ours, theirs []T
}

// meet picks our items of these keys, and of another list those whose key is known: by this list, or by the given table
// where several lists share their keys.
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

// put brings the list of config number turn in: where its items met some of ours, as they were merged, and else as they
// are. Known items go to their places, new ones to the end in the config's order, and ours that the merge dropped go out.
func (o *ordered[T]) put(turn int, m meeting[T], merged, list []T) {
	if o.place == nil {
		o.place, o.born = map[string]int{}, map[string]int{}
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
		o.place[k], o.born[k] = len(o.items), turn
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
