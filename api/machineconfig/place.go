package machineconfig

import (
	"fmt"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
)

// placeIn turns a path such as $.storage.files.2.mode into `files[2] /etc/x mode`, the way people look for it.
func placeIn(c ign.Config, path []any) string {
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
				continue // the list's name says it
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

// separator is a blank after an item's index or name, and a dot between fields.
func separator(before string) string {
	if strings.ContainsAny(before, "[") && !strings.Contains(before[strings.LastIndexAny(before, "[]"):], ".") {
		return " "
	}
	return "."
}

// nameAt is the key of an item of one of the lists that have keys, or "".
func nameAt(c ign.Config, list string, i int) string {
	switch {
	case list == "files" && i < len(c.Storage.Files):
		return c.Storage.Files[i].Path
	case list == "directories" && i < len(c.Storage.Directories):
		return c.Storage.Directories[i].Path
	case list == "links" && i < len(c.Storage.Links):
		return c.Storage.Links[i].Path
	case list == "filesystems" && i < len(c.Storage.Filesystems):
		return c.Storage.Filesystems[i].Device
	case list == "disks" && i < len(c.Storage.Disks):
		return c.Storage.Disks[i].Device
	case list == "raid" && i < len(c.Storage.Raid):
		return c.Storage.Raid[i].Name
	case list == "luks" && i < len(c.Storage.Luks):
		return c.Storage.Luks[i].Name
	case list == "units" && i < len(c.Systemd.Units):
		return c.Systemd.Units[i].Name
	case list == "users" && i < len(c.Passwd.Users):
		return c.Passwd.Users[i].Name
	case list == "groups" && i < len(c.Passwd.Groups):
		return c.Passwd.Groups[i].Name
	}
	return ""
}
