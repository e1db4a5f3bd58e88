package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// Enablement enables and disables units by their symlinks. They are those that systemctl makes, which test/lab/host tries
// side by side; made here, they are written as all files are, so that a crash between two of them is undone, and they can
// be made on a machine that does not run. What differs is meant:
//
//   - the units of Also lines have steps of their own;
//   - a section with a mistake makes no link at all, where systemctl makes those of the other lines and fails then;
//   - disabling a template disables its default instance, not every instance: those are units with an entry of their own;
//   - disabling leaves the unit file where it is, also where that is a link to somewhere else;
//   - a specifier that depends on the machine is an error;
//   - UpheldBy makes its link whether this systemd knows it or not.
type Enablement struct{ root *Root }

// unitFile is what was found for a unit's name.
type unitFile struct {
	// path of the file, "" for none.
	path string
	// name is the unit's own, where the one that was asked for is an alias.
	name string
	// contents of the file.
	contents []byte
	// masked by a link to /dev/null, or by an empty file.
	masked bool
	// foreign: a link in the administrator's directory to a unit of another name.
	foreign bool
}

// find looks for a unit's file, or its template's.
func (e Enablement) find(name string) (unitFile, error) {
	for _, n := range host.Owners(name) {
		for _, dir := range host.UnitDirs {
			file, err := e.at(dir+"/"+n, name)
			if err != nil || file.path != "" {
				return file, err
			}
		}
	}
	return unitFile{name: name}, nil
}

// at reads the unit's file at a path, through links; none is the zero file.
func (e Enablement) at(p, name string) (unitFile, error) {
	from := p
	for range maxHops {
		is, err := e.root.Stat(p)
		if err != nil || is.Kind == host.File && is.Digest == host.DigestOf(nil) || is.Kind == host.Link && is.Target == "/dev/null" {
			return unitFile{path: from, name: name, masked: true}, err
		}
		switch is.Kind {
		case host.Link:
			p = linkedTo(p, is.Target)
		case host.File:
			contents, err := e.root.Read(p)
			file := unitFile{path: p, name: name, contents: contents}
			if own := path.Base(p); own != path.Base(from) {
				file.foreign = path.Dir(from) == host.UnitDir
				file.name = own
				if _, instance := host.TemplateOf(name); instance != "" {
					file.name = strings.Replace(own, "@.", "@"+instance+".", 1)
				}
			}
			return file, err
		default:
			return unitFile{}, nil
		}
	}
	return unitFile{}, nil
}

// linkedTo is where a link at a path leads.
func linkedTo(at, target string) string {
	if path.IsAbs(target) {
		return path.Clean(target)
	}
	return path.Join(path.Dir(at), target)
}

// Status implements host.Units.
func (e Enablement) Status(_ context.Context, name string) (host.Unit, error) {
	parts, err := e.sections(name)
	if err != nil {
		return host.Unit{}, err
	}
	on, err := e.enabled(name, nil)
	if err != nil {
		return host.Unit{}, err
	}
	preset, err := e.preset(name)
	return host.Unit{Enabled: on, Preset: preset}.Counting(name, parts), err
}

// install is what the unit's file and its drop-ins say.
func (e Enablement) install(name string) (string, error) {
	parts, err := e.sections(name)
	return host.Unit{}.Counting(name, parts).Install, err
}

