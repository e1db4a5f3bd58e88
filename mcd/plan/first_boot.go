package plan

import (
	"bytes"
	"path"
	"slices"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/secretmask"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// AtFirstBoot returns a config without the secrets that the server withheld from a machine's first config. AtFirstBoot
// leaves out files, contents of units, drop-ins and passwords that do not exist on the machine, or that are marked as
// secret and differ from the config, and hard links to such files. All other differences are drift, so they stay in the
// config. The result follows from the machine alone, because a server may treat other contents as secret than this
// daemon. The parameter observed must cover ScopeOf the config.
func AtFirstBoot(whole Config, accounts host.Accounts, observed host.State) machineconfig.Config {
	c := machineconfig.Flattened(whole.Config)
	b := firstBootConfig{
		seen: observed, wanted: DesiredOf(whole.Config, accounts), marked: whole.Secrets,
		missing: map[string]bool{},
	}
	s := &c.Ignition.Storage
	s.Files = slices.DeleteFunc(slices.Clone(s.Files), func(f ign.File) bool {
		return b.lacks(path.Clean(f.Path))
	})
	s.Links = slices.DeleteFunc(slices.Clone(s.Links), b.lacksLink)
	units := c.Ignition.Systemd.Units
	c.Ignition.Systemd.Units = nil
	for _, u := range units {
		if u, there := b.startedUnit(u); there {
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

// firstBootConfig compares a machine with its first config.
type firstBootConfig struct {
	seen   host.State
	wanted Desired
	// marked are the paths that users mark as secret.
	marked secretmask.Paths
	// missing are the paths that the machine lacks.
	missing map[string]bool
}

// lacks reports whether a wanted path does not exist, or is marked as secret and differs.
func (b firstBootConfig) lacks(p string) bool {
	want, wanted := b.wanted.Paths[p]
	is := b.seen.Paths[p]
	lacks := wanted && want.Kind != host.Absent && (is.Kind == host.Absent ||
		want.Kind == host.File && !b.hasContent(p, is, want) && b.marked.Match(p))
	b.missing[p] = b.missing[p] || lacks
	return lacks
}

// hasContent reports whether a path has the wanted content.
func (b firstBootConfig) hasContent(p string, is, want host.Entry) bool {
	if tail, appends := b.wanted.Appends[p]; appends {
		return is.Kind == host.File && bytes.HasSuffix(b.seen.Contents[is.Digest], tail)
	}
	return is.Kind == host.File && is.Digest == want.Digest
}

func (b firstBootConfig) lacksLink(l ign.Link) bool {
	return l.Hard != nil && *l.Hard && l.Target != nil && b.missing[path.Clean(path.Join("/", *l.Target))] &&
		b.seen.Paths[path.Clean(l.Path)].Kind == host.Absent
}

// startedUnit returns the part of a unit with which the machine first booted; false if there is none. In the result, a
// unit with a missing part is not enabled.
func (b firstBootConfig) startedUnit(u ign.Unit) (ign.Unit, bool) {
	before := len(u.Dropins)
	u.Dropins = slices.DeleteFunc(slices.Clone(u.Dropins), func(d ign.Dropin) bool {
		return b.lacks(DropinPath(u.Name, d.Name))
	})
	part := len(u.Dropins) < before
	if b.lacks(UnitPath(u.Name)) {
		part, u.Contents, u.Mask = true, nil, nil
	}
	if part {
		u.Enabled = nil
	}
	return u, !part || u.Contents != nil || u.Mask != nil || len(u.Dropins) > 0
}

// lacksPassword reports whether an existing user has another password than the config specifies.
func (b firstBootConfig) lacksPassword(u ign.PasswdUser) bool {
	is := b.seen.Users[u.Name]
	want, wanted := usersOf(b.wanted)[u.Name]
	return wanted && want.Specified.Password && is.There && is.Password != want.Account.Password
}
