package host

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"
)

// Sections are the [Install] sections of a unit's files by path: the unit file, the template's file and their
// drop-ins. Each value has the form of SectionLines.
type Sections map[string]string

// Masked is the section of a unit file that masks the unit: a link to /dev/null, or an empty file.
const Masked = "masked"

// ShippedMask is the section of a mask in /etc that the OS image has as the default of that path.
const ShippedMask = "masked by the image"

// ImageMark exists on OSTree systems, which have the defaults of /etc in /usr/etc.
const ImageMark = "/ostree"

func isMask(section string) bool { return section == Masked || section == ShippedMask }

// SectionLines returns the [Install] lines of one file. A line such as `WantedBy=multi-user.target` adds to a list; a
// line such as `WantedBy=` clears the list.
func SectionLines(contents []byte) string { return strings.Join(assignments(contents), "\n") }

// FileNames returns the file names of a unit, in order of priority: the unit's own name, and the name of its template.
func FileNames(unit string) []string {
	if template, _ := TemplateOf(unit); template != "" {
		return []string{unit, template}
	}
	return []string{unit}
}

// counting computes the canonical section of a unit from its files in these directories, as systemd does. counting uses
// the first unit file, then the drop-ins in the order of their names. A drop-in hides drop-ins with the same name in
// later directories and in the template's directories.
func (s Sections) counting(unit string, dirs []string) string {
	file := s.file(unit, dirs)
	if file == "" || isMask(s[file]) {
		return ""
	}
	lines := strings.Split(s[file], "\n")
	for _, p := range s.dropins(unit, dirs) {
		lines = append(lines, strings.Split(s[p], "\n")...)
	}
	return counting(lines)
}

// file returns the path of the unit file that counts; "" for none.
func (s Sections) file(unit string, dirs []string) string {
	for _, at := range places(unit, dirs, "") {
		if _, there := s[at]; there {
			return at
		}
	}
	return ""
}

// dropins returns the paths of the drop-ins that count, in the order of their names.
func (s Sections) dropins(unit string, dirs []string) (paths []string) {
	found := map[string]string{}
	for _, dir := range places(unit, dirs, ".d") {
		for p := range s {
			if name := path.Base(p); path.Dir(p) == dir {
				if _, hidden := found[name]; !hidden {
					found[name] = p
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		paths = append(paths, found[name])
	}
	return paths
}

// places returns the possible paths of a unit's files or drop-in directories, in order of priority.
func places(unit string, dirs []string, suffix string) (at []string) {
	for _, owner := range FileNames(unit) {
		for _, dir := range dirs {
			at = append(at, dir+"/"+owner+suffix)
		}
	}
	return at
}

// plain reports whether Install and Vendor contain all sections: no file is a mask, no drop-in and no template has a
// section, and at most one administrator's file and one other file have a section.
func (s Sections) plain() bool {
	own, below := 0, 0
	for p, says := range s {
		switch dir := path.Dir(p); {
		case isMask(says):
			return false
		case dir == UnitDir && says != "":
			own++
		case slices.Contains(UnitDirs, dir) && says != "":
			below++
		case says != "" || slices.Contains(UnitDirs, dir):
			return false
		}
	}
	return own <= 1 && below <= 1
}

// WithSections returns the unit with the sections of its files.
func (u Unit) WithSections(name string, s Sections) Unit {
	u.Install, u.Vendor, u.Parts = s.counting(name, UnitDirs), s.counting(name, UnitDirs[1:]), ""
	u.Obstacle = s.obstacle(name)
	if !s.plain() {
		text, _ := json.Marshal(s) //nolint:errcheck // a map of text always marshals, in the order of its keys
		u.Parts = string(text)
	}
	return u
}

// Sections returns the sections from which the unit was computed; nil if Install and Vendor contain all of them.
func (u Unit) Sections() (s Sections) {
	if json.Unmarshal([]byte(u.Parts), &s) != nil {
		return nil
	}
	return s
}
