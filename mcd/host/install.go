package host

import (
	"bytes"
	"path"
	"slices"
	"strings"
)

// InstallOf is the [Install] section of a unit file in canonical form, `WantedBy=multi-user.target`, one line for each
// name; "" for a unit that nothing can pull in. Equal text means equal symlinks.
func InstallOf(contents []byte) string {
	var out []string
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
			if strings.TrimSpace(value) == "" { // forgets what was said of the key before
				out = slices.DeleteFunc(out, func(l string) bool { return strings.HasPrefix(l, key+"=") })
			}
			for _, name := range strings.Fields(value) {
				out = append(out, key+"="+name)
			}
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
