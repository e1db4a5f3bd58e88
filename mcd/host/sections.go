package host

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"
)

// Sections are what the files of a unit say in [Install], by path: its own, its template's, and their drop-ins, each as Says
// has it.
type Sections map[string]string

// Masked stands for a unit file that masks: a link to /dev/null, or an empty file.
const Masked = "masked"

// Says is what one file says: lines that add to a list, `WantedBy=multi-user.target`, or empty it, `WantedBy=`.
func Says(contents []byte) string { return strings.Join(assignments(contents), "\n") }

// Owners are the names under which the files of a unit are found, the strongest first: its own, and that of its template.
func Owners(unit string) []string {
	if template, _ := TemplateOf(unit); template != "" {
		return []string{unit, template}
	}
	return []string{unit}
}

// counting is the canonical section of a unit that has its files in some directories, as systemd puts them together: that
// of the file that is found first, then of the drop-ins in the order of their names. A drop-in hides those of its name in
// weaker directories, and those of the template.
func (s Sections) counting(unit string, dirs []string) string {
	var lines []string
	for _, at := range places(unit, dirs, "") {
		if says, there := s[at]; there {
			if says == Masked {
				return ""
			}
			lines = append(strings.Split(says, "\n"), "")
			break
		}
	}
	if lines == nil {
		return ""
	}
	found := map[string]string{}
	for _, dir := range places(unit, dirs, ".d") {
		for p, says := range s {
			if name := path.Base(p); path.Dir(p) == dir {
				if _, hidden := found[name]; !hidden {
					found[name] = says
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		lines = append(lines, strings.Split(found[name], "\n")...)
	}
	return counting(slices.DeleteFunc(lines, func(l string) bool { return l == "" }))
}

// places are where something of a unit is found, the strongest first.
func places(unit string, dirs []string, suffix string) (at []string) {
	for _, owner := range Owners(unit) {
		for _, dir := range dirs {
			at = append(at, dir+"/"+owner+suffix)
		}
	}
	return at
}

// plain tells that no drop-in says anything, and that there is no more than one file of the unit itself that the
// administrator has, and one below, which both say something: Install and Vendor are theirs then.
func (s Sections) plain() bool {
	own, below := 0, 0
	for p, says := range s {
		switch dir := path.Dir(p); {
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

// Counting is the unit with the sections of its files.
func (u Unit) Counting(name string, s Sections) Unit {
	u.Install, u.Vendor, u.Parts = s.counting(name, UnitDirs), s.counting(name, UnitDirs[1:]), ""
	if !s.plain() {
		text, _ := json.Marshal(s) //nolint:errcheck // a map of text always marshals, in the order of its keys
		u.Parts = string(text)
	}
	return u
}

// Sections are those that the unit was counted with; nil where Install and Vendor say all.
func (u Unit) Sections() (s Sections) {
	if json.Unmarshal([]byte(u.Parts), &s) != nil {
		return nil
	}
	return s
}
