package plan

import (
	"path"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// setKeyOwners sets the owner of SSH keys to the users after the update, whose primary group may change.
func setKeyOwners(t *target) {
	if t.seen.Accounts.Unprivileged {
		return
	}
	for _, w := range t.to.Users {
		p := t.to.At(t.to.Keys[w.Name].Path)
		u, e := t.Users[w.Name], t.to.Paths[p]
		if _, keys := t.to.Parents[path.Dir(p)]; keys && u.There && e.Kind == host.File &&
			e.Owner == w.Account.Owner() {
			e.Owner = u.Owner()
			t.Paths[p] = e
		}
	}
}

// removeMade removes the directories that the daemon created for the current config below a path at which the new
// config has a file or a link. The host does not remove a directory with entries.
func removeMade(t *target) {
	for p, want := range t.to.Paths {
		if want.Kind == host.Dir || want.Kind == host.Absent || t.seen.Paths[p].Kind != host.Dir {
			continue
		}
		for made := range t.from.Paths {
			for dir := range disruption.Parents(made) {
				_, kept := t.to.Paths[dir]
				if below(dir, p) && dir != p && !kept && t.Paths[dir].Kind == host.Dir {
					t.Paths[dir] = host.Entry{}
				}
			}
		}
	}
}
