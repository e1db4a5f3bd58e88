package plan

import (
	"bytes"
	"strconv"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// Where keys are written: for the one user that a machine config may name.
const (
	keysUser = "core"
	keysHome = "/home/core"
	keysPath = keysHome + "/.ssh/authorized_keys.d/ignition"
)

// keys joins the SSH keys of all users into the file of core, which is what the contract says.
func (r *reader) keys(users []ign.PasswdUser) {
	var lines strings.Builder
	for _, u := range users {
		for _, key := range u.SSHAuthorizedKeys {
			lines.WriteString(strings.TrimRight(string(key), "\n") + "\n")
		}
	}
	if lines.Len() == 0 {
		return
	}
	owner, ok := r.accounts.Users[keysUser]
	if !ok && !r.accounts.Unprivileged {
		r.problem("passwd.users core sshAuthorizedKeys", "user core does not exist on this node: create it in the image")
	}
	if r.accounts.Unprivileged {
		owner = host.Owner{}
	}
	dir := host.Entry{Kind: host.Dir, Mode: 0o700, Owner: owner}
	r.w.Parents[keysHome] = dir
	r.w.Parents[keysHome+"/.ssh"] = dir
	r.w.Parents[keysHome+"/.ssh/authorized_keys.d"] = dir
	r.file(keysPath, []byte(lines.String()), host.Entry{Mode: 0o600, Owner: owner})
}

// Accounts reads /etc/passwd and /etc/group. Lines that it does not understand are skipped, as the C library does.
func Accounts(passwd, group []byte) host.Accounts {
	a := host.Accounts{Users: map[string]host.Owner{}, Groups: map[string]int{}}
	for line := range bytes.Lines(passwd) {
		f := strings.Split(strings.TrimSpace(string(line)), ":")
		if len(f) < 4 {
			continue
		}
		uid, errU := strconv.Atoi(f[2])
		gid, errG := strconv.Atoi(f[3])
		if errU == nil && errG == nil {
			a.Users[f[0]] = host.Owner{UID: uid, GID: gid}
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
