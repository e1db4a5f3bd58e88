package mcs

import (
	"fmt"
	"path"
	"slices"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/internal/secretmask"
)

type withholder struct {
	// only files whose contents are unresolved, because the machine may have the other secrets
	onlyUnresolved bool

	secretPaths secretmask.Paths // secretPaths are the paths that users marked as secret.
	withheld    []string         // withheld has the items that are left out; the machine gets them after it has joined.
	needed      []string         // needed has the secret fields that the machine cannot get later.
}

// joinPaths are files without which a machine cannot join the cluster.
var joinPaths = []string{KubeconfigPath, "/etc/kubernetes/bootstrap-kubelet.conf", "/etc/kubernetes/kubelet.conf"}

func (w *withholder) leaveOut(format string, args ...any) {
	w.withheld = append(w.withheld, fmt.Sprintf(format, args...))
}

func (w *withholder) need(field string, secret bool) {
	if secret {
		w.needed = append(w.needed, field)
	}
}

func (w *withholder) storage(s ign.Storage) ign.Storage {
	gone := map[string]bool{}
	s.Files = without(s.Files, func(f ign.File) bool {
		hidden := slices.ContainsFunc(append([]ign.Resource{f.Contents}, f.Append...), func(r ign.Resource) bool {
			return w.secretResource(f.Path, r)
		})
		if slices.Contains(joinPaths, f.Path) {
			w.need("storage.files["+f.Path+"]", hidden)
			return false
		}
		if hidden {
			gone[f.Path] = true
			w.leaveOut("file %s", f.Path)
		}
		return hidden
	})
	// Also hard links to withheld files, and to such links: they would stop the machine's first boot.
	for before := -1; before != len(s.Links); {
		before = len(s.Links)
		s.Links = without(s.Links, func(l ign.Link) bool {
			hangs := l.Hard != nil && *l.Hard && l.Target != nil && gone[path.Join("/", *l.Target)]
			if hangs {
				gone[l.Path] = true
				w.leaveOut("link %s", l.Path)
			}
			return hangs
		})
	}
	if w.onlyUnresolved {
		return s
	}
	for _, l := range s.Luks {
		w.need("storage.luks["+l.Name+"].keyFile", l.KeyFile.Source != nil)
	}
	return s
}

func (w *withholder) units(units []ign.Unit) []ign.Unit {
	units = without(units, func(u ign.Unit) bool {
		hidden := u.Contents != nil && *u.Contents != "" && w.secretPaths.Match(u.Name)
		if hidden {
			w.leaveOut("unit %s", u.Name)
		}
		return hidden
	})
	for i, u := range units {
		units[i].Dropins = without(u.Dropins, func(d ign.Dropin) bool {
			hidden := d.Contents != nil && *d.Contents != "" && w.secretPaths.Match(u.Name+".d/"+d.Name)
			if hidden {
				w.leaveOut("drop-in %s of unit %s", d.Name, u.Name)
			}
			return hidden
		})
	}
	return units
}

func (w *withholder) passwd(p ign.Passwd) ign.Passwd {
	p.Users = slices.Clone(p.Users)
	for i, u := range p.Users {
		if u.PasswordHash != nil && *u.PasswordHash != "" {
			p.Users[i].PasswordHash = nil
			w.leaveOut("password of user %s", u.Name)
		}
	}
	for _, g := range p.Groups {
		w.need("passwd.groups["+g.Name+"].passwordHash", g.PasswordHash != nil && *g.PasswordHash != "")
	}
	return p
}

// secretResource reports whether contents are declared as secret. An empty file at a marked path has no secret.
func (w *withholder) secretResource(file string, r ign.Resource) bool {
	if r.Source != nil && machineconfig.IsUnresolved(*r.Source) {
		return true
	}
	if w.onlyUnresolved || !w.secretPaths.Match(file) {
		return false
	}
	data, err := machineconfig.Contents(r)
	return err != nil || len(data) > 0
}
