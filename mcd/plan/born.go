package plan

import (
	"bytes"
	"path"
	"slices"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/policy/secret"
)

// Born is a config as a machine was born with it whose first config came without its secrets: less the files, contents of
// units, drop-ins and passwords that are not there, or that are secret and other than the config says. A hard link goes with
// its file. Whatever else differs stays in it, because somebody changed it: that is drift. Who withheld what is not asked,
// for a server may hold other things for secret than this daemon does. Observed covers ScopeOf what the config wants on the
// machine with these accounts; the config is not changed.
func Born(whole Named, accounts host.Accounts, observed host.State) machineconfig.Config {
	c := machineconfig.Flattened(whole.Config)
	b := newborn{seen: observed, wants: Want(whole.Config, accounts), marked: whole.Secrets, missing: map[string]bool{}}
	s := &c.Ignition.Storage
	s.Files = slices.DeleteFunc(slices.Clone(s.Files), func(f ign.File) bool { return b.lacks(path.Clean(f.Path), path.Clean(f.Path)) })
	s.Links = slices.DeleteFunc(slices.Clone(s.Links), b.lacksLink)
	units := c.Ignition.Systemd.Units
	c.Ignition.Systemd.Units = nil
	for _, u := range units {
		if u, there := b.unit(u); there {
			c.Ignition.Systemd.Units = append(c.Ignition.Systemd.Units, u)
		}
	}
	c.Ignition.Passwd.Users = slices.Clone(c.Ignition.Passwd.Users)
	for i, u := range c.Ignition.Passwd.Users {
		if b.lacksPassword(u) {
			c.Ignition.Passwd.Users[i].PasswordHash = nil
		}
	}
	return c
}

// newborn is a machine beside its first config.
type newborn struct {
	seen  host.State
	wants Wanted
	// marked are the paths that users mark as secret.
	marked secret.Paths
	// missing are the paths that it lacks.
	missing map[string]bool
}

// lacks tells that a wanted path is not there, or secret and other than wanted. What is told from its content alone whether
// it is secret has no name.
func (b newborn) lacks(p, name string) bool {
	want, wanted := b.wants.Paths[p]
	is := b.seen.Paths[p]
	lacks := wanted && want.Kind != host.Absent && (is.Kind == host.Absent ||
		want.Kind == host.File && !b.holds(p, is, want) && (b.marked.Match(p) || secret.Path(name) || secret.Is(name, string(b.wants.Contents[want.Digest]))))
	b.missing[p] = b.missing[p] || lacks
	return lacks
}

// holds tells that a path has the content that is wanted there, whoever may read it.
func (b newborn) holds(p string, is, want host.Entry) bool {
	if tail, appends := b.wants.Appends[p]; appends {
		return is.Kind == host.File && bytes.HasSuffix(b.seen.Contents[is.Digest], tail)
	}
	return is.Kind == host.File && is.Digest == want.Digest
}

func (b newborn) lacksLink(l ign.Link) bool {
	return l.Hard != nil && *l.Hard && l.Target != nil && b.missing[path.Clean(path.Join("/", *l.Target))] &&
		b.seen.Paths[path.Clean(l.Path)].Kind == host.Absent
}

// unit is what the machine was born with of a unit; false for nothing. Where a part of it is missing, it could not be
// enabled, or not as the config means it.
func (b newborn) unit(u ign.Unit) (ign.Unit, bool) {
	before := len(u.Dropins)
	u.Dropins = slices.DeleteFunc(slices.Clone(u.Dropins), func(d ign.Dropin) bool { return b.lacks(DropinPath(u.Name, d.Name), "") })
	part := len(u.Dropins) < before
	if b.lacks(UnitPath(u.Name), "") {
		part, u.Contents, u.Mask = true, nil, nil
	}
	if part {
		u.Enabled = nil
	}
	return u, !part || u.Contents != nil || u.Mask != nil || len(u.Dropins) > 0
}

// lacksPassword tells that a user who is there has another password than the config says.
func (b newborn) lacksPassword(u ign.PasswdUser) bool {
	is := b.seen.Users[u.Name]
	want, wanted := usersOf(b.wants)[u.Name]
	return wanted && want.Says.Password && is.There && is.Password != want.New.Password
}
