package hosttest

import (
	"testing"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// AccountConformance tests only users and groups, for implementations that are not a whole host.
func AccountConformance(t *testing.T, open func(*testing.T) host.Host) {
	for _, c := range accountConformance {
		t.Run(c.says, func(t *testing.T) { c.check(probe{t, open(t)}) })
	}
}

// accountConformance has the tests of AccountConformance.
var accountConformance = []struct {
	says  string
	check func(probe)
}{
	{"the host reads a user with groups and password, and returns the zero user for a missing one", func(p probe) {
		u, hash, err := p.h.Passwd.User(p.ctx(), "guest")
		p.ok(err)
		want := host.User{
			There: true, UID: 1200, GID: 1200, Gecos: "A guest", Home: "/home/guest", Shell: "/bin/sh",
			Groups: "wheel", Password: host.DigestOf([]byte("$6$guest")),
		}
		if u != want || string(hash) != "$6$guest" {
			p.t.Errorf("it is %+v", u)
		}
		p.user("none", host.User{})
		p.group("wheel", host.Group{There: true, GID: 10, Members: "guest"})
		p.group("none", host.Group{})
	}},
	{"the host creates, changes and removes a user, each twice, and keeps all further users", func(p probe) {
		guest, _, err := p.h.Passwd.User(p.ctx(), "guest")
		p.ok(err)
		alice := p.account("alice", host.User{
			UID: 1500, GID: 1000, Gecos: "Alice", Home: "/home/alice",
			Shell: "/bin/bash", Groups: "core,wheel",
		}, "$6$alice")
		alice.Gecos, alice.Home, alice.Shell, alice.Groups, alice.GID = "", "/srv/alice", "/bin/sh", "", 10
		p.account("alice", alice, "*")
		p.is("/srv/alice", host.Entry{})
		p.account("alice", alice, "")
		for range 2 {
			p.ok(p.h.Passwd.SetUser(p.ctx(), "alice", host.User{}, nil))
			p.user("alice", host.User{})
		}
		p.user("guest", guest)
	}},
	{"the host creates a system user with a small number", func(p probe) {
		p.account("daemonic", host.User{UID: 700, GID: 10, Home: "/", Shell: "/sbin/nologin"}, "*")
	}},
	{"after the host removes a user, the home directory and all groups stay", func(p probe) {
		p.ok(p.h.Files.Mkdir("/home/guest", host.Entry{Mode: 0o700}))
		p.ok(p.h.Passwd.SetUser(p.ctx(), "guest", host.User{}, nil))
		p.group("wheel", host.Group{There: true, GID: 10})
		p.group("guest", host.Group{There: true, GID: 1200})
		p.is("/home/guest", host.Entry{Kind: host.Dir, Mode: 0o700})
	}},
	{"the host creates a group, adds missing members, and removes the group", func(p probe) {
		team := host.Group{There: true, GID: 2000}
		for range 2 {
			p.ok(p.h.Passwd.SetGroup(p.ctx(), "team", team))
			p.group("team", team)
		}
		team.Members = "core,guest"
		for range 2 {
			p.ok(p.h.Passwd.SetGroup(p.ctx(), "team", team))
			p.group("team", team)
		}
		p.ok(p.h.Passwd.SetGroup(p.ctx(), "team", host.Group{There: true, GID: 2000}))
		p.group("team", team)
		for range 2 {
			p.ok(p.h.Passwd.SetGroup(p.ctx(), "team", host.Group{}))
			p.group("team", host.Group{})
		}
		p.user("none", host.User{})
	}},
	{"a user in a missing group, and an invalid password hash, are errors", func(p probe) {
		u := host.User{
			There: true, UID: 1500, GID: 10, Home: "/", Shell: "/bin/sh", Groups: "none",
			Password: host.DigestOf(nil),
		}
		p.fails(p.h.Passwd.SetUser(p.ctx(), "alice", u, nil), nil)
		u.Groups = ""
		for _, hash := range []string{"a:b", "a\nroot:b"} {
			u.Password = host.DigestOf([]byte(hash))
			p.fails(p.h.Passwd.SetUser(p.ctx(), "alice", u, []byte(hash)), nil)
		}
	}},
	{"the host lists the files of a new home directory, parents first", func(p probe) {
		p.ok(p.h.Files.Mkdir("/etc/skel/dir", host.Entry{Mode: 0o755}))
		p.write("/etc/skel/dir/file", 0o600, "x")
		files, err := p.h.Passwd.Skeleton(p.ctx())
		p.ok(err)
		var got []string
		for _, f := range files {
			got = append(got, f.Path+" "+f.Entry.String()+" "+string(f.Contents))
		}
		want := []string{
			".bashrc " + host.Entry{
				Kind: host.File, Mode: 0o644,
				Digest: host.DigestOf([]byte(Base["/etc/skel/.bashrc"])),
			}.String() + " " + Base["/etc/skel/.bashrc"],
			"dir dir 0755 ", "dir/file file 0600 " + host.DigestOf([]byte("x")).Short() + " x",
		}
		if len(got) != len(want) {
			p.t.Fatalf("it holds %q, want %q", got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				p.t.Errorf("it holds %q, want %q", got[i], want[i])
			}
		}
	}},
}
