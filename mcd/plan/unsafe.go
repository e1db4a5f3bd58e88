package plan

import (
	"fmt"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/policy"
)

// MostLinks is how many links the kernel follows.
const MostLinks = 40

// unsafe refuses paths that a user of the machine could lead to files of another owner.
func unsafe(observed host.State, w Way) (refusals []policy.Refusal) {
	for p, why := range observed.Unsafe {
		_, wanted := w.New.Paths[p]
		_, had := w.Old.Paths[p]
		if wanted || had {
			refusals = append(refusals, policy.OnNode(policy.CheckOwners, p, why))
		}
	}
	return inOrder(refusals)
}

// othersHomes refuses keys for a user whose home directory is not that user's. Keys that are in force stay.
func othersHomes(observed, target host.State, w Way) (refusals []policy.Refusal) {
	if observed.Accounts.Unprivileged {
		return nil
	}
	for _, u := range w.New.Users {
		keys, home, owner := policy.KeysPath(u.New.Home), u.New.Home, target.Users[u.Name].UID
		_, wanted := w.New.Paths[keys]
		_, had := w.Old.Paths[keys]
		if !wanted || had || !target.Users[u.Name].There {
			continue
		}
		at := home
		for range MostLinks {
			if observed.Paths[at].Kind != host.Link {
				break
			}
			at = LinkedTo(at, observed.Paths[at].Target)
		}
		is := observed.Paths[at]
		var why string
		switch {
		case is.Kind == host.Unsafe:
			why = observed.Unsafe[at]
		case is.Kind == host.Absent && at == home, is.Kind == host.Dir && is.Owner.UID == owner:
			continue
		case is.Kind == host.Dir:
			why = fmt.Sprintf("the home directory of %s belongs to uid %d and not to uid %d; give it to that user (chown), or name another home directory", u.Name, is.Owner.UID, owner)
		default:
			why = fmt.Sprintf("the home directory of %s is a link that leads to no directory; make the directory, or name another home directory", u.Name)
		}
		if at != home && is.Kind == host.Dir {
			why = fmt.Sprintf("it is a link to %s; %s", at, why)
		}
		refusals = append(refusals, policy.OnNode(policy.CheckOwners, "passwd.users "+u.Name+" "+home, why))
	}
	return refusals
}
