package disruption

import (
	"slices"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// IfChanged returns what a node would do if one item of its config changed: other contents of a file or a unit, another
// target of a link, another key of a user. It is false if the config does not have the item.
func IfChanged(c machineconfig.Config, kind ChangeKind, name string, p Policy) (Decision, bool) {
	from := part(machineconfig.Flattened(c), kind, name)
	to, ok := changed(from, kind, name)
	if !ok {
		return Decision{}, false
	}
	return Decide(from, to, p), true
}

// part returns what a decision about one item depends on: the item, the files of registries, which are compared
// together, and file systems, whose units only new nodes get. Everything else is equal in both configs.
func part(c machineconfig.Config, kind ChangeKind, name string) machineconfig.Config {
	i := &c.Ignition
	i.Storage.Files = slices.DeleteFunc(slices.Clone(i.Storage.Files), func(f ign.File) bool {
		return kind != KindFile || f.Path != name && !IsRegistriesFile(f.Path)
	})
	i.Systemd.Units = slices.DeleteFunc(slices.Clone(i.Systemd.Units), func(u ign.Unit) bool {
		return kind != KindUnit || u.Name != name
	})
	return c
}

// changed returns a copy of a config in which one item differs.
func changed(c machineconfig.Config, kind ChangeKind, name string) (machineconfig.Config, bool) {
	other := func(was *string) *string {
		text := "data:,other"
		if was != nil && *was == text {
			text += "s"
		}
		return &text
	}
	s, found := &c.Ignition.Storage, false
	switch kind {
	case KindFile:
		s.Files = slices.Clone(s.Files)
		i := slices.IndexFunc(s.Files, func(f ign.File) bool { return f.Path == name })
		if found = i >= 0; found {
			s.Files[i].Contents = ign.Resource{Source: other(s.Files[i].Contents.Source)}
		}
	case KindDirectory:
		s.Directories = slices.Clone(s.Directories)
		i := slices.IndexFunc(s.Directories, func(d ign.Directory) bool { return d.Path == name })
		if found = i >= 0; found {
			mode := 0o711
			if m := s.Directories[i].Mode; m != nil && *m == mode {
				mode = 0o755
			}
			s.Directories[i].Mode = &mode
		}
	case KindLink:
		s.Links = slices.Clone(s.Links)
		i := slices.IndexFunc(s.Links, func(l ign.Link) bool { return l.Path == name })
		if found = i >= 0; found {
			s.Links[i].Target = other(s.Links[i].Target)
		}
	case KindUnit:
		units := slices.Clone(c.Ignition.Systemd.Units)
		i := slices.IndexFunc(units, func(u ign.Unit) bool { return u.Name == name })
		if found = i >= 0; found {
			u := &units[i]
			switch {
			case u.Contents == nil && len(u.Dropins) > 0:
				u.Dropins = slices.Clone(u.Dropins)
				u.Dropins[0].Contents = other(u.Dropins[0].Contents)
			case u.Contents == nil && u.Enabled != nil:
				enabled := !*u.Enabled
				u.Enabled = &enabled
			default:
				u.Contents = other(u.Contents)
			}
		}
		c.Ignition.Systemd.Units = units
	case KindUser:
		users := slices.Clone(c.Ignition.Passwd.Users)
		i := slices.IndexFunc(users, func(u ign.PasswdUser) bool { return u.Name == name })
		if found = i >= 0; found {
			users[i].SSHAuthorizedKeys = append(slices.Clone(users[i].SSHAuthorizedKeys), "other")
		}
		c.Ignition.Passwd.Users = users
	case KindGroup:
		groups := slices.Clone(c.Ignition.Passwd.Groups)
		i := slices.IndexFunc(groups, func(g ign.PasswdGroup) bool { return g.Name == name })
		if found = i >= 0; found {
			gid := 1
			if groups[i].Gid != nil {
				gid += *groups[i].Gid
			}
			groups[i].Gid = &gid
		}
		c.Ignition.Passwd.Groups = groups
	case KindKargs:
		c.KernelArguments, found = append(slices.Clone(c.KernelArguments), "bunsen.other=1"), true
	case KindExtensions:
		c.Extensions, found = append(slices.Clone(c.Extensions), "other"), true
	case KindOSImage:
		c.OSImageURL, found = *other(&c.OSImageURL), true
	case KindKernelType:
		c.KernelType, found = *other(&c.KernelType), true
	}
	return c, found
}
