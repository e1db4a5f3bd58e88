package render

import (
	"reflect"
	"slices"

	"github.com/coreos/ignition/v2/config/util"

	ign "github.com/bunsen-os/bunsen/api/ignition"
)

// fold merges configs one after another with Ignition's own Merge, in time linear in their size. Merging each config
// with the whole result so far would take quadratic time. Merging pairs of merged configs would be wrong, because Merge
// is not associative. A config affects only entries of the result that have the same keys as its own entries. So fold
// merges only these entries, puts them back in their places, and appends new entries.
type fold struct {
	// rest is the part of the config outside the lists below.
	rest        ign.Config
	files       ordered[ign.File]
	directories ordered[ign.Directory]
	links       ordered[ign.Link]
	units       ordered[ign.Unit]
	users       ordered[ign.PasswdUser]
	groups      ordered[ign.PasswdGroup]
}

// add merges one more config.
func (f *fold) add(c ign.Config) {
	c = detach(c)
	st := c.Storage
	// Files, directories and links share their keys: the paths.
	nodes := keys(keys(keys(nil, st.Files), st.Directories), st.Links)
	known := f.known(nodes)
	part, child := f.rest, withoutLists(c)
	files := f.files.meet(nodes, known, st.Files)
	directories := f.directories.meet(nodes, known, st.Directories)
	links := f.links.meet(nodes, known, st.Links)
	units := f.units.meet(keys(nil, c.Systemd.Units), nil, c.Systemd.Units)
	users := f.users.meet(keys(nil, c.Passwd.Users), nil, c.Passwd.Users)
	groups := f.groups.meet(keys(nil, c.Passwd.Groups), nil, c.Passwd.Groups)
	part.Storage.Files, child.Storage.Files = files.ours, files.theirs
	part.Storage.Directories, child.Storage.Directories = directories.ours, directories.theirs
	part.Storage.Links, child.Storage.Links = links.ours, links.theirs
	part.Systemd.Units, child.Systemd.Units = units.ours, units.theirs
	part.Passwd.Users, child.Passwd.Users = users.ours, users.theirs
	part.Passwd.Groups, child.Passwd.Groups = groups.ours, groups.theirs
	merged := part
	if !reflect.DeepEqual(child, ign.Config{Ignition: ign.Ignition{Version: part.Ignition.Version}}) {
		merged = ign.Merge(part, child)
		oneOwner(merged.Storage, child.Storage)
	}
	f.files.put(files, merged.Storage.Files, st.Files)
	f.directories.put(directories, merged.Storage.Directories, st.Directories)
	f.links.put(links, merged.Storage.Links, st.Links)
	f.units.put(units, merged.Systemd.Units, c.Systemd.Units)
	f.users.put(users, merged.Passwd.Users, c.Passwd.Users)
	f.groups.put(groups, merged.Passwd.Groups, c.Passwd.Groups)
	f.rest = withoutLists(merged)
}

func withoutLists(c ign.Config) ign.Config { return lists{}.into(c) }

// known reports for each path whether the result has it as a file, directory or link.
func (f *fold) known(paths []string) map[string]bool {
	taken := map[string]bool{}
	for _, p := range paths {
		taken[p] = f.files.has(p) || f.directories.has(p) || f.links.has(p)
	}
	return taken
}

// lists returns the lists of the result so far.
func (f *fold) lists() lists {
	return lists{
		attach(f.files.list()), f.directories.list(), f.links.list(), f.units.list(), f.users.list(),
		f.groups.list(),
	}
}

// detach explicitly sets contents to "not compressed" or "not verified" if the config sets neither compression nor
// hash. Without this, Merge would combine the new contents with the compression and hash of the replaced contents, and
// no machine could boot the result. detach copies the lists, because Merge may return them and the caller owns the
// config.
func detach(c ign.Config) ign.Config {
	files := make([]ign.File, len(c.Storage.Files))
	for i, f := range c.Storage.Files {
		if f.Contents.Source != nil {
			if f.Contents.Compression == nil {
				f.Contents.Compression = util.StrToPtr("")
			}
			if f.Contents.Verification.Hash == nil {
				f.Contents.Verification.Hash = util.StrToPtr("")
			}
		}
		files[i] = f
	}
	c.Storage.Files = files
	c.Storage.Directories = slices.Clone(c.Storage.Directories)
	c.Storage.Links = slices.Clone(c.Storage.Links)
	return c
}

// attach reverses detach. attach also sets overwrite for a file with contents, so that the file may replace an existing
// file. Ignition refuses overwrite for a file without contents.
func attach(files []ign.File) []ign.File {
	for i := range files {
		f := &files[i]
		if util.NilOrEmpty(f.Contents.Compression) {
			f.Contents.Compression = nil
		}
		if util.NilOrEmpty(f.Contents.Verification.Hash) {
			f.Contents.Verification.Hash = nil
		}
		if f.Overwrite == nil && f.Contents.Source != nil {
			f.Overwrite = util.BoolToPtr(true)
		}
	}
	return files
}

// oneOwner lets an owner by number replace an owner by name, and an owner by name replace one by number. Merge would
// keep both, and Ignition refuses an owner with both.
func oneOwner(merged, child ign.Storage) {
	set := map[string]ign.Node{}
	for _, n := range child.Files {
		set[n.Path] = n.Node
	}
	for _, n := range child.Directories {
		set[n.Path] = n.Node
	}
	for _, n := range child.Links {
		set[n.Path] = n.Node
	}
	for i := range merged.Files {
		ownerOf(&merged.Files[i].Node, set)
	}
	for i := range merged.Directories {
		ownerOf(&merged.Directories[i].Node, set)
	}
	for i := range merged.Links {
		ownerOf(&merged.Links[i].Node, set)
	}
}

func ownerOf(n *ign.Node, set map[string]ign.Node) {
	child := set[n.Path]
	n.User.ID, n.User.Name = later(n.User.ID, n.User.Name, child.User.ID, child.User.Name)
	n.Group.ID, n.Group.Name = later(n.Group.ID, n.Group.Name, child.Group.ID, child.Group.Name)
}

func later(id *int, name *string, childID *int, childName *string) (*int, *string) {
	switch {
	case childID != nil && childName == nil:
		return id, nil
	case childName != nil && childID == nil:
		return nil, name
	}
	return id, name
}

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
