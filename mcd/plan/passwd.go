package plan

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// AccountFiles are the texts that tell about a machine's accounts; a missing file is empty.
type AccountFiles struct {
	// Passwd and Group are the administrator's, ImagePasswd and ImageGroup those below /usr/lib of image-based systems.
	Passwd, Group, ImagePasswd, ImageGroup []byte
	// LoginDefs is /etc/login.defs, UserAdd is /etc/default/useradd.
	LoginDefs, UserAdd []byte
	// Records is what the daemon keeps of accounts, host.AccountsPath.
	Records []byte
}

// Accounts reads them. Lines that it does not understand are skipped, as the C library does. What the administrator says
// is stronger than what the image says.
func Accounts(f AccountFiles) host.Accounts {
	a := host.Accounts{Users: map[string]host.Owner{}, Homes: map[string]string{}, Groups: map[string]int{}, Image: map[string]bool{}}
	readAccounts(&a, f.ImagePasswd, f.ImageGroup)
	for name := range a.Users {
		a.Image[name] = true
	}
	for name := range a.Groups {
		a.Image[name] = true
	}
	for _, own := range [][]byte{f.Passwd, f.Group} {
		for line := range bytes.Lines(own) {
			name, _, _ := strings.Cut(string(line), ":")
			delete(a.Image, name)
		}
	}
	readAccounts(&a, f.Passwd, f.Group)
	a.Defaults = accountDefaults(f)
	a.Left, a.LeftGroups = map[string]host.User{}, map[string]int{}
	records := readRecords(f.Records)
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
		if _, there := a.Groups[name]; g.There && !there {
			a.LeftGroups[name] = g.GID
		}
	}
	return a
}

func readAccounts(a *host.Accounts, passwd, group []byte) {
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
}

// accountDefaults reads how new accounts are made.
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

// settings reads a file of keys and values; the last line about a key counts.
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
