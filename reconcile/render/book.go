package render

import (
	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/policy"
)

// entry is one thing that a config sets.
type entry struct {
	kind policy.ChangeKind
	name string
}

// book keeps who set what.
type book struct {
	// last is the input that set an entry last.
	last map[entry]string
	// all are the inputs that set it, in order.
	all map[entry][]string
}

func newBook() *book { return &book{map[entry]string{}, map[entry][]string{}} }

func (b *book) set(input string, kind policy.ChangeKind, name string) {
	e := entry{kind, name}
	b.last[e] = input
	b.all[e] = append(b.all[e], input)
}

// ignition records an Ignition config.
func (b *book) ignition(input string, c ign.Config) {
	for _, f := range c.Storage.Files {
		b.node(input, policy.KindFile, f.Path)
	}
	for _, d := range c.Storage.Directories {
		b.node(input, policy.KindDirectory, d.Path)
	}
	for _, l := range c.Storage.Links {
		b.node(input, policy.KindLink, l.Path)
	}
	for _, u := range c.Systemd.Units {
		b.set(input, policy.KindUnit, u.Name)
	}
	for _, u := range c.Passwd.Users {
		b.set(input, policy.KindUser, u.Name)
	}
	for _, g := range c.Passwd.Groups {
		b.set(input, policy.KindGroup, g.Name)
	}
	for _, list := range [][]string{keys(nil, c.Storage.Disks), keys(nil, c.Storage.Filesystems), keys(nil, c.Storage.Raid), keys(nil, c.Storage.Luks)} {
		for _, name := range list {
			b.set(input, policy.KindStorage, name)
		}
	}
	if len(c.KernelArguments.ShouldExist)+len(c.KernelArguments.ShouldNotExist) > 0 {
		b.set(input, policy.KindFirstBootKargs, "")
	}
}

// node records a path, of which the last kind counts: a link at a file's path takes the file away.
func (b *book) node(input string, kind policy.ChangeKind, path string) {
	for _, other := range []policy.ChangeKind{policy.KindFile, policy.KindDirectory, policy.KindLink} {
		if other != kind {
			delete(b.last, entry{other, path})
			delete(b.all, entry{other, path})
		}
	}
	b.set(input, kind, path)
}
