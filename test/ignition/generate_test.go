package ignition

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"math/rand/v2"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/vincent-petithory/dataurl"
)

// dice makes configs out of few names, so that two of them often speak about the same.
type dice struct{ *rand.Rand }

// config is one config. Whatever it says, a running node takes: the refusals of package disruption have tests of
// their own.
func (d dice) config() ign.Config {
	c := ign.Config{Ignition: ign.Ignition{Version: "3.5.0"}}
	d.files(&c)
	d.directories(&c)
	d.links(&c)
	d.units(&c)
	d.groups(&c)
	d.users(&c)
	return c
}

// once is true once in n times.
func (d dice) once(n int) bool { return d.IntN(n) == 0 }

func pick[T any](d dice, of ...T) T { return of[d.IntN(len(of))] }

func ptr[T any](v T) *T { return &v }

// owner gives a node an owner by number, by name, or none.
func (d dice) owner(n *ign.Node) {
	switch d.IntN(6) {
	case 0:
		n.User.ID = ptr(1000)
	case 1:
		n.User.Name, n.Group.Name = ptr("core"), ptr("wheel")
	case 2:
		n.Group.ID = ptr(10)
	case 3:
		n.User.ID, n.Group.ID = ptr(4242), ptr(4343)
	}
}

func (d dice) files(c *ign.Config) {
	for _, p := range []string{
		"/etc/motd", "/etc/chrony.conf", "/etc/app/app.conf", "/etc/new/deep/file",
		"/etc/new/other", "/opt/x/y", "/var/lib/app/data", "/usr/local/bin/tool", "/etc/größe 1",
	} {
		if d.once(2) {
			continue
		}
		_, there := image[p[1:]]
		f := ign.File{Node: ign.Node{Path: p}}
		if d.once(2) {
			f.Mode = ptr(pick(d, 0o600, 0o644, 0o755, 0o444, 0))
		}
		d.owner(&f.Node)
		switch d.IntN(4) {
		case 0: // as it is, or empty
		case 1:
			f.Append = []ign.Resource{d.resource(), d.resource()}[:1+d.IntN(2)]
		default:
			f.Contents = d.resource()
			if there || d.once(2) {
				f.Overwrite = ptr(true)
			}
			if d.once(4) {
				f.Append = []ign.Resource{d.resource()}
			}
		}
		c.Storage.Files = append(c.Storage.Files, f)
	}
	d.Shuffle(len(c.Storage.Files), func(i, j int) {
		c.Storage.Files[i], c.Storage.Files[j] = c.Storage.Files[j], c.Storage.Files[i]
	})
}

// resource is some contents in some encoding.
func (d dice) resource() ign.Resource {
	text := pick(d, "", "one\n", "two\n", "no newline", "\x00\xff binary \n", "100 % of a + b\n")
	var r ign.Resource
	switch d.IntN(4) {
	case 0:
		r.Source = ptr("data:;base64," + base64.StdEncoding.EncodeToString([]byte(text)))
	case 1:
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write([]byte(text)) // a buffer takes all
		_ = w.Close()
		r.Source, r.Compression = ptr("data:;base64,"+base64.StdEncoding.EncodeToString(packed.Bytes())), ptr("gzip")
	default:
		r.Source = ptr("data:," + dataurl.Escape([]byte(text)))
	}
	if d.once(5) {
		sum := sha256.Sum256([]byte(text))
		r.Verification.Hash = ptr("sha256-" + hex.EncodeToString(sum[:]))
	}
	return r
}

func (d dice) directories(c *ign.Config) {
	for _, p := range []string{
		"/etc/app", "/etc/new", "/etc/new/deep", "/srv/made", "/var/lib/made",
		"/home/shared/team",
	} {
		if !d.once(3) {
			continue
		}
		dir := ign.Directory{Node: ign.Node{Path: p}}
		if d.once(2) {
			dir.Mode = ptr(pick(d, 0o700, 0o755, 0o770))
		}
		d.owner(&dir.Node)
		// the daemon refuses a directory of one user below a directory that another user can change
		if strings.HasPrefix(p, "/etc/new") {
			if dir.User.ID != nil {
				dir.User.ID, dir.Group.ID = ptr(1000), nil
			}
			if dir.Mode != nil && *dir.Mode == 0o770 {
				dir.Mode = ptr(0o750)
			}
		}
		if p == "/srv/made" && d.once(2) {
			dir.Overwrite = ptr(true)
		}
		c.Storage.Directories = append(c.Storage.Directories, dir)
	}
}

func (d dice) links(c *ign.Config) {
	for _, link := range [][]string{
		{"/etc/alias", "motd", "/etc/chrony.conf", "nowhere"},
		{"/etc/localtime", "../usr/share/zoneinfo/Etc/UTC", "../usr/share/zoneinfo/Europe/Paris"},
		{"/usr/local/lib/mod", "/usr/bin/tool"},
		{"/etc/new/link", "../motd", "other"},
	} {
		if !d.once(3) {
			continue
		}
		l := ign.Link{Node: ign.Node{Path: link[0]}}
		l.Target = ptr(pick(d, link[1:]...))
		d.owner(&l.Node)
		if l.Path == "/etc/localtime" || d.once(3) {
			l.Overwrite = ptr(true)
		}
		c.Storage.Links = append(c.Storage.Links, l)
	}
	if d.once(2) {
		second := ign.Link{Node: ign.Node{Path: "/etc/second"}}
		second.Target, second.Hard = ptr(pick(d, "/etc/chrony.conf", "/etc/chrony.conf", "/usr/bin/tool")), ptr(true)
		c.Storage.Links = append(c.Storage.Links, second)
	}
}

