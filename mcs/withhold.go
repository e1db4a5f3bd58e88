package mcs

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/policy"
)

// withholder takes the secrets out of a config.
type withholder struct {
	withheld []string // what is left out, for a machine to get when it has joined
	bound    []string // fields that a machine cannot get later
}

// profiles is where NetworkManager keeps its connections. For who prints them all of them are secrets, as many are; a
// machine without those that are none may never join, to get them.
const profiles = "/etc/NetworkManager/system-connections/"

// profileSecrets are the secrets of a connection that no other file has; a tunnel's may be called anything.
var profileSecrets = regexp.MustCompile(`(?m)^\s*((wep-key\d|pin|password-raw|mka-cak)\s*=\s*\S|\[vpn-secrets\])`)

// ways into a cluster: a machine without them does not join, to get them.
var ways = []string{KubeconfigPath, "/etc/kubernetes/bootstrap-kubelet.conf", "/etc/kubernetes/kubelet.conf"}

// withhold returns a config without what policy.Secret tells to be secret (but see profiles and ways), what was left out, and the fields that are
// secret and cannot be left out: a machine needs them before it can ask anybody again. The lists are new: the caller's stay.
// The config is flat, so nothing stands in another config.
func withhold(c machineconfig.Config) (machineconfig.Config, []string, []string) {
	w := &withholder{}
	c.Ignition.Storage = w.storage(c.Ignition.Storage)
	c.Ignition.Systemd.Units = w.units(c.Ignition.Systemd.Units)
	c.Ignition.Passwd = w.passwd(c.Ignition.Passwd)
	w.ignition(c.Ignition.Ignition)
	for i, arg := range c.Ignition.KernelArguments.ShouldExist {
		w.bind(fmt.Sprintf("kernelArguments.shouldExist[%d]", i), secretText(string(arg)))
	}
	for i, arg := range c.KernelArguments {
		w.bind(fmt.Sprintf("spec.kernelArguments[%d]", i), secretText(arg))
	}
	return c, w.withheld, w.bound
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
		secret := slices.ContainsFunc(append([]ign.Resource{f.Contents}, f.Append...), func(r ign.Resource) bool { return secretResource(f.Path, r) })
		if slices.Contains(ways, f.Path) {
			w.bind("storage.files["+f.Path+"]", secret)
			return false
		}
		if secret {
			gone[f.Path] = true
			w.leaveOut("file %s", f.Path)
		}
		return secret
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
		secret := u.Contents != nil && secretText(*u.Contents)
		if secret {
			w.leaveOut("unit %s", u.Name)
		}
		return secret
	})
	for i, u := range units {
		units[i].Dropins = without(u.Dropins, func(d ign.Dropin) bool {
			secret := d.Contents != nil && secretText(*d.Contents)
			if secret {
				w.leaveOut("drop-in %s of unit %s", d.Name, u.Name)
			}
			return secret
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
		w.bind(fmt.Sprintf("ignition.security.tls.certificateAuthorities[%d]", n), secretResource("", r))
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
func secretResource(file string, r ign.Resource) bool {
	for _, h := range r.HTTPHeaders {
		if h.Value != nil && secretText(h.Name+": "+*h.Value) {
			return true
		}
	}
	data, err := machineconfig.Contents(r)
	switch {
	case errors.Is(err, machineconfig.ErrNotInline):
		return policy.Secret(file, []byte(*r.Source))
	case err != nil:
		return true
	}
	if strings.HasPrefix(file, profiles) {
		return policy.Secret("", data) || profileSecrets.Match(data)
	}
	if slices.Contains(ways, file) {
		return policy.Secret("", data)
	}
	return policy.Secret(file, data)
}

func secretText(text string) bool { return policy.Secret("", []byte(text)) }
