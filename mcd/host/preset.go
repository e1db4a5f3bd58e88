package host

import (
	"bytes"
	"path"
	"slices"
	"strings"
)

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
