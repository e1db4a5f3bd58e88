package plan

import (
	"bytes"
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// AccountFiles are the contents of a machine's account files. A missing file is empty.
type AccountFiles struct {
	// Passwd and Group are the administrator's files. ImagePasswd and ImageGroup are the files below /usr/lib on
	// image-based systems.
	Passwd, Group, ImagePasswd, ImageGroup []byte
	// LoginDefs is the file /etc/login.defs. UserAdd is the file /etc/default/useradd.
	LoginDefs, UserAdd []byte
	// Records is the daemon's file about accounts, host.AccountsPath.
	Records []byte
}

// ParseAccounts parses the files. ParseAccounts skips lines that it does not understand, as the C library does. The
// administrator's files override the files of the image.
func ParseAccounts(f AccountFiles) host.Accounts {
	a := readAccounts(f.ImagePasswd, f.ImageGroup)
	a.Image = map[string]bool{}
	for name := range a.Users {
		a.Image[name] = true
	}
	for name := range a.Groups {
		a.Image[name] = true
	}
	for _, text := range [][]byte{f.Passwd, f.Group} {
		for line := range bytes.Lines(text) {
			name, _, _ := strings.Cut(string(line), ":")
			delete(a.Image, name)
		}
	}
	own := readAccounts(f.Passwd, f.Group)
	maps.Copy(a.Users, own.Users)
	maps.Copy(a.Homes, own.Homes)
	maps.Copy(a.Groups, own.Groups)
	a.Defaults = accountDefaults(f)
	a.Left, a.LeftGroups, a.Made = map[string]host.User{}, map[string]int{}, map[string]bool{}
	records := ParseRecords(f.Records)
	for name, b := range records.Users {
		if _, there := a.Users[name]; b.User.There && !there {
			a.Left[name] = b.User
		}
	}
	for name, o := range records.Former {
		if _, there := a.Users[name]; !there && !a.Left[name].There {
			a.Left[name] = host.User{UID: o.UID, GID: o.GID}
		}
	}
	for name, g := range records.Groups {
		a.Made[name] = !g.There
		if _, there := a.Groups[name]; g.There && !there {
			a.LeftGroups[name] = g.GID
		}
	}
	return a
}

// readAccounts reads the users, their home directories, and the groups.
func readAccounts(passwd, group []byte) host.Accounts {
	a := host.Accounts{Users: map[string]host.Owner{}, Homes: map[string]string{}, Groups: map[string]int{}}
	for line := range bytes.Lines(passwd) {
		f := strings.Split(strings.TrimSpace(string(line)), ":")
		if len(f) < 4 {
			continue
		}
		uid, errU := strconv.Atoi(f[2])
		gid, errG := strconv.Atoi(f[3])
		if errU != nil || errG != nil {
			continue
		}
		a.Users[f[0]] = host.Owner{UID: uid, GID: gid}
		if len(f) > 5 {
			a.Homes[f[0]] = f[5]
		}
	}
	for line := range bytes.Lines(group) {
		f := strings.Split(strings.TrimSpace(string(line)), ":")
		if len(f) < 3 {
			continue
		}
		if gid, err := strconv.Atoi(f[2]); err == nil {
			a.Groups[f[0]] = gid
		}
	}
	return a
}

// accountDefaults reads the rules for new accounts.
func accountDefaults(f AccountFiles) (d host.AccountDefaults) {
	defs := settings(f.LoginDefs, " \t")
	number := func(key string, otherwise int) int {
		if n, err := strconv.ParseInt(defs[key], 0, 32); err == nil {
			return int(n)
		}
		return otherwise
	}
	usual := host.AccountDefaults{}.Filled()
	d.UIDs = [2]int{number("UID_MIN", usual.UIDs[0]), number("UID_MAX", usual.UIDs[1])}
	d.GIDs = [2]int{number("GID_MIN", usual.GIDs[0]), number("GID_MAX", usual.GIDs[1])}
	d.SystemUIDs = [2]int{number("SYS_UID_MIN", 101), number("SYS_UID_MAX", d.UIDs[0]-1)}
	d.SystemGIDs = [2]int{number("SYS_GID_MIN", 101), number("SYS_GID_MAX", d.GIDs[0]-1)}
	if umask, said := defs["UMASK"]; said {
		if bits, err := strconv.ParseUint(umask, 8, 32); err == nil {
			d.HomeMode = 0o777 &^ uint32(bits)
		}
	}
	if mode, err := strconv.ParseUint(defs["HOME_MODE"], 8, 32); err == nil {
		d.HomeMode = uint32(mode)
	}
	add := settings(f.UserAdd, "=")
	d.HomeBase, d.Shell = add["HOME"], add["SHELL"]
	if gid, err := strconv.Atoi(add["GROUP"]); err == nil {
		d.Group = gid
	}
	return d
}

// settings reads a file of keys and values. For a key with several lines, the last line counts.
func settings(text []byte, between string) map[string]string {
	values := map[string]string{}
	for line := range bytes.Lines(text) {
		key, value := strings.TrimSpace(string(line)), ""
		if i := strings.IndexAny(key, between); i >= 0 {
			key, value = strings.TrimSpace(key[:i]), strings.TrimSpace(key[i+1:])
		}
		if key != "" && !strings.HasPrefix(key, "#") {
			values[key] = value
		}
	}
	return values
}

// AccountRecords is the content of host.AccountsPath: the accounts in their state before a config changed them.
type AccountRecords struct {
	// Users has the users by name; the zero value means that the user did not exist.
	Users map[string]AccountRecord `json:",omitempty"`
	// Groups has the groups by name; the zero value means that the group did not exist.
	Groups map[string]host.Group `json:",omitempty"`
	// Former are the numbers of users that configs created and removed. Files of former users may still exist, so no
	// other user gets the numbers of former users. The GID is the number of the user's own group, or 0.
	Former map[string]host.Owner `json:",omitempty"`
}

// AccountRecord is a user with the hash of the password.
type AccountRecord struct {
	User     host.User `json:",omitzero"`
	Password string    `json:",omitempty"`
}

// ParseRecords parses the file. ParseRecords treats a damaged file as empty, because such a file must not prevent
// updates of the node.
func ParseRecords(text []byte) AccountRecords {
	r := AccountRecords{
		Users: map[string]AccountRecord{}, Groups: map[string]host.Group{},
		Former: map[string]host.Owner{},
	}
	var read AccountRecords
	if json.Unmarshal(text, &read) != nil {
		return r
	}
	maps.Copy(r.Users, read.Users)
	maps.Copy(r.Groups, read.Groups)
	maps.Copy(r.Former, read.Former)
	return r
}
