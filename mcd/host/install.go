package host

import (
	"bytes"
	"path"
	"slices"
	"strings"
)

// UnitDirs are where unit files and their drop-ins live, the strongest first.
var UnitDirs = []string{UnitDir, "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}

// InstallOf is the [Install] section of a unit file in canonical form, `WantedBy=multi-user.target`, one line for each
// name; "" for a unit that nothing can pull in. Equal text means equal symlinks.
func InstallOf(contents []byte) string { return counting(assignments(contents)) }

// assignments are the lines of [Install] that make a unit be pulled in, one for each name, in order. One without a name
// forgets what was said before.
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

// counting is what is left of assignments when each has had its effect: lists grow, but for lines without a name, which
// empty them. Also is a list that nothing empties; of default instances, the last one counts.
func counting(lines []string) string {
	var out []string
	for _, line := range lines {
		key, name, _ := strings.Cut(line, "=")
		if key == "DefaultInstance" || name == "" && key != "Also" {
			out = slices.DeleteFunc(out, func(l string) bool { return strings.HasPrefix(l, key+"=") })
		}
		if name != "" {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// AlsoOf lists the units that a canonical [Install] section wants enabled and disabled together with its own.
func AlsoOf(install string) (names []string) {
	for line := range strings.Lines(install) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "Also="); ok && !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	return names
}

// TemplateOf splits the name of an instance: getty@tty2.service is getty@.service and tty2. Other names have no
// template. The template itself is an instance of nothing.
func TemplateOf(name string) (template, instance string) {
	stem, rest, ok := strings.Cut(name, "@")
	suffix := path.Ext(rest)
	if instance = strings.TrimSuffix(rest, suffix); !ok || instance == "" {
		return "", ""
	}
	return stem + "@" + suffix, instance
}
