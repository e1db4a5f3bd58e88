package plan

import (
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// ownerOf returns the unit of a unit file or drop-in below host.UnitDir; "" for other paths.
func ownerOf(p string) string {
	name, ok := strings.CutPrefix(p, host.UnitDir+"/")
	if !ok {
		return ""
	}
	dir, dropin, ok := strings.Cut(name, "/")
	if !ok {
		return name
	}
	owner, ok := strings.CutSuffix(dir, ".d")
	if !ok || path.Ext(dropin) != ".conf" || strings.Contains(dropin, "/") {
		return ""
	}
	return owner
}

// linkedFile returns the place to which the file or a drop-in of a unit leads, if it is a link among these paths of a
// config; "" for a mask and for a link to a unit of another name.
func linkedFile(w Desired, paths map[string]host.Entry, p string) string {
	e, owner := paths[p], ownerOf(p)
	if e.Kind != host.Link || owner == "" || host.IsMask(p, e) {
		return ""
	}
	to := host.LinkTarget(p, e.Target)
	if path.Dir(p) == host.UnitDir && path.Base(to) != owner {
		return ""
	}
	for range host.MaxLinks {
		to = w.At(to)
		if e = paths[to]; e.Kind != host.Link {
			break
		}
		to = host.LinkTarget(to, e.Target)
	}
	return to
}

// unitFiles adds the unit files and drop-ins of a config, by unit.
func unitFiles(into map[string][]string, w Desired) {
	for p := range w.Paths {
		if owner := ownerOf(p); owner != "" {
			into[owner] = append(into[owner], p)
		}
	}
}

// unitAfter returns a unit with the [Install] section of its files after the update.
func (t *target) unitAfter(name string) host.Unit {
	u, known := t.units[name]
	if !known {
		u = t.seen.Units[name].WithSections(name, t.sectionsOf(name))
		o := t.seen.Units[name].Obstacle
		switch to := t.aliasOf(name); {
		case t.hasSameFile(name):
			_, known := t.contentsAt(UnitPath(name))
			if o.Why == host.UnitAlias || o.Why == host.UnitMissing && !known ||
				o.Why == host.UnitMasked && t.Paths[o.At] == t.seen.Paths[o.At] {
				u.Obstacle = o // Only the machine knows where a link leads.
			}
		case to != "":
			u.Obstacle, u.Install = host.Obstacle{Why: host.UnitAlias, At: to}, ""
		}
		t.units[name] = u
	}
	return u
}

// hasSameFile reports whether the update leaves a unit's file in the administrator's directory as it is.
func (t *target) hasSameFile(name string) bool {
	return !slices.ContainsFunc(host.FileNames(name), func(owner string) bool {
		at := UnitPath(owner)
		return t.Paths[at] != t.seen.Paths[at]
	})
}

// aliasOf returns where the file of a unit leads after the update, if it is a link to a unit of another name; "" for
// another file.
func (t *target) aliasOf(name string) string {
	at := UnitPath(name)
	is := t.Paths[at]
	to := host.LinkTarget(at, is.Target)
	if is.Kind != host.Link || path.Base(to) == path.Base(at) || to == "/dev/null" {
		return ""
	}
	return to
}

// install returns the [Install] section of a unit after the update.
func (t *target) install(name string) string { return t.unitAfter(name).Install }

// sectionsOf returns the [Install] sections of a unit's files after the update.
func (t *target) sectionsOf(name string) host.Sections {
	u := t.seen.Units[name]
	s := u.Sections()
	if s == nil {
		s = host.Sections{}
		if u.Vendor != "" {
			s[host.UnitDirs[len(host.UnitDirs)-1]+"/"+name] = u.Vendor
		}
		for _, owner := range host.FileNames(name) {
			if t.seen.Paths[UnitPath(owner)].Kind != host.Absent {
				s[UnitPath(owner)] = u.Install
				break
			}
		}
	}
	if t.files == nil {
		t.files = map[string][]string{}
		unitFiles(t.files, t.from)
		unitFiles(t.files, t.to)
	}
	for _, owner := range host.FileNames(name) {
		t.addSection(s, UnitPath(owner))
		for _, p := range t.files[owner] {
			t.addSection(s, p)
		}
	}
	return s
}

// contentsAt returns the contents of a unit's file or drop-in after the update, behind a link too. known is false for
// contents that only the machine knows.
func (t *target) contentsAt(p string) (contents []byte, known bool) {
	is := t.Paths[p]
	if to := linkedFile(t.to, t.Paths, p); to != "" {
		is = t.Paths[to]
	}
	if is.Kind != host.File {
		return nil, false
	}
	for _, all := range []map[host.Digest][]byte{t.to.Contents, t.Contents} {
		if contents, known := all[is.Digest]; known {
			return contents, true
		}
	}
	return nil, is.Digest == host.DigestOf(nil)
}

// addSection sets the section of a path as it will be after the update. The section of a file with unknown contents
// stays.
func (t *target) addSection(s host.Sections, p string) {
	is := t.Paths[p]
	contents, known := t.contentsAt(p)
	empty := host.IsMask(p, is)
	switch {
	case is.Kind == host.Absent:
		delete(s, p)
	case empty && path.Dir(p) == host.UnitDir:
		if s[p] != host.ShippedMask || is != t.seen.Paths[p] {
			s[p] = host.Masked
		}
	case empty:
		s[p] = ""
	case known:
		s[p] = host.SectionLines(contents)
	case (s[p] == host.Masked || s[p] == host.ShippedMask) && is != t.seen.Paths[p]:
		s[p] = ""
	}
}
