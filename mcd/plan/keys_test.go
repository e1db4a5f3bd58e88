package plan_test

import (
	"testing"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/distribution"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// TestWhereAMachineHasItsKeys: the file in force follows from what the machine has, and a user of the machine, who can
// write both files, cannot make another one count while the file of the config is there.
func TestWhereAMachineHasItsKeys(t *testing.T) {
	const (
		plain, fragment = "/home/core/" + distribution.KeysFile, "/home/core/" + distribution.KeysFragment
		ours, other     = "ssh-ed25519 AAAA\n", "ssh-ed25519 EVIL\n"
		plainIsNew      = host.NoOrigDir + plain + ".mcdnoorig"
		plainWas        = host.OrigDir + plain + ".mcdorig"
		fragmentIsNew   = host.NoOrigDir + fragment + ".mcdnoorig"
	)
	type files map[string]string
	for name, c := range map[string]struct {
		reads string
		has   files
		want  string
	}{
		"nothing is there":                   {plain, nil, plain},
		"Ignition wrote the file":            {plain, files{plain: ours}, plain},
		"Ignition wrote the fragment":        {plain, files{fragment: ours}, fragment},
		"Ignition's fragment beside a file":  {plain, files{fragment: ours, plain: other}, fragment},
		"an update's fragment":               {plain, files{fragment: ours, fragmentIsNew: "", plain: other}, fragment},
		"a fragment that had drifted":        {plain, files{fragment: other, fragmentIsNew: ""}, fragment},
		"a copied fragment":                  {plain, files{fragment: ours, fragmentIsNew: "", plain: ours}, fragment},
		"a user planted a fragment":          {plain, files{plain: ours, fragment: other}, plain},
		"a planted fragment, a changed file": {plain, files{plain: other, plainIsNew: "", fragment: other}, plain},
		"a planted fragment, an original":    {plain, files{plain: other, plainWas: other, fragment: ours}, plain},
		"the file drifted":                   {plain, files{plain: other}, plain},
		"no fragment yet":                    {fragment, nil, fragment},
		"a fragment":                         {fragment, files{fragment: ours}, fragment},
		"a fragment that drifted":            {fragment, files{fragment: other}, fragment},
		"a fragment beside a user's file":    {fragment, files{fragment: ours, plain: other}, fragment},
		"a fragment beside a copy of it":     {fragment, files{fragment: ours, plain: ours}, fragment},
		"an earlier update wrote the file":   {fragment, files{plain: ours, plainIsNew: ""}, plain},
		"an update replaced the file":        {fragment, files{plain: ours, plainWas: other}, plain},
		"an earlier Ignition wrote the file": {fragment, files{plain: ours}, plain},
		"an update's file that drifted":      {fragment, files{plain: other, plainIsNew: "", fragment: ours}, plain},
		"a file, and a removed fragment":     {fragment, files{plain: other}, fragment},
	} {
		var config machineconfig.Config
		config.Ignition.Passwd.Users = []ign.PasswdUser{{Name: "core"}}
		config.Ignition.Passwd.Users[0].SSHAuthorizedKeys = []ign.SSHAuthorizedKey{"ssh-ed25519 AAAA"}
		s := plan.DesiredOf(config, host.Accounts{
			Users: map[string]host.Owner{"core": {UID: 1000, GID: 1000}}, Groups: map[string]int{"core": 1000},
			Homes: map[string]string{"core": "/home/core"}, KeysFile: c.reads[len("/home/core/"):],
		})
		look := func(p string) (host.Entry, error) {
			if text, has := c.has[p]; has {
				return host.Entry{Kind: host.File, Mode: 0o600, Digest: host.DigestOf([]byte(text))}, nil
			}
			return host.Entry{}, nil
		}
		is, err := plan.KeysInForce(s, look)
		if got := is.Keys["core"].Path; err != nil || got != c.want || is.Paths[got].Kind != host.File {
			t.Errorf("%s: the keys are in %s, %v; want %s", name, got, err, c.want)
		}
		if again, err := plan.KeysInForce(is, look); err != nil || again.Keys["core"] != is.Keys["core"] {
			t.Errorf("%s: asked again, they are in %s, %v", name, again.Keys["core"].Path, err)
		}
		for p := range is.Paths {
			if p != c.want {
				t.Errorf("%s: the config has %s too", name, p)
			}
		}
	}
}

// TestSSHKeysThatNobodyReads compares the settings of an sshd with the file of a config's keys.
func TestSSHKeysThatNobodyReads(t *testing.T) {
	const standard = ".ssh/authorized_keys .ssh/authorized_keys2"
	for sentence, c := range map[string]struct {
		file, command string
		fragment      bool
		merges        bool
		says          string
	}{
		"the standard":                           {file: standard, command: "none"},
		"a file below the home directory":        {file: "%h/.ssh/authorized_keys", command: "none"},
		"a file with its whole path":             {file: "/home/%u/.ssh/authorized_keys", command: "none"},
		"a file of the administrator and theirs": {file: "/etc/ssh/keys/%u .ssh/authorized_keys", command: "none"},
		"a file of the administrator": {
			file: "/etc/ssh/keys/%u", command: "none",
			says: "the sshd of this node does not read the SSH keys of core in /home/core/.ssh/authorized_keys: its " +
				"AuthorizedKeysFile is /etc/ssh/keys/%u. Add .ssh/authorized_keys to it",
		},
		"a file of the same name elsewhere":  {file: "/root/.ssh/authorized_keys", command: "none", says: "/root/.ssh"},
		"a name that begins with the file's": {file: ".ssh/authorized_keys2", command: "none", says: "authorized_keys2"},
		"no file":                            {file: "none", command: "none", says: "is none. Add"},
		"the number of the user":             {file: "/home/%U/.ssh/authorized_keys", command: "none", says: "/home/%U"},
		"a percent sign":                     {file: "%%h/.ssh/authorized_keys", command: "none", says: "%%h"},
		"a fragment that a program reads": {
			file: standard, command: "/usr/libexec/ssh-key-dir %u", fragment: true,
		},
		"a fragment that sshd reads itself": {file: ".ssh/authorized_keys.d/ignition", command: "none", fragment: true},
		"a fragment that another program does not read": {
			file: standard, command: "/usr/bin/sss_ssh_authorizedkeys %u", fragment: true,
			says: "AuthorizedKeysCommand is /usr/bin/sss_ssh_authorizedkeys %u. Set it to /usr/libexec/ssh-key-dir %u",
		},
		"a fragment that is merged": {file: standard, command: "none", fragment: true, merges: true},
		"a fragment that is merged into no use": {
			file: "/k/%u", command: "none", fragment: true, merges: true, says: "/k/%u",
		},
		"a program beside the file of the config": {file: standard, command: "/usr/bin/sss_ssh_authorizedkeys %u"},
	} {
		t.Run(sentence, func(t *testing.T) {
			k := plan.KeysFile{Path: "/home/core/" + distribution.KeysFile}
			if c.fragment {
				k.Path = "/home/core/" + distribution.KeysFragment
			}
			w := plan.Desired{Keys: map[string]plan.KeysFile{"core": k}, MergesKeys: c.merges}
			is := host.SSHSettings{KeysFile: c.file, KeysCommand: c.command}
			says(t, "says", w.UnreadKeys("core", 1000, is), c.says)
		})
	}
}
