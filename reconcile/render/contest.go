package render

import (
	"maps"
	"slices"

	"github.com/coreos/ignition/v2/config/util"
	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// input is one MachineConfig as merging needs it.
type input struct {
	name string
	// worker tells that it is of the role worker, which other pools inherit.
	worker bool
	// generated tells that a controller wrote it, whose images give way to the cluster's.
	generated bool
	*fragment
}

// contest is a key that more than one input sets. Only contested items need Ignition's Merge; all others are as their one
// input has them. What comes out depends on the fragments alone, so it is kept for as long as these are the same.
type contest struct {
	// by are the inputs that set the key, in the order of merging, and of their fragments.
	by []int
	of []*fragment

	// list is the one that the item ends in, item the item there, text its text.
	list int
	item lists
	text text
	// born says which of by gives the item its place in the list.
	born int
	// clashes are what the inputs disagree about; by in them counts in by.
	clashes []clash
}

// contests are all of them by key; those of lists that share keys are with the list that gives the space its number.
type contests [listCount]map[string]*contest

// findContests looks at every key of every input once.
func findContests(inputs []input) (all contests) {
	for space := range all {
		size := 0
		for _, in := range inputs {
			for list := range listTable {
				if listTable[list].space == space {
					size += len(in.keys[list])
				}
			}
		}
		if size > 0 {
			all[space] = contestsOf(space, inputs, size)
		}
	}
	return all
}

func contestsOf(space int, inputs []input, size int) map[string]*contest {
	all := map[string]*contest{}
	first := make(map[string]int, size)
	for i, in := range inputs {
		for list := range listTable {
			if listTable[list].space != space {
				continue
			}
			for _, k := range in.keys[list] {
				was, again := first[k]
				switch c := all[k]; {
				case !again:
					first[k] = i
				case c == nil:
					all[k] = &contest{by: []int{was, i}, of: []*fragment{inputs[was].fragment, in.fragment}}
				default:
					c.by, c.of = append(c.by, i), append(c.of, in.fragment)
				}
			}
		}
	}
	return all
}

// settle decides every contest: as in old, where the same fragments met, and else by a fold of the contested items. It
// returns those that it decided anew.
func (all contests) settle(inputs []input, old contests) (fresh contests, err error) {
	touched := map[int]bool{}
	for space, found := range all {
		fresh[space] = map[string]*contest{}
		for k, c := range found {
			if was := old[space][k]; was != nil && slices.Equal(was.of, c.of) {
				c.list, c.item, c.text, c.born, c.clashes = was.list, was.item, was.text, was.born, was.clashes
				continue
			}
			fresh[space][k] = c
			for _, i := range c.by {
				touched[i] = true
			}
		}
	}
	if len(touched) == 0 {
		return fresh, nil
	}
	var f fold
	heard := map[*contest][]said{}
	for i, in := range inputs {
		if touched[i] {
			some := in.only(fresh)
			f.add(i, some.into(ign.Config{}))
			listen(heard, fresh, some)
		}
	}
	for c, all := range heard {
		c.clashes = clashesOfContest(all)
	}
	results := f.lists()
	written, err := write([]lists{results})
	if err != nil {
		return fresh, err
	}
	texts := written[0]
	ended(fresh, listFiles, filesOf, results, texts, f.files.born)
	ended(fresh, listDirectories, directoriesOf, results, texts, f.directories.born)
	ended(fresh, listLinks, linksOf, results, texts, f.links.born)
	ended(fresh, listUnits, unitsOf, results, texts, f.units.born)
	ended(fresh, listUsers, usersOf, results, texts, f.users.born)
	ended(fresh, listGroups, groupsOf, results, texts, f.groups.born)
	return fresh, nil
}

// ended notes what became of the contests that ended in one list.
func ended[T util.Keyed](fresh contests, list int, of func(*lists) *[]T, results lists, texts texts, born map[string]int) {
	for j, x := range *of(&results) {
		c := fresh[listTable[list].space][x.Key()]
		c.list, c.text, c.item = list, texts[list][j], lists{}
		*of(&c.item) = []T{x}
		c.born = slices.Index(c.by, born[x.Key()])
	}
}

// listen notes what one input says about each contest.
func listen(heard map[*contest][]said, fresh contests, some lists) {
	hear(heard, fresh[listFiles], some.files, fileSays)
	hear(heard, fresh[listFiles], some.directories, directorySays)
	hear(heard, fresh[listFiles], some.links, linkSays)
	hear(heard, fresh[listUnits], some.units, unitSays)
	hear(heard, fresh[listUsers], some.users, userSays)
	hear(heard, fresh[listGroups], some.groups, groupSays)
}

func hear[T util.Keyed](heard map[*contest][]said, fresh map[string]*contest, items []T, says func(T) said) {
	for _, x := range items {
		c := fresh[x.Key()]
		heard[c] = append(heard[c], says(x))
	}
}

// choose adds to some those of a fragment's items in one list whose keys are wanted.
func choose[T util.Keyed](f *fragment, list int, of func(*lists) *[]T, want contests, some *lists) {
	wanted := want[listTable[list].space]
	if len(wanted) == 0 {
		return
	}
	all := take(f.config.Ignition)
	for j, k := range f.keys[list] {
		if wanted[k] != nil {
			*of(some) = append(*of(some), (*of(&all))[j])
		}
	}
}

// gather puts one list of the result together: each input's items in its order, contested ones where they came in first.
func gather[T util.Keyed](inputs []input, all contests, list int, of func(*lists) *[]T, out *lists) (texts []text) {
	size := 0
	for _, in := range inputs {
		size += len(in.keys[list])
	}
	if size == 0 {
		return nil
	}
	items := make([]T, 0, size)
	texts = make([]text, 0, size)
	won := all[listTable[list].space]
	for i, in := range inputs {
		own, written := *of(&in.own), in.texts.Load()
		for j, k := range in.keys[list] {
			c := won[k]
			switch {
			case c == nil:
				items, texts = append(items, own[j]), append(texts, written[list][j])
			case c.list == list && c.by[c.born] == i:
				items, texts = append(items, *of(&c.item)...), append(texts, c.text)
			}
		}
	}
	if len(items) > 0 {
		*of(out) = items
	}
	return texts
}

// gatherAll puts all lists together.
func gatherAll(inputs []input, all contests) (out lists, texts texts, err error) {
	if err := writeOwn(inputs); err != nil {
		return out, texts, err
	}
	texts[listFiles] = gather(inputs, all, listFiles, filesOf, &out)
	texts[listDirectories] = gather(inputs, all, listDirectories, directoriesOf, &out)
	texts[listLinks] = gather(inputs, all, listLinks, linksOf, &out)
	texts[listUnits] = gather(inputs, all, listUnits, unitsOf, &out)
	texts[listUsers] = gather(inputs, all, listUsers, usersOf, &out)
	texts[listGroups] = gather(inputs, all, listGroups, groupsOf, &out)
	return out, texts, nil
}

// bring puts the items of contests, in lexical order of their keys, into an otherwise empty config.
func (all contests) bring() machineconfig.Config {
	var some lists
	for _, found := range all {
		for _, k := range slices.Sorted(maps.Keys(found)) {
			c := found[k].item
			some.files = append(some.files, c.files...)
			some.directories = append(some.directories, c.directories...)
			some.links = append(some.links, c.links...)
			some.units = append(some.units, c.units...)
			some.users = append(some.users, c.users...)
			some.groups = append(some.groups, c.groups...)
		}
	}
	return machineconfig.Config{Ignition: some.into(ign.Config{})}
}