// sections reads the unit's files: of each, the administrator's and the one that counts without it. An alias has the
// drop-ins of its unit.
func (e Enablement) sections(name string) (host.Sections, error) {
	s := host.Sections{}
	file, err := e.find(name)
	if err != nil {
		return nil, err
	}
	real := host.Owners(file.name)
	for i, owner := range host.Owners(name) {
		below, dropins := false, map[string]bool{}
		for _, dir := range host.UnitDirs {
			if below {
				break
			}
			is, err := e.at(dir+"/"+owner, name)
			switch {
			case err != nil:
				return nil, err
			case is.masked:
				s[dir+"/"+owner] = host.Masked
			case is.path != "":
				s[dir+"/"+owner] = host.Says(is.contents)
			}
			below = is.path != "" && dir != host.UnitDir
		}
		for _, dir := range host.UnitDirs {
			if err := e.dropins(s, dir+"/"+owner+".d", dir+"/"+real[min(i, len(real)-1)]+".d", dropins); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// dropins reads those in a directory that none in a stronger one below the administrator's hides.
func (e Enablement) dropins(s host.Sections, as, dir string, hidden map[string]bool) error {
	names, err := e.root.list(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if path.Ext(n) != ".conf" || hidden[n] {
			continue
		}
		is, err := e.at(dir+"/"+n, n)
		if err != nil {
			return err
		}
		s[as+"/"+n] = host.Says(is.contents)
		hidden[n] = path.Dir(dir) != host.UnitDir
	}
	return nil
}

// enabled tells whether a symlink pulls the unit in. One that has nothing but Also lines is enabled when all of those are.
func (e Enablement) enabled(name string, asked []string) (bool, error) {
	found, err := e.pulledIn(name)
	if err != nil || len(found) > 0 {
		return len(found) > 0, err
	}
	install, err := e.install(name)
	also := host.AlsoOf(install)
	links, wrong := installLinks(name, install)
	if err != nil || len(also) == 0 || len(links) > 0 || wrong != nil || slices.Contains(asked, name) {
		return false, err
	}
	for _, other := range also {
		if on, err := e.enabled(other, append(asked, name)); err != nil || !on {
			return false, err
		}
	}
	return true, nil
}

// preset reads the machine's preset files.
func (e Enablement) preset(name string) (bool, error) {
	from := map[string]string{}
	for _, dir := range slices.Backward(host.PresetDirs) {
		names, err := e.root.list(dir)
		if err != nil {
			return false, fmt.Errorf("reading presets: %w", err)
		}
		for _, n := range names {
			if path.Ext(n) == ".preset" {
				from[n] = dir
			}
		}
	}
	var files [][]byte
	for _, n := range sortedKeys(from) {
		text, err := e.root.Read(from[n] + "/" + n)
		if err != nil {
			return false, fmt.Errorf("reading presets: %w", err)
		}
		files = append(files, text)
	}
	return host.Preset(files, name), nil
}

// pulledIn lists the symlinks that pull a unit in: <target>.wants/<unit> and the like, and aliases of it. A template is
// pulled in by its default instance.
func (e Enablement) pulledIn(name string) ([]string, error) {
	file, err := e.find(name)
	if err != nil {
		return nil, err
	}
	install, err := e.install(name)
	if err != nil {
		return nil, err
	}
	name = file.name
	found, err := e.linksOf(name)
	if instance := instantiate(name, install); err == nil && instance != name {
		var more []string
		more, err = e.linksOf(instance)
		found = append(found, more...)
	}
	return found, err
}

// linksOf lists the symlinks that pull in exactly the unit of this name.
func (e Enablement) linksOf(name string) ([]string, error) {
	names, err := e.root.list(host.UnitDir)
	if err != nil {
		return nil, err
	}
	var places []string
	for _, n := range names {
		at := host.UnitDir + "/" + n
		if !slices.Contains([]string{".wants", ".requires", ".upholds"}, path.Ext(n)) {
			places = append(places, at)
			continue
		}
		below, err := e.root.list(at)
		if err != nil {
			return nil, err
		}
		for _, b := range below {
			places = append(places, at+"/"+b)
		}
	}
	var found []string
	for _, at := range places {
		ours, err := e.pulls(at, name)
		if err != nil {
			return nil, err
		}
		if ours {
			found = append(found, at)
		}
	}
	return found, nil
}

// pulls tells whether what is at a path is a link that pulls a unit in, or an alias of it. The unit's own name in the
// directory of unit files is no alias of it, even when its file is a link.
func (e Enablement) pulls(at, name string) (bool, error) {
	below := path.Dir(at) != host.UnitDir
	if !below && path.Base(at) == name {
		return false, nil
	}
	is, err := e.root.Stat(at)
	if err != nil || is.Kind != host.Link {
		return false, err
	}
	to := path.Base(is.Target)
	if to == name && (!isBare(name) || isBare(path.Base(at))) || below && path.Base(at) == name {
		return true, nil
	}
	template, instance := host.TemplateOf(name)
	_, other := host.TemplateOf(path.Base(at))
	return !below && template != "" && to == template && other == instance, nil
}

// Enable implements host.Units.
func (e Enablement) Enable(_ context.Context, name string) error {
	file, err := e.find(name)
	if err != nil {
		return err
	}
	install, err := e.install(name)
	switch {
	case err != nil:
		return err
	case file.path == "":
		return fmt.Errorf("unit %s: %w", name, fs.ErrNotExist)
	case file.masked:
		return fmt.Errorf("unit %s is masked", name)
	case file.foreign:
		return fmt.Errorf("unit %s is a link to %s: enable that one", name, file.path)
	case install == "":
		return fmt.Errorf("unit %s has no [Install] section, so nothing can pull it in", name)
	}
	links, err := installLinks(instantiate(file.name, install), install)
	for _, at := range links {
		err = errors.Join(err, e.mayLink(at, file.path))
	}
	if err != nil {
		return fmt.Errorf("enabling %s: %w", name, err)
	}
	for _, at := range links {
		if err := e.link(at, file.path); err != nil {
			return fmt.Errorf("enabling %s: %w", name, err)
		}
	}
	return nil
}

// mayLink refuses a place where there is something else than a link to this unit.
func (e Enablement) mayLink(at, file string) error {
	is, err := e.root.Stat(at)
	if err == nil && is.Kind != host.Absent && (is.Kind != host.Link || path.Base(is.Target) != path.Base(file)) {
		err = fmt.Errorf("%s is in the way, which is not a link to this unit: move it away, or take its name out of [Install]", at)
	}
	return err
}

// link makes the symlink, unless there is one that leads to the file already.
func (e Enablement) link(at, file string) error {
	is, err := e.root.Stat(at)
	if err != nil {
		return err
	}
	if to := linkedTo(at, is.Target); is.Kind == host.Link && (to == file || slices.Contains(host.UnitDirs, path.Dir(to))) {
		return nil // relative, or to another place of unit files: systemd looks at the name alone
	}
	if err := e.root.mkdirs(path.Dir(at)); err != nil {
		return err
	}
	return e.root.Link(at, host.Entry{Target: file})
}

// Disable implements host.Units. Directories that become empty by it go too.
func (e Enablement) Disable(_ context.Context, name string) error {
	links, err := e.pulledIn(name)
	if err != nil {
		return err
	}
	for _, at := range links {
		if err := e.root.Remove(at); err != nil {
			return err
		}
		if dir := path.Dir(at); dir != host.UnitDir {
			if left, err := e.root.list(dir); err == nil && len(left) == 0 {
				if err := e.root.Remove(dir); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
