package linux

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// unitDirs are where unit files live, the strongest first.
var unitDirs = []string{host.UnitDir, "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}

// Enablement enables and disables units by their symlinks, as systemctl does for a machine that is not running.
type Enablement struct{ root *Root }

// unitFile is what was found for a unit's name.
type unitFile struct {
	// path of the file, "" for none.
	path string
	// install is host.InstallOf it.
	install string
	// masked by a link to /dev/null.
	masked bool
}

// find looks for a unit's file, or its template's, in some directories.
func (e Enablement) find(name string, dirs ...string) (unitFile, error) {
	names := []string{name}
	if template, _ := host.TemplateOf(name); template != "" {
		names = append(names, template)
	}
	for _, n := range names {
		for _, dir := range dirs {
			at := dir + "/" + n
			is, err := e.root.Stat(at)
			if err != nil {
				return unitFile{}, err
			}
			if is.Kind == host.Link && is.Target == "/dev/null" {
				return unitFile{path: at, masked: true}, nil
			}
			if is.Kind == host.Link {
				at = path.Join(dir, is.Target)
				if path.IsAbs(is.Target) {
					at = path.Clean(is.Target)
				}
				if is, err = e.root.Stat(at); err != nil {
					return unitFile{}, err
				}
			}
			if is.Kind != host.File {
				continue
			}
			contents, err := e.root.Read(at)
			if err != nil {
				return unitFile{}, err
			}
			return unitFile{path: at, install: host.InstallOf(contents)}, nil
		}
	}
	return unitFile{}, nil
}

// Status implements host.Units.
func (e Enablement) Status(_ context.Context, name string) (host.Unit, error) {
	file, err := e.find(name, unitDirs...)
	if err != nil {
		return host.Unit{}, err
	}
	vendor, err := e.find(name, unitDirs[1:]...)
	if err != nil {
		return host.Unit{}, err
	}
	pulled, err := e.pulledIn(name)
	if err != nil {
		return host.Unit{}, err
	}
	preset, err := e.preset(name)
	return host.Unit{Enabled: len(pulled) > 0, Install: file.install, Vendor: vendor.install, Preset: preset}, err
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
	found, err := e.linksOf(name)
	if err != nil || !strings.Contains(name, "@.") {
		return found, err
	}
	file, err := e.find(name, unitDirs...)
	if err != nil {
		return nil, err
	}
	instance := instantiate(name, strings.Split(file.install, "\n"))
	if instance == name {
		return found, nil
	}
	more, err := e.linksOf(instance)
	return append(found, more...), err
}

// linksOf lists the symlinks that pull in exactly the unit of this name.
func (e Enablement) linksOf(name string) ([]string, error) {
	var found []string
	names, err := e.root.list(host.UnitDir)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		at := host.UnitDir + "/" + n
		switch path.Ext(n) {
		case ".wants", ".requires", ".upholds":
			at += "/" + name
		default:
			if n == name {
				continue // the unit's own name is not an alias of it, even when its file is a link
			}
		}
		is, err := e.root.Stat(at)
		if err != nil {
			return nil, err
		}
		if is.Kind == host.Link && (path.Base(at) == name || path.Base(is.Target) == name) {
			found = append(found, at)
		}
	}
	return found, nil
}

// Enable implements host.Units.
func (e Enablement) Enable(_ context.Context, name string) error {
	file, err := e.find(name, unitDirs...)
	switch {
	case err != nil:
		return err
	case file.path == "":
		return fmt.Errorf("unit %s: %w", name, fs.ErrNotExist)
	case file.masked:
		return fmt.Errorf("unit %s is masked", name)
	case file.install == "":
		return fmt.Errorf("unit %s has no [Install] section, so nothing can pull it in", name)
	}
	lines := strings.Split(file.install, "\n")
	name = instantiate(name, lines)
	for _, line := range lines {
		key, value, _ := strings.Cut(line, "=")
		_, instance := host.TemplateOf(name)
		value = strings.NewReplacer("%i", instance, "%I", instance, "%n", name).Replace(value)
		if strings.ContainsAny(value, "/\x00") {
			return fmt.Errorf("unit %s: %q in [Install] is no name of a unit", name, line)
		}
		if err := e.pull(file.path, name, key, value); err != nil {
			return fmt.Errorf("enabling %s: %w", name, err)
		}
	}
	return nil
}

// instantiate gives a bare template its default instance.
func instantiate(name string, install []string) string {
	stem, suffix, ok := strings.Cut(name, "@.")
	if !ok {
		return name
	}
	for _, line := range install {
		if instance, found := strings.CutPrefix(line, "DefaultInstance="); found {
			return stem + "@" + instance + "." + suffix
		}
	}
	return name
}

// pull makes the symlink of one line of [Install].
func (e Enablement) pull(file, name, key, value string) error {
	dirs := map[string]string{"WantedBy": ".wants", "RequiredBy": ".requires", "UpheldBy": ".upholds"}
	at := host.UnitDir + "/" + value
	if suffix, ok := dirs[key]; ok {
		at += suffix
		if err := e.root.mkdirs(at); err != nil {
			return err
		}
		at += "/" + name
	} else if key != "Alias" {
		return nil
	}
	is, err := e.root.Stat(at)
	if err != nil {
		return err
	}
	if is.Kind != host.Absent && (is.Kind != host.Link || path.Base(is.Target) != path.Base(file)) {
		return fmt.Errorf("%s is in the way, which is not a link to this unit: move it away, or take %q out of [Install]", at, key+"="+value)
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
