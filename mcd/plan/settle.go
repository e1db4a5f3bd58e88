package plan

import (
	"path"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/policy"
)

// ownKeys gives the keys of users to them as they will be: a user's primary group may change.
func ownKeys(t *target) {
	if t.seen.Accounts.Unprivileged {
		return
	}
	for _, w := range t.to.Users {
		p := policy.KeysPath(w.New.Home)
		u, e := t.Users[w.Name], t.to.Paths[p]
		if _, keys := t.to.Parents[path.Dir(p)]; keys && u.There && e.Kind == host.File && e.Owner == w.New.Owner() {
			e.Owner = u.Owner()
			t.Paths[p] = e
		}
	}
}

// removeMade removes the directories that were made for what the config before had below a path at which the new one has a file or a
// link. A directory that somebody else uses stays when it is to be removed.
func removeMade(t *target) {
	for p, want := range t.to.Paths {
		if want.Kind == host.Dir || want.Kind == host.Absent || t.seen.Paths[p].Kind != host.Dir {
			continue
		}
		for made := range t.from.Paths {
			for dir := range policy.Parents(made) {
				_, kept := t.to.Paths[dir]
				if below(dir, p) && dir != p && !kept && t.Paths[dir].Kind == host.Dir {
					t.Paths[dir] = host.Entry{}
				}
			}
		}
	}
}
