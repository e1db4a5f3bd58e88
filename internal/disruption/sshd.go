package disruption

import (
	"path"
	"slices"
	"strings"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/distribution"
)

const (
	sshdConfig = "/etc/ssh/sshd_config"
	sshdDropIn = "/etc/ssh/sshd_config.d"
)

// IsSSHDConfig reports whether a path has settings of sshd.
func IsSSHDConfig(p string) bool {
	return p == sshdConfig || path.Dir(p) == sshdDropIn && path.Ext(p) == ".conf"
}

// KeysFileSetting returns AuthorizedKeysFile as the files of a config set it for all users; "" if none does. The first
// line counts, and distributions read the drop-ins before the rest of sshd_config.
func KeysFileSetting(c ign.Config) string {
	value, _ := keysFileSetting(c)
	return value
}

// keysFileSetting returns the setting, and the path of the file that has it.
func keysFileSetting(c ign.Config) (value, file string) {
	var files []ign.File
	for _, f := range c.Storage.Files {
		if IsSSHDConfig(path.Clean(f.Path)) {
			files = append(files, f)
		}
	}
	slices.SortFunc(files, func(a, b ign.File) int {
		if isMain := path.Clean(a.Path) == sshdConfig; isMain != (path.Clean(b.Path) == sshdConfig) {
			return map[bool]int{true: 1, false: -1}[isMain]
		}
		return strings.Compare(a.Path, b.Path)
	})
	for _, f := range files {
		parts := []ign.Resource{f.Contents}
		for _, part := range append(parts, f.Append...) {
			text, err := machineconfig.Contents(part)
			if err != nil {
				continue // What cannot be decoded is refused, and what is remote or secret is not known here.
			}
			if value := keysFileIn(string(text)); value != "" {
				return value, f.Path
			}
		}
	}
	return "", ""
}

// keysFileIn returns the first AuthorizedKeysFile of a file that is not about some users only.
func keysFileIn(text string) string {
	for line := range strings.Lines(text) {
		words := strings.Fields(strings.ReplaceAll(strings.Replace(line, "=", " ", 1), `"`, ""))
		switch {
		case len(words) < 2:
		case strings.EqualFold(words[0], "Match"):
			return ""
		case strings.EqualFold(words[0], "AuthorizedKeysFile"):
			return strings.Join(words[1:], " ")
		}
	}
	return ""
}

// UnreadKeys are SSH keys of a config that sshd would not read, because a file of the same config says so.
type UnreadKeys struct {
	// Users of the keys; empty for none.
	Users []string
	// File is the path of the file with the setting.
	File string
}

// UnreadKeysOf returns the keys of a config that sshd would not read.
func UnreadKeysOf(c ign.Config) (unread UnreadKeys) {
	setting, file := keysFileSetting(c)
	reads := func(file string) bool {
		return file == distribution.KeysFile || strings.HasSuffix(file, "/"+distribution.KeysFile)
	}
	if setting == "" || slices.ContainsFunc(strings.Fields(setting), reads) {
		return unread
	}
	unread.File = file
	for _, u := range c.Passwd.Users {
		if exists(u.ShouldExist) && len(u.SSHAuthorizedKeys) > 0 {
			unread.Users = append(unread.Users, u.Name)
		}
	}
	return unread
}

// Problem says what is wrong with the file. It quotes nothing of the file, whose contents its owner may have marked as
// secret.
func (u UnreadKeys) Problem() string {
	return "sets AuthorizedKeysFile of sshd to other files, so a node whose sshd has no other setting does not " +
		"accept the SSH keys of " + strings.Join(u.Users, ", ") + ", which are in " + distribution.KeysFile +
		": add that file to the setting"
}

// refusals returns a refusal for each user, which each node checks.
func (u UnreadKeys) refusals() (out []Refusal) {
	for _, user := range u.Users {
		out = append(out, continued(OnNode(CheckAccounts, "user "+user, "is checked on each node: the config "+
			"sets AuthorizedKeysFile of sshd to other files, so a node whose sshd has no other setting does not "+
			"accept the user's SSH keys, which are in "+distribution.KeysFile+". Add that file to the setting")))
	}
	return out
}
