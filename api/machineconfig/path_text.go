package machineconfig

import (
	"fmt"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
)

// pathText returns a path such as $.storage.files.2.mode as `files[2] /etc/x mode`, for messages.
func pathText(c ign.Config, path []any) string {
	var b strings.Builder
	for i, step := range path {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", step)
			if i > 0 {
				if name := nameAt(c, fmt.Sprint(path[i-1]), step); i == 2 && name != "" {
					b.WriteString(" " + oneLine(name))
				}
			}
		default:
			word := fmt.Sprint(step)
			if i == 0 && len(path) > 1 && (word == "storage" || word == "systemd" || word == "passwd") {
				continue // The text does not repeat the parent's name: the name of the list is enough.
			}
			if b.Len() > 0 {
				b.WriteString(separator(b.String()))
			}
			b.WriteString(word)
		}
	}
	if b.Len() == 0 {
		return "config"
	}
	return b.String()
}

// separator returns a blank after an item's index or name, and a dot between fields.
func separator(before string) string {
	if strings.ContainsAny(before, "[") && !strings.Contains(before[strings.LastIndexAny(before, "[]"):], ".") {
		return " "
	}
	return "."
}

// nameAt returns the key of an item of a list, or "".
func nameAt(c ign.Config, list string, i int) string {
	s := c.Storage
	keys := map[string]func(int) string{
		"files": keyOf(s.Files), "directories": keyOf(s.Directories), "links": keyOf(s.Links),
		"filesystems": keyOf(s.Filesystems),
		"disks":       keyOf(s.Disks), "raid": keyOf(s.Raid), "luks": keyOf(s.Luks),
		"units": keyOf(c.Systemd.Units), "users": keyOf(c.Passwd.Users), "groups": keyOf(c.Passwd.Groups),
	}
	if key := keys[list]; key != nil {
		return key(i)
	}
	return ""
}

// keyOf returns a function that returns the key of item i, or "".
func keyOf[T interface{ Key() string }](list []T) func(i int) string {
	return func(i int) string {
		if i < len(list) {
			return list[i].Key()
		}
		return ""
	}
}
