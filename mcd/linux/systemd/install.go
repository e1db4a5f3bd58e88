package systemd

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// linkDirs are the suffixes of the link directories, by the [Install] key.
var linkDirs = map[string]string{"WantedBy": ".wants", "RequiredBy": ".requires", "UpheldBy": ".upholds"}

// unitTypes are the valid suffixes of unit names.
var unitTypes = []string{
	".service", ".socket", ".device", ".mount", ".automount", ".swap", ".target", ".path",
	".timer", ".slice", ".scope",
}

// installLinks returns the paths of the symlinks that enable a unit with this canonical [Install] section, as
// systemctl creates them. The error has every problem of the section.
func installLinks(name, install string) (links []string, _ error) {
	var wrong []error
	for line := range strings.Lines(install) {
		line = strings.TrimSpace(line)
		key, value, _ := strings.Cut(line, "=")
		if key != "Alias" && linkDirs[key] == "" {
			continue
		}
		at, err := installLink(name, key, value)
		switch {
		case err != nil:
			wrong = append(wrong, fmt.Errorf("%s: %w", line, err))
		case at != "":
			links = append(links, at)
		}
	}
	return links, errors.Join(wrong...)
}

// installLink returns the path of the symlink for one line; "" for none.
func installLink(name, key, value string) (string, error) {
	value, err := expandSpecifiers(value, name)
	if err != nil {
		return "", err
	}
	if dir, base, ok := strings.Cut(value, "/"); ok && key == "Alias" && base == name {
		// An alias such as multi-user.target.wants/NAME is an old way to write WantedBy.
		for key, suffix := range linkDirs {
			if unit, ok := strings.CutSuffix(dir, suffix); ok {
				return installLink(name, key, unit)
			}
		}
	}
	if !isUnitName(value) {
		return "", fmt.Errorf("%q is no name of a unit", value)
	}
	if suffix := linkDirs[key]; suffix != "" {
		if isBare(name) && !isBare(value) {
			return "", fmt.Errorf("%s is a template, and %s is none: name the instance that shall be enabled, or set "+
				"DefaultInstance", name, value)
		}
		return host.UnitDir + "/" + value + suffix + "/" + name, nil
	}
	alias, err := aliasOf(name, value)
	if err != nil || alias == name {
		return "", err
	}
	return host.UnitDir + "/" + alias, nil
}

// aliasOf returns an alias of a unit. The alias of an instance is the same instance of another template.
func aliasOf(name, alias string) (string, error) {
	_, instance := host.TemplateOf(name)
	if stem, suffix, ok := strings.Cut(alias, "@."); ok && instance != "" {
		alias = stem + "@" + instance + "." + suffix
	}
	_, other := host.TemplateOf(alias)
	if path.Ext(alias) != path.Ext(name) || isBare(alias) != isBare(name) || other != instance {
		return "", fmt.Errorf("%s cannot be known as %s, which is a unit of another kind", name, alias)
	}
	return alias, nil
}

// expandSpecifiers replaces % specifiers in [Install]. expandSpecifiers supports only specifiers that depend on nothing
// but the unit's name.
func expandSpecifiers(value, name string) (string, error) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(value, "%")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		if after == "" {
			return "", errors.New("it ends with a %, which begins a specifier")
		}
		_, instance := host.TemplateOf(name)
		stem := strings.TrimSuffix(name, path.Ext(name))
		prefix, _, _ := strings.Cut(stem, "@")
		means, ok := map[byte]string{
			'n': name, 'N': stem, 'p': prefix, 'i': instance, 'j': prefix[strings.LastIndex(prefix, "-")+1:], '%': "%",
		}[after[0]]
		if !ok {
			return "", fmt.Errorf("%%%c depends on more than the unit's name: of the specifiers, %%n %%N %%p %%i %%j "+
				"and %%%% may stand in [Install]", after[0])
		}
		b.WriteString(means)
		value = after[1:]
	}
}

// isUnitName reports whether systemd accepts a name as that of a unit, a template or an instance.
func isUnitName(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_.\\-@"
	stem := strings.TrimSuffix(name, path.Ext(name))
	return slices.Contains(unitTypes, path.Ext(name)) && len(name) < 256 && strings.Trim(name, letters) == "" &&
		stem != "" && stem[0] != '@'
}

// isBare reports whether a name is that of a template, not of an instance or another unit.
func isBare(name string) bool { return strings.Contains(name, "@.") }

// instantiate returns the default instance of a template.
func instantiate(name, install string) string {
	stem, suffix, ok := strings.Cut(name, "@.")
	if !ok {
		return name
	}
	for line := range strings.Lines(install) {
		if instance, found := strings.CutPrefix(strings.TrimSpace(line), "DefaultInstance="); found {
			return stem + "@" + instance + "." + suffix
		}
	}
	return name
}
