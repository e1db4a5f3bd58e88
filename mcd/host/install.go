package host

import (
	"bytes"
	"path"
	"slices"
	"strings"
)

// UnitDirs are the directories of unit files and their drop-ins, in order of priority.
var UnitDirs = []string{
	UnitDir, runtimeUnitDir, "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
	"/lib/systemd/system",
}

// runtimeUnitDir is the directory of units and masks that are lost at the next boot.
const runtimeUnitDir = "/run/systemd/system"

// InstallOf returns the [Install] section of a unit file in canonical form, such as `WantedBy=multi-user.target`, with
// one line for each name. InstallOf returns "" for a unit that nothing can enable. Equal texts produce equal symlinks.
func InstallOf(contents []byte) string { return counting(assignments(contents)) }

// assignments returns the lines of [Install] that enable a unit, in order, with one line for each name. A line without
// a name clears the list.
func assignments(contents []byte) (lines []string) {
	section := ""
	for line := range bytes.Lines(bytes.ReplaceAll(contents, []byte("\\\n"), []byte(" "))) {
		text := strings.TrimSpace(string(line))
		if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
			section = text
			continue
		}
		key, value, ok := strings.Cut(text, "=")
		if section != "[Install]" || !ok {
			continue
		}
		switch key = strings.TrimSpace(key); key {
		case "WantedBy", "RequiredBy", "UpheldBy", "Alias", "Also", "DefaultInstance":
			names := strings.Fields(value)
			if len(names) == 0 {
				names = []string{""}
			}
			for _, name := range names {
				lines = append(lines, key+"="+name)
			}
		}
	}
	return lines
}

// counting evaluates assignments: names add up, and a line without a name clears the list of its key. The list of the
// key Also cannot be cleared. For DefaultInstance, the last line counts.
func counting(lines []string) string {
	var out []string
	for _, line := range lines {
		key, name, said := strings.Cut(line, "=")
		if !said {
			continue
		}
		if key == "DefaultInstance" || name == "" && key != "Also" {
			out = slices.DeleteFunc(out, func(l string) bool { return strings.HasPrefix(l, key+"=") })
		}
		if name != "" {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// AlsoOf returns the units that a canonical [Install] section names in Also. systemd enables and disables these units
// together with the unit.
func AlsoOf(install string) (names []string) {
	for line := range strings.Lines(install) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "Also="); ok && !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	return names
}

// TemplateOf splits the name of an instance: getty@tty2.service is getty@.service and tty2. TemplateOf returns "" for
// other names, including templates.
func TemplateOf(name string) (template, instance string) {
	stem, rest, ok := strings.Cut(name, "@")
	suffix := path.Ext(rest)
	if instance = strings.TrimSuffix(rest, suffix); !ok || instance == "" {
		return "", ""
	}
	return stem + "@" + suffix, instance
}

// PresetDirs are the directories of preset files, in order of priority. A file hides files with its name in later
// directories.
var PresetDirs = []string{
	"/etc/systemd/system-preset", "/run/systemd/system-preset",
	"/usr/local/lib/systemd/system-preset", "/usr/lib/systemd/system-preset",
}

// Preset reports whether preset files enable a unit, by the rules of systemd.preset(5). The first line that matches
// decides. If no line matches, the unit is enabled. Preset reads the files in the order of their names.
func Preset(files [][]byte, unit string) bool {
	template, instance := TemplateOf(unit)
	for _, f := range files {
		for line := range bytes.Lines(f) {
			words := strings.Fields(string(line))
			if len(words) < 2 || words[0] != "enable" && words[0] != "disable" {
				continue
			}
			on := words[0] == "enable"
			if ok, _ := path.Match(words[1], unit); ok {
				return on
			}
			if template == "" {
				continue
			}
			if ok, _ := path.Match(words[1], template); ok && len(words) > 2 {
				return on && slices.Contains(words[2:], instance)
			}
		}
	}
	return true
}
