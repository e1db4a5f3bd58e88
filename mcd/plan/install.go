package plan

import (
	"path"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// ownerOf is the unit whose file or drop-in is at a path of the administrator's; "" for other paths.
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

// unitFiles are the paths of a config that are units' files and drop-ins, by unit.
func unitFiles(into map[string][]string, w Wanted) {
	for p := range w.Paths {
		if owner := ownerOf(p); owner != "" {
			into[owner] = append(into[owner], p)
		}
	}
}

// counted is a unit with what its files will say in [Install].
func (t *target) counted(name string) host.Unit {
	u, known := t.units[name]
	if !known {
		u = t.seen.Units[name].Counting(name, sectionsOf(t, name))
		t.units[name] = u
	}
	return u
}

// install is what the [Install] sections of a unit will say.
func (t *target) install(name string) string { return t.counted(name).Install }

// sectionsOf are those of a unit's files on the machine, with what the way between the configs does to them.
func sectionsOf(t *target, name string) host.Sections {
	u := t.seen.Units[name]
	s := u.Sections()
	if s == nil {
		s = host.Sections{}
		if u.Vendor != "" {
			s[host.UnitDirs[len(host.UnitDirs)-1]+"/"+name] = u.Vendor
		}
		for _, owner := range host.Owners(name) {
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
	for _, owner := range host.Owners(name) {
		says(t, s, UnitPath(owner))
		for _, p := range t.files[owner] {
			says(t, s, p)
		}
	}
	return s
}

// says puts what will be at a path among a unit's sections. Of what nobody has read, it is what it was.
func says(t *target, s host.Sections, p string) {
	is := t.Paths[p]
	contents, known := t.to.Contents[is.Digest]
	if !known {
		contents, known = t.Contents[is.Digest]
	}
	empty := is.Kind == host.File && is.Digest == host.DigestOf(nil) || is.Kind == host.Link && is.Target == "/dev/null"
	switch {
	case is.Kind == host.Absent:
		delete(s, p)
	case empty && path.Dir(p) == host.UnitDir:
		s[p] = host.Masked
	case empty:
		s[p] = ""
	case is.Kind == host.File && known:
		s[p] = host.Says(contents)
	case s[p] == host.Masked:
		s[p] = ""
	}
}
