package systemd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
)

// Enablement enables and disables units by their symlinks. Enablement creates the same symlinks as systemctl;
// test/lab/host compares the symlinks of Enablement and systemctl. Enablement writes symlinks like all files, so that
// they can be rolled back after a crash, and on a machine that is not running. These differences from systemctl are
// intended:
//
//   - units that Also names have their own steps;
//   - for a section with an error, it creates no links; systemctl creates those of the other lines and then fails;
//   - disabling a template disables only its default instance, because other instances have their own entries;
//   - disabling removes neither the unit file, even if the file is a link to another directory, nor directories;
//   - a specifier that depends on the machine is an error;
//   - UpheldBy creates its link even if this version of systemd does not support it.
type Enablement struct{ root *files.Root }

// NewEnablement returns the Enablement of a machine.
func NewEnablement(root *files.Root) Enablement { return Enablement{root} }

// unitFile is the file of a unit.
type unitFile struct {
	// path is the path of the file; "" if there is none.
	path string
	// name is the name of the unit itself, if the requested name is an alias.
	name string
	// contents of the file.
	contents []byte
	// masked is true for a link to /dev/null or an empty file.
	masked bool
	// foreign is true for a link in the administrator's directory to a unit of another name.
	foreign bool
}

// find finds the file of a unit, or of its template.
func (e Enablement) find(name string) (unitFile, error) {
	for _, n := range host.FileNames(name) {
		for _, dir := range host.UnitDirs {
			file, err := e.at(dir+"/"+n, name)
			if err != nil || file.path != "" {
				return file, err
			}
		}
	}
	return unitFile{name: name}, nil
}

// at reads a unit file at a path and follows links. at returns the zero value if there is no file.
func (e Enablement) at(p, name string) (unitFile, error) { return e.follow(p, name, host.MaxLinks) }

// follow reads a unit file over at most so many links. As systemd does, it looks for the unit to which an alias leads
// by its name, and not where the link points: the administrator may have masked or replaced that unit.
func (e Enablement) follow(p, name string, links int) (unitFile, error) {
	from := p
	for ; links > 0; links-- {
		is, err := e.root.Stat(p)
		if err != nil || host.IsMask(p, is) {
			return unitFile{path: from, name: name, masked: true}, err
		}
		switch is.Kind {
		case host.Link:
			if p = host.LinkTarget(p, is.Target); isAlias(from, p) {
				return e.aliased(from, path.Base(p), name, links-1)
			}
		case host.File:
			contents, err := e.root.Read(p)
			file := unitFile{path: p, name: name, contents: contents}
			if own := path.Base(p); own != path.Base(from) {
				file.foreign, file.name = path.Dir(from) == host.UnitDir, withInstance(own, name)
			}
			return file, err
		default:
			return unitFile{}, nil
		}
	}
	return unitFile{}, nil
}

// isAlias reports whether a link at the path of a unit file leads to a unit of another name.
func isAlias(from, to string) bool {
	return slices.Contains(host.UnitDirs, path.Dir(from)) && slices.Contains(host.UnitDirs, path.Dir(to)) &&
		path.Base(from) != path.Base(to)
}

// aliased reads the file of the unit to which an alias leads.
func (e Enablement) aliased(from, to, name string, links int) (unitFile, error) {
	real := withInstance(to, name)
	for _, n := range host.FileNames(real) {
		for _, dir := range host.UnitDirs {
			is, err := e.root.Stat(dir + "/" + n)
			if err != nil {
				return unitFile{}, err
			}
			if is.Kind == host.File || is.Kind == host.Link { // The first one counts, so that a circle ends.
				file, err := e.follow(dir+"/"+n, real, links)
				file.foreign = file.path != "" && path.Dir(from) == host.UnitDir
				return file, err
			}
		}
	}
	return unitFile{}, nil
}

// withInstance returns the name of a template with the instance of another unit; a name that is none stays.
func withInstance(template, of string) string {
	if _, instance := host.TemplateOf(of); instance != "" {
		return strings.Replace(template, "@.", "@"+instance+".", 1)
	}
	return template
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
	if err != nil {
		return host.Unit{}, err
	}
	file, err := e.find(name)
	u := host.Unit{Enabled: on, Preset: preset}.WithSections(name, parts)
	if file.name != name {
		u.AliasOf = file.name
	}
	switch {
	case file.masked: // also the mask of the unit to which an alias leads
		u.Obstacle = host.Obstacle{Why: host.UnitMasked, At: file.path, Shipped: e.isShipped(file.path)}
	case file.foreign:
		u.Obstacle = host.Obstacle{Why: host.UnitAlias, At: file.path}
	}
	return u, err
}

// install returns the [Install] section of the unit's file and drop-ins.
func (e Enablement) install(name string) (string, error) {
	parts, err := e.sections(name)
	return host.Unit{}.WithSections(name, parts).Install, err
}

