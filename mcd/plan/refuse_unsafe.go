package plan

import (
	"fmt"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// refuseUnsafe refuses paths that a user of the machine could redirect to files of another owner.
func refuseUnsafe(observed host.State, w Transition) (refusals []disruption.Refusal) {
	for p, why := range observed.Unsafe {
		_, wanted := w.New.Paths[p]
		_, had := w.Old.Paths[p]
		if wanted || had {
			refusals = append(refusals, disruption.OnNode(disruption.CheckOwners, p, why))
		}
	}
	return sortRefusals(refusals)
}

// refuseForeignHomes refuses SSH keys for a user whose home directory belongs to another user. refuseForeignHomes does
// not refuse keys of the current config.
func refuseForeignHomes(observed, target host.State, w Transition) (refusals []disruption.Refusal) {
	if observed.Accounts.Unprivileged {
		return nil
	}
	for _, u := range w.New.Users {
		keys, wanted := w.New.Keys[u.Name]
		home, owner := w.New.At(u.Account.Home), target.Users[u.Name].UID
		_, had := w.Old.Paths[w.Old.At(keys.Path)]
		_, moves := w.Old.Paths[w.Old.At(keys.Other)]
		if !wanted || had || moves || !target.Users[u.Name].There {
			continue
		}
		at := home
		for range host.MaxLinks {
			if observed.Paths[at].Kind != host.Link {
				break
			}
			at = host.LinkTarget(at, observed.Paths[at].Target)
		}
		is := observed.Paths[at]
		var why string
		switch {
		case is.Kind == host.Unsafe:
			why = observed.Unsafe[at]
		case is.Kind == host.Absent && at == home, is.Kind == host.Dir && is.Owner.UID == owner:
			continue
		case is.Kind == host.Dir:
			why = fmt.Sprintf("the home directory of %s belongs to uid %d and not to uid %d; give it to that user "+
				"(chown), or name another home directory", u.Name, is.Owner.UID, owner)
		default:
			why = fmt.Sprintf("the home directory of %s is a link that leads to no directory; make the directory, or "+
				"name another home directory", u.Name)
		}
		if at != home && is.Kind == host.Dir {
			why = fmt.Sprintf("it is a link to %s; %s", at, why)
		}
		refusals = append(refusals, disruption.OnNode(disruption.CheckOwners, "passwd.users "+u.Name+" "+u.Account.Home,
			why))
	}
	return refusals
}
