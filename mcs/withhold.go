package mcs

import (
	"fmt"
	"path"
	"slices"
	"strings"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// withoutSecrets puts the resolved contents of secrets into the config, or leaves out those that the machine may not
// have, and returns their names.
func (in Input) withoutSecrets(config machineconfig.Config) (machineconfig.Config, []string, error) {
	if !in.Withhold && in.Secrets != nil {
		resolved, err := machineconfig.ResolveSecrets(config, in.Secrets.Contents)
		if err != nil {
			return config, nil, fmt.Errorf("resolving the secrets of config %s: %w", in.Rendered.Name, err)
		}
		return resolved, nil, nil
	}
	var withheld, needed []string
	if in.Withhold {
		config.Ignition.Storage = removePaths(config.Ignition.Storage, in.addedPaths()...)
		config, withheld, needed = withhold(config, secretPathsOf(in.Rendered))
	} else {
		config, withheld, needed = withholdUnresolved(config)
	}
	if len(needed) > 0 {
		return config, nil, &FirstBootSecretsError{Config: in.Rendered.Name, Fields: needed}
	}
	return config, withheld, nil
}

// withholdUnresolved is withhold for a machine that may have the secrets, where only the contents of references are not
// known.
func withholdUnresolved(c machineconfig.Config) (machineconfig.Config, []string, []string) {
	w := &withholder{onlyUnresolved: true}
	c.Ignition.Storage = w.storage(c.Ignition.Storage)
	return c, w.withheld, w.needed
}

// withhold returns a config without what documents declare as secret: unresolved files, paths that owners mark, and the
// hashes of passwords. It also returns what was withheld, and the secret fields that the machine needs before it joins
// or that no program adds later. The caller's lists do not change. The config must be flat.
func withhold(c machineconfig.Config, marked secretmask.Paths) (machineconfig.Config, []string, []string) {
	w := &withholder{secretPaths: marked}
	c.Ignition.Storage = w.storage(c.Ignition.Storage)
	c.Ignition.Systemd.Units = w.units(c.Ignition.Systemd.Units)
	c.Ignition.Passwd = w.passwd(c.Ignition.Passwd)
	return c, w.withheld, w.needed
}

// secretPathsOf returns what users marked. The controller has validated the annotation; an invalid pattern matches
// nothing.
func secretPathsOf(rendered *mcfgv1.MachineConfig) secretmask.Paths {
	paths, _ := secretmask.ParsePaths(rendered.Annotations[v1alpha1.SecretPathsAnnotation])
	return paths
}

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

// FirstBootSecretsError says that a config has secrets that a machine needs for its first boot, so the server serves
// all of it or none.
type FirstBootSecretsError struct {
	// of the rendered config
	Config string
	// of the secrets in the config, such as storage.luks[root].keyFile; never empty
	Fields []string
}

// Error names the config and every field, and what to do.
func (e *FirstBootSecretsError) Error() string {
	return fmt.Sprintf("config %s has secrets that a machine needs for its first boot (%s): "+
		"ask with a token of the node: bunsen token create --node", e.Config, strings.Join(e.Fields, ", "))
}
