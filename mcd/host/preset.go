package host

import (
	"bytes"
	"path"
	"slices"
	"strings"
)

// PresetDirs hold preset files, the strongest first: a file hides those of its name further down.
var PresetDirs = []string{"/etc/systemd/system-preset", "/run/systemd/system-preset", "/usr/local/lib/systemd/system-preset", "/usr/lib/systemd/system-preset"}

// Preset tells what preset files say about a unit, as systemd.preset(5) has it: the first line that matches decides; a
// unit that no line matches is enabled. The files come in the order of their names.
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
