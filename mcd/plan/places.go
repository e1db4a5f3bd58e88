package plan

import (
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/internal/disruption"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// Place returns the transition with every path at its place on the machine: its directory without links. Two spellings
// of one place, such as /opt/x and /var/opt/x where /opt is a link to var/opt, are then one path of both configs. The
// old config is placed by the links of the machine as it is, the new config by the links that the machine will have
// after the update. The old config has its SSH keys where the machine has them, as KeysInForce says. The function look
// returns the entry at a path, and follows links above it. An error is an error of look.
//
// A path that leads through a link which a user could exchange keeps its spelling: the host judges the link each time
// it opens the path. If the new config names one place twice, Refusals has the second name, because the second one
// would overwrite the first.
func (w Transition) Place(look func(p string) (host.Entry, error)) (Transition, error) {
	m := placer{look: look, seen: map[string]host.Entry{}}
	w.Old = m.keysInForce(w.Old)
	if w.From == "" {
		w.Old = m.ownIgnitionKeys(w.Old, w.New)
	}
	w.Old = m.place(w.Old)
	spelled := w.New
	// A link of the new config may stand below another one, so that its place is known only after the other's. Each
	// round settles at least one link.
	for range 2 + len(linksIn(spelled)) {
		w.New = m.place(spelled)
		after := m.after(w.Old, w.New)
		if maps.Equal(after, m.changed) {
			break
		}
		m.changed = after
	}
	w.New.Replaces = m.replaced(w.New)
	named := map[string]string{}
	for _, p := range slices.Sorted(maps.Keys(spelled.Paths)) {
		at, end := m.follow(p)
		if end == circle {
			w.Refusals = append(w.Refusals,
				disruption.OnNode(disruption.CheckPaths, p, "links above this path lead to each "+
					"other in a circle, on this node or in this config: correct one of them"))
		}
		if other, twice := named[at]; twice {
			w.Refusals = append(w.Refusals, refuseSecondName(p, other))
		}
		named[at] = p
	}
	return w, m.err
}

// replaced returns the links of the machine above the paths of a placed config that are none after the update.
func (m *placer) replaced(s Desired) map[string]bool {
	links := map[string]bool{}
	for p := range s.Paths {
		for dir := range disruption.Parents(p) {
			if m.isReplaced(dir) {
				links[dir] = true
			}
		}
	}
	return links
}

// isReplaced reports whether a path is a link of the machine, and will be none after the update.
func (m *placer) isReplaced(at string) bool {
	e, changes := m.changed[at]
	return changes && e.Kind != host.Link && m.now(at).Kind == host.Link
}

func linksIn(s Desired) (links []string) {
	for p, e := range s.Paths {
		if e.Kind == host.Link {
			links = append(links, p)
		}
	}
	return links
}

// placer finds the places of paths on a machine.
type placer struct {
	look func(p string) (host.Entry, error)
	// seen has what look returned, and err its first error. The entry of an unsafe path is Unsafe.
	seen map[string]host.Entry
	err  error
	// changed are the entries of the paths of both configs after the update, by place; only kinds and targets. A path
	// that goes may become a directory that holds others, so its kind tells only that it is no link.
	changed map[string]host.Entry
}

// now returns the entry at a path of the machine as it is.
func (m *placer) now(p string) host.Entry {
	if e, known := m.seen[p]; known {
		return e
	}
	e, err := m.look(p)
	if errors.As(err, new(*host.UnsafePathError)) {
		e = host.Entry{Kind: host.Unsafe}
	} else if err != nil && m.err == nil {
		m.err = err
	}
	m.seen[p] = e
	return e
}

// place returns a config with its paths at their places.
func (m *placer) place(s Desired) Desired {
	s.Places = map[string]string{}
	leads := false // A hard link leads to a path at another place.
	for p, e := range s.Paths {
		if at := m.resolve(p); at != p {
			s.Places[p] = at
		}
		leads = leads || e.Kind == host.Hard && m.resolve(e.Target) != e.Target
	}
	for _, k := range s.Keys {
		if at := m.resolve(k.Other); at != k.Other {
			s.Places[k.Other] = at
		}
	}
	for _, u := range s.Users {
		if home := u.Account.Home; home != "" && m.resolve(home) != home {
			s.Places[home] = m.resolve(home)
		}
	}
	if len(s.Places) == 0 && !leads {
		return s
	}
	parents := map[string]host.Entry{}
	for p, e := range s.Parents {
		parents[path.Dir(m.resolve(path.Join(p, "x")))] = e
	}
	s.Parents, s.Paths, s.Unset = parents, placed(s, s.Paths), placed(s, s.Unset)
	s.NoOverwrite, s.Appends = placed(s, s.NoOverwrite), placed(s, s.Appends)
	for p, e := range s.Paths {
		if e.Kind == host.Hard {
			e.Target = m.resolve(e.Target)
			s.Paths[p] = e
		}
	}
	return s
}

// placed returns a map of paths with the places of a config as keys.
func placed[V any](s Desired, of map[string]V) map[string]V {
	out := make(map[string]V, len(of))
	for p, v := range of {
		out[s.At(p)] = v
	}
	return out
}

// after returns the entries of two placed configs after the update from one to the other. It does not look at the paths
// themselves, because that reads whole files.
func (m *placer) after(from, to Desired) map[string]host.Entry {
	changed := make(map[string]host.Entry, len(to.Paths))
	for p := range from.Paths {
		if _, kept := to.Paths[p]; !kept {
			is := m.original(p)
			changed[p] = host.Entry{Kind: is.Kind, Target: is.Target}
		}
	}
	for p, e := range to.Paths {
		changed[p] = host.Entry{Kind: e.Kind, Target: e.Target}
	}
	return changed
}

// original returns what was at a path before any config, or what the image has there.
func (m *placer) original(p string) host.Entry {
	if is := m.now(origPath(p)); is.Kind != host.Absent {
		return is
	}
	if image := imagePath(p); image != "" && m.now(noOrigPath(p)).Kind == host.Absent &&
		m.now(host.ImageMark).Kind != host.Absent {
		return m.now(image)
	}
	return host.Entry{}
}

// resolve returns the place of a path, or the path itself if follow finds none.
func (m *placer) resolve(p string) string {
	at, _ := m.follow(p)
	return at
}

// The ends of follow.
const (
	found = iota
	unsafe
	circle
)

// follow returns the place of a path: its directory without links, and its last name. A path below the directory of
// units keeps its spelling, because a unit has one path.
func (m *placer) follow(p string) (at string, end int) {
	if below(p, host.UnitDir) {
		return p, found
	}
	at = "/"
	rest, links := strings.Split(p[1:], "/"), 0
	for len(rest) > 1 {
		next := path.Join(at, rest[0])
		rest = rest[1:]
		e, changes := m.changed[next]
		if !changes {
			e = m.below(next)
		}
		switch {
		case e.Kind != host.Link && e.Kind != host.Unsafe:
			at = next
			continue
		case e.Kind == host.Unsafe || !changes && !m.isRoots(next):
			return p, unsafe
		case links == host.MaxLinks:
			return p, circle
		}
		links++
		rest = append(strings.Split(strings.Trim(e.Target, "/"), "/"), rest...)
		if path.IsAbs(e.Target) {
			at = "/"
		}
	}
	return path.Join(at, rest[0]), found
}

// isRoots reports whether only root can change the entry at a path, and the directories above it.
func (m *placer) isRoots(p string) bool {
	if m.now(p).Owner.UID != 0 {
		return false
	}
	for dir := range disruption.Parents(p) {
		if is := m.now(dir); is.Owner.UID != 0 || is.Mode&0o022 != 0 {
			return false
		}
	}
	return true
}

// below returns the entry of the machine at a place whose directories are real after the update. Nothing is there
// today if one of them is a link today.
func (m *placer) below(at string) host.Entry {
	for dir := range disruption.Parents(at) {
		if m.isReplaced(dir) {
			return host.Entry{}
		}
	}
	return m.now(at)
}
