package render

import (
	"slices"

	"github.com/coreos/ignition/v2/config/util"
	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// item is one key of a list. For lists that share their keys, item.space is the index of the first of these lists.
type item struct {
	space int
	key   string
}

// setBy maps each item to the inputs that set it. The inputs are indexes in the order of merging.
type setBy map[item][]int

// setters returns the items that more than one input sets.
func setters(inputs []Input) setBy {
	all := setBy{}
	for i, in := range inputs {
		keys := take(in.Config.Ignition).keys()
		for list, of := range keys {
			for _, k := range of {
				at := item{listTable[list].space, k}
				all[at] = append(all[at], i)
			}
		}
	}
	for at, by := range all {
		if len(by) < 2 {
			delete(all, at)
		}
	}
	return all
}

// only returns the lists with only those items that are in the set.
func (s setBy) only(all lists) lists {
	return lists{
		files:       among(s, listFiles, all.files),
		directories: among(s, listDirectories, all.directories),
		links:       among(s, listLinks, all.links),
		units:       among(s, listUnits, all.units),
		users:       among(s, listUsers, all.users),
		groups:      among(s, listGroups, all.groups),
	}
}

func among[T util.Keyed](s setBy, list int, items []T) []T {
	return slices.DeleteFunc(slices.Clone(items), func(x T) bool {
		return s[item{listTable[list].space, x.Key()}] == nil
	})
}

// contested returns a config with only those items that more than one input sets. All other items were validated in
// their inputs.
func (s setBy) contested(c machineconfig.Config) machineconfig.Config {
	c.Ignition = s.only(take(c.Ignition)).into(c.Ignition)
	// The nested configs must be kept, because they are merged into all items.
	c.Ignition.Ignition.Config = ign.IgnitionConfig{}
	return c
}

// statements returns for each item the attributes from each of its setters, in the order of merging.
func (s setBy) statements(inputs []Input) map[item][]said {
	all := map[item][]said{}
	for _, in := range inputs {
		some := s.only(take(in.Config.Ignition))
		state(all, listFiles, some.files, fileSays)
		state(all, listDirectories, some.directories, directorySays)
		state(all, listLinks, some.links, linkSays)
		state(all, listUnits, some.units, unitSays)
		state(all, listUsers, some.users, userSays)
		state(all, listGroups, some.groups, groupSays)
	}
	return all
}

func state[T util.Keyed](all map[item][]said, list int, items []T, says func(T) said) {
	for _, x := range items {
		at := item{listTable[list].space, x.Key()}
		all[at] = append(all[at], says(x))
	}
}