// contents of units, each pulled in by something else; the first has an alias, which only one unit can have.
var contents = []string{
	"[Service]\nExecStart=/bin/a\n[Install]\nWantedBy=multi-user.target\nAlias=other.service\n",
	"[Service]\nExecStart=/bin/b\n[Install]\nRequiredBy=own.service\nWantedBy=multi-user.target sockets.target\n",
	"[Service]\nExecStart=/bin/c\n[Install]\nWantedBy=multi-user.target\n",
	"[Service]\nExecStart=/bin/static\n",
}

func (d dice) units(c *ign.Config) {
	for _, name := range []string{
		"a.service", "b.service", "brought.service", "vendor.service", "own.service",
		"own.socket", "static.service", "absent.service", "many@one.service", "many@two.service", "echo@.service",
		"echo@x.service",
	} {
		if d.once(2) {
			continue
		}
		u := ign.Unit{
			Name: name, Enabled: pick(d, nil, nil, ptr(true), ptr(true), ptr(false)),
			Mask: pick(d, nil, nil, nil, nil, ptr(true), ptr(false)),
		}
		switch name {
		case "a.service":
			u.Contents = ptr(pick(d, contents...))
		case "b.service":
			u.Contents = ptr(pick(d, contents[1:]...))
		case "brought.service":
			u.Contents, u.Enabled = ptr(pick(d, contents[1:]...)), pick(d, nil, ptr(true))
		case "echo@.service":
			u.Contents = ptr("[Service]\nExecStart=/bin/echo %i\n[Install]\nWantedBy=multi-user.target\n")
			u.Enabled = nil
		case "vendor.service":
			if d.once(3) {
				u.Contents = ptr(pick(d, contents[1:3]...)) // links of the image stay where a unit becomes static
			}
		case "own.socket":
			u.Enabled = pick(d, nil, ptr(true)) // own.service takes it along, whatever is said
		case "many@one.service", "many@two.service", "echo@x.service":
			if u.Mask != nil && *u.Mask {
				u.Enabled = nil // systemd passes over all instances that stand in one line with a masked one
			}
		}
		if d.once(3) {
			u.Dropins = append(u.Dropins,
				ign.Dropin{Name: "10-own.conf", Contents: pick(d, nil, ptr(""), ptr("[Service]\nNice=2\n"))})
		}
		if d.once(4) {
			u.Dropins = append(u.Dropins, ign.Dropin{Name: "20-more.conf", Contents: ptr("[Unit]\nDescription=More\n")})
		}
		c.Systemd.Units = append(c.Systemd.Units, u)
	}
	d.Shuffle(len(c.Systemd.Units), func(i, j int) {
		c.Systemd.Units[i], c.Systemd.Units[j] = c.Systemd.Units[j], c.Systemd.Units[i]
	})
}

func (d dice) groups(c *ign.Config) {
	for _, g := range []ign.PasswdGroup{
		{Name: "team"},
		{Name: "numbered", Gid: ptr(1800)},
		{Name: "daemons", System: ptr(true)},
	} {
		if d.once(2) {
			c.Passwd.Groups = append(c.Passwd.Groups, g)
		}
	}
}

// users keep their numbers and homes, and a way to log in: a running node refuses to change these.
func (d dice) users(c *ign.Config) {
	for _, u := range []ign.PasswdUser{
		{Name: "core"},
		{Name: "alice"},
		{Name: "bob", UID: ptr(1700), HomeDir: ptr("/var/home/bob")},
		{Name: "carol", NoCreateHome: ptr(true), NoUserGroup: ptr(true)},
		{Name: "backup", System: ptr(true), UID: ptr(701)},
		{Name: "ghost", ShouldExist: ptr(false)},
	} {
		if d.once(2) {
			continue
		}
		if u.ShouldExist == nil {
			d.account(&u, c)
		}
		c.Passwd.Users = append(c.Passwd.Users, u)
	}
}

func (d dice) account(u *ign.PasswdUser, c *ign.Config) {
	keys := []ign.SSHAuthorizedKey{
		"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOne one@example",
		"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAITwo two@example",
	}
	u.PasswordHash = pick(d, nil, ptr("$6$salt$one"), ptr("$6$salt$two"), ptr(""))
	if u.NoCreateHome != nil { // Ignition cannot write keys without a home
		u.PasswordHash = ptr("$6$salt$one")
	} else if u.PasswordHash == nil || d.once(2) {
		u.SSHAuthorizedKeys = keys[:1+d.IntN(2)]
	}
	if u.Name == "core" { // what else the image says of core, nobody knows once a first config has changed it
		return
	}
	u.Gecos = pick(d, nil, nil, ptr("One of us"))
	u.Shell = pick(d, nil, nil, ptr("/bin/sh"))
	if d.once(2) {
		u.Groups = append(u.Groups, pick(d, ign.Group("wheel"), ign.Group("adm")))
		for _, g := range c.Passwd.Groups {
			if d.once(2) {
				u.Groups = append(u.Groups, ign.Group(g.Name))
			}
		}
	}
}