// sections reads the [Install] sections of the unit's files: with the administrator's files, and without them. An alias
// has the drop-ins of its unit.
func (e Enablement) sections(name string) (host.Sections, error) {
	s := host.Sections{}
	file, err := e.find(name)
	if err != nil {
		return nil, err
	}
	real := host.FileNames(file.name)
	for i, owner := range host.FileNames(name) {
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
				if e.isShipped(is.path) {
					s[dir+"/"+owner] = host.ShippedMask
				}
			case is.path != "":
				s[dir+"/"+owner] = host.SectionLines(is.contents)
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

// isShipped reports whether the OS image has the mask at this path as its default of /etc.
func (e Enablement) isShipped(mask string) bool {
	if path.Dir(mask) != host.UnitDir {
		return false
	}
	mark, err := e.root.Stat(host.ImageMark)
	if err != nil || mark.Kind == host.Absent {
		return false
	}
	is, err := e.at("/usr"+mask, path.Base(mask))
	return err == nil && is.masked
}

// dropins reads the drop-ins in a directory. dropins skips drop-ins that a directory of higher priority, other than the
// administrator's, hides.
func (e Enablement) dropins(s host.Sections, as, dir string, hidden map[string]bool) error {
	names, err := e.root.List(dir)
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
		s[as+"/"+n] = host.SectionLines(is.contents)
		hidden[n] = path.Dir(dir) != host.UnitDir
	}
	return nil
}

// enabled reports whether a symlink enables the unit. Another name of the unit does only if the unit says so with
// Alias=; without this line it is a name, which says nothing about when the unit starts. A unit that only has Also
// lines is enabled if all units that they name are.
func (e Enablement) enabled(name string, asked []string) (bool, error) {
	found, err := e.pulledIn(name)
	if err != nil {
		return false, err
	}
	file, err := e.find(name)
	if err != nil {
		return false, err
	}
	install, err := e.install(name)
	if err != nil {
		return false, err
	}
	links, wrong := installLinks(instantiate(file.name, install), install)
	for _, at := range found {
		if path.Dir(at) != host.UnitDir || slices.Contains(links, at) {
			return true, nil
		}
	}
	also := host.AlsoOf(install)
	if len(also) == 0 || len(links) > 0 || wrong != nil || slices.Contains(asked, name) {
		return false, nil
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
		names, err := e.root.List(dir)
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
	for _, n := range slices.Sorted(maps.Keys(from)) {
		text, err := e.root.Read(from[n] + "/" + n)
		if err != nil {
			return false, fmt.Errorf("reading presets: %w", err)
		}
		files = append(files, text)
	}
	return host.Preset(files, name), nil
}

// pulledIn returns the symlinks that enable a unit, such as <target>.wants/<unit>, and its aliases. For a template,
// these are the symlinks of its default instance.
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

// linksOf returns the symlinks that enable exactly the unit with this name.
func (e Enablement) linksOf(name string) ([]string, error) {
	names, err := e.root.List(host.UnitDir)
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
		below, err := e.root.List(at)
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

// pulls reports whether a path is a link that enables a unit, or an alias of the unit. The unit's own name in the
// directory of unit files is not an alias, even if the file is a link.
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

// mayLink returns an error if a path exists and is not a link to this unit.
func (e Enablement) mayLink(at, file string) error {
	is, err := e.root.Stat(at)
	if err == nil && is.Kind != host.Absent && (is.Kind != host.Link || path.Base(is.Target) != path.Base(file)) {
		err = fmt.Errorf("%s is in the way, which is not a link to this unit: move it away, or take its name out of "+
			"[Install]", at)
	}
	return err
}

// link creates the symlink, unless a link at the path already leads to the file.
func (e Enablement) link(at, file string) error {
	is, err := e.root.Stat(at)
	if err != nil {
		return err
	}
	if to := host.LinkTarget(at, is.Target); is.Kind == host.Link &&
		(to == file || slices.Contains(host.UnitDirs, path.Dir(to))) {
		// A relative link, or a link to another unit directory, is good enough, because systemd only reads the name.
		return nil
	}
	if err := e.root.MkdirAll(path.Dir(at)); err != nil {
		return err
	}
	return e.root.Link(at, host.Entry{Target: file})
}

// Disable implements host.Units. Directories that become empty stay: other steps of the update may need them.
func (e Enablement) Disable(_ context.Context, name string) error {
	links, err := e.pulledIn(name)
	if err != nil {
		return err
	}
	for _, at := range links {
		if err := e.root.Remove(at); err != nil {
			return err
		}
	}
	return nil
}

// SimulatedUnits enables units for real, and prints the services that it would start.
type SimulatedUnits struct {
	Enablement
	// Say is called with one line for each action that a real machine would do.
	Say func(line string)
}

// DaemonReload implements host.Units.
func (u SimulatedUnits) DaemonReload(context.Context) error {
	u.Say("simulated: daemon-reload")
	return nil
}

// Reload implements host.Units.
func (u SimulatedUnits) Reload(_ context.Context, name string) error { return u.act("reload", name) }

// Restart implements host.Units.
func (u SimulatedUnits) Restart(_ context.Context, name string) error { return u.act("restart", name) }

// Stop implements host.Units.
func (u SimulatedUnits) Stop(_ context.Context, name string) error {
	u.Say("simulated: stop " + name)
	return nil
}

// act calls Say, even for a service without a unit file: a simulated host has no packages, so most unit files do not
// exist.
func (u SimulatedUnits) act(verb, name string) error {
	file, err := u.find(name)
	if err != nil {
		return err
	}
	if file.masked {
		return fmt.Errorf("unit %s is masked", name)
	}
	u.Say("simulated: " + verb + " " + name)
	return nil
}
