package systemd

import (
	"path"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// Blockers implements host.Units.
func (e Enablement) Blockers(steps []host.Step, install map[string]string) (found []host.Blocker, links []host.Step) {
	after := map[string]host.Entry{}
	for _, s := range steps {
		if s.IsPath() {
			after[s.Target] = s.After.Entry
		}
	}
	for _, s := range steps {
		switch s.Verb {
		case host.Enable:
			if section, known := install[s.Target]; known {
				blockers, made := e.linkBlockers(s.Target, section, after)
				found, links = append(found, blockers...), append(links, made...)
			}
		case host.Disable:
			gone, _ := e.pulledIn(s.Target) // The step itself reports the error.
			for _, at := range gone {
				is, _ := e.root.Stat(at)
				links = append(links, host.Step{Verb: host.Remove, Target: at, Before: host.Value{Entry: is}})
			}
		case host.Reload, host.Restart:
			if b := e.maskBlocker(s, s.Target, after, host.MaxLinks); b.Kind != "" {
				found = append(found, b)
			}
		}
	}
	return found, links
}

// linkBlockers returns what would stop a unit with an [Install] section from being enabled, and the links that are
// missing. Steps that change paths end with what after has.
func (e Enablement) linkBlockers(name, install string, after map[string]host.Entry) (found []host.Blocker,
	links []host.Step,
) {
	file, err := e.find(name)
	if err != nil {
		return nil, nil // The step itself reports the error.
	}
	own := path.Base(file.path)
	if file.path == "" || file.masked { // An earlier step writes the file.
		own = host.FileNames(name)[len(host.FileNames(name))-1]
		if _, written := after[path.Join(host.UnitDir, name)]; written {
			own = name
		}
		file.name = name
	}
	places, err := installLinks(instantiate(file.name, install), install)
	if err != nil {
		return []host.Blocker{{
			Kind: host.WrongInstall, Path: path.Join(host.UnitDir, name), Unit: name, Text: err.Error(),
		}}, nil
	}
	for _, at := range places {
		is, changed := after[at]
		if !changed {
			is, _ = e.root.Stat(at)
		}
		what := ""
		switch {
		case is.Kind == host.Absent:
			link := host.Value{Entry: host.Entry{Kind: host.Link, Target: file.path}}
			links = append(links, host.Step{Verb: host.MakeLink, Target: at, After: link})
			at, what = e.noDirectory(path.Dir(at), after)
		case is.Kind != host.Link:
			what = host.KindText(is.Kind)
		case path.Base(is.Target) != own:
			what = "a link to " + is.Target
		}
		if what != "" {
			found = append(found, host.Blocker{Kind: host.LinkTaken, Path: at, At: at, Unit: name, Text: what})
		}
	}
	return found, links
}

// noDirectory returns what is at the path of a directory and is none; "" if a directory is or can be there.
func (e Enablement) noDirectory(dir string, after map[string]host.Entry) (at, what string) {
	is, changed := after[dir]
	if !changed {
		is, _ = e.root.Stat(dir)
	}
	switch is.Kind {
	case host.Absent, host.Dir:
		return dir, ""
	case host.Link:
		if _, err := e.root.List(dir); err == nil && e.leadsToDir(dir) {
			return dir, ""
		}
		return dir, "a link that leads to no directory"
	}
	return dir, host.KindText(is.Kind)
}

// leadsToDir reports whether a link leads to a directory.
func (e Enablement) leadsToDir(p string) bool {
	for range host.MaxLinks {
		is, err := e.root.Stat(p)
		if err != nil || is.Kind != host.Link {
			return err == nil && is.Kind == host.Dir
		}
		p = host.LinkTarget(p, is.Target)
	}
	return false
}

// maskBlocker returns the mask of the unit of a step that reloads or restarts it; the zero value if there is none then.
// The unit has the given name, or that is the name to which an alias leads over at most so many links.
func (e Enablement) maskBlocker(s host.Step, unit string, after map[string]host.Entry, links int) host.Blocker {
	b := host.Blocker{Kind: host.MaskedUnit, Unit: s.Target, Text: string(s.Verb)}
	for _, name := range host.FileNames(unit) {
		for _, dir := range host.UnitDirs {
			at := path.Join(dir, name)
			is, changed := after[at]
			if !changed {
				is, _ = e.root.Stat(at) // The step itself reports the error.
			}
			to := host.LinkTarget(at, is.Target)
			switch {
			case is.Kind == host.Absent:
				continue
			case host.IsMask(at, is):
				if b.Path = at; !changed {
					b.At, b.Shipped = at, e.isShipped(at)
				}
				return b
			case is.Kind == host.Link && isAlias(at, to) && links > 0:
				return e.maskBlocker(s, withInstance(path.Base(to), unit), after, links-1)
			}
			file, err := e.at(at, name)
			if err == nil && !changed && file.path == "" {
				continue
			}
			if err != nil || changed || !file.masked {
				return host.Blocker{}
			}
			b.Path, b.At, b.Shipped = at, at, e.isShipped(at)
			return b
		}
	}
	return host.Blocker{}
}
