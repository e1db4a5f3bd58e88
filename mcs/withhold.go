package mcs

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/policy/secret"
)

// withholder takes the secrets out of a config.
type withholder struct {
	marked   secret.Paths // what users mark as secret
	withheld []string     // what is left out, for a machine to get when it has joined
	bound    []string     // fields that a machine cannot get later
}

// profiles is where NetworkManager keeps its connections. A machine without those that hold no secret may never join, to get
// them: their path does not make them secret.
const profiles = "/etc/NetworkManager/system-connections/"

// ways into a cluster: a machine without them does not join, to get them.
var ways = []string{KubeconfigPath, "/etc/kubernetes/bootstrap-kubelet.conf", "/etc/kubernetes/kubelet.conf"}

// withhold returns a config without what is secret: what users mark, files that are secret by their path (but see profiles and
// ways), and what holds a secret by the rules of package secret. It also returns what was left out, and the fields that are
// secret and cannot be left out: a machine needs them before it can ask anybody again, or nothing adds them later. The lists are new: the caller's stay.
// The config is flat, so nothing stands in another config.
func withhold(c machineconfig.Config, marked secret.Paths) (machineconfig.Config, []string, []string) {
	w := &withholder{marked: marked}
	c.Ignition.Storage = w.storage(c.Ignition.Storage)
	c.Ignition.Systemd.Units = w.units(c.Ignition.Systemd.Units)
	c.Ignition.Passwd = w.passwd(c.Ignition.Passwd)
	w.ignition(c.Ignition.Ignition)
	w.fields(c)
	return c, w.withheld, w.bound
}

// marked are the paths that users mark as secret. The controller has checked the annotation; a pattern that cannot be read
// matches nothing.
func marked(rendered *mcfgv1.MachineConfig) secret.Paths {
	paths, _ := secret.ParsePaths(rendered.Annotations[v1alpha1.SecretPathsAnnotation])
	return paths
}

func (w *withholder) leaveOut(format string, args ...any) {
	w.withheld = append(w.withheld, fmt.Sprintf(format, args...))
}

func (w *withholder) bind(field string, secret bool) {
	if secret {
		w.bound = append(w.bound, field)
	}
}

func (w *withholder) storage(s ign.Storage) ign.Storage {
	gone := map[string]bool{}
	s.Files = without(s.Files, func(f ign.File) bool {
		hidden := slices.ContainsFunc(append([]ign.Resource{f.Contents}, f.Append...), func(r ign.Resource) bool { return w.secretResource(f.Path, r) })
		if slices.Contains(ways, f.Path) {
			w.bind("storage.files["+f.Path+"]", hidden)
			return false
		}
		if hidden {
			gone[f.Path] = true
			w.leaveOut("file %s", f.Path)
		}
		return hidden
	})
	// A hard link to what is not there would stop the machine's first boot; and so one to that link.
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
	for _, l := range s.Luks {
		at := "storage.luks[" + l.Name + "]"
		w.bind(at+".keyFile", l.KeyFile.Source != nil)
		w.bind(at+".clevis.custom.config", l.Clevis.Custom.Config != nil)
	}
	return s
}

func (w *withholder) units(units []ign.Unit) []ign.Unit {
	units = without(units, func(u ign.Unit) bool {
		hidden := u.Contents != nil && w.marked.Is(u.Name, *u.Contents)
		if hidden {
			w.leaveOut("unit %s", u.Name)
		}
		return hidden
	})
	for i, u := range units {
		units[i].Dropins = without(u.Dropins, func(d ign.Dropin) bool {
			hidden := d.Contents != nil && w.marked.Is(u.Name+".d/"+d.Name, *d.Contents)
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
		w.bind("passwd.groups["+g.Name+"].passwordHash", g.PasswordHash != nil && *g.PasswordHash != "")
	}
	return p
}

// ignition looks at what Ignition uses itself: whom it believes, and by what way it goes.
func (w *withholder) ignition(i ign.Ignition) {
	for n, r := range i.Security.TLS.CertificateAuthorities {
		w.bind(fmt.Sprintf("ignition.security.tls.certificateAuthorities[%d]", n), w.secretResource("", r))
	}
	for _, p := range []struct {
		field string
		url   *string
	}{{"httpProxy", i.Proxy.HTTPProxy}, {"httpsProxy", i.Proxy.HTTPSProxy}} {
		w.bind("ignition.proxy."+p.field, p.url != nil && secretText(*p.url))
	}
}

// secretResource tells whether a resource's contents are secret, or the way to them where they are elsewhere. What cannot
// be read is not shown.
func (w *withholder) secretResource(file string, r ign.Resource) bool {
	for _, h := range r.HTTPHeaders {
		if h.Value != nil && secretText(h.Name+": "+*h.Value) {
			return true
		}
	}
	byPath := w.marked.Match(file) || file != "" && secret.Path(file) && !strings.HasPrefix(file, profiles) && !slices.Contains(ways, file)
	data, err := machineconfig.Contents(r)
	switch {
	case errors.Is(err, machineconfig.ErrNotInline):
		return byPath || secretText(*r.Source)
	case err != nil:
		return true
	}
	return byPath && len(data) > 0 || secret.Is(file, string(data))
}

func secretText(text string) bool { return secret.Is("", text) }
