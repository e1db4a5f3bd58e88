package once_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/mcd/once"
)

// install is the section of a unit, and wanted is a unit of a config with it.
const (
	install = "[Install]\nWantedBy=a.target\n"
	wanted  = `"contents":"[Install]\nWantedBy=a.target\n"`
)

// oddMachine is a machine with something odd, and what happens to it.
type oddMachine struct {
	// has is on the machine before any config.
	has []string
	// then are configs, or changes by hand if the first line is "by hand".
	then [][]string
	// refuses is a part of the refusal of the last config; "" if the machine takes it.
	refuses string
	// says is a part of a note of the last plan; "" for none.
	says string
	// leaves are the lines by which the machine differs in the end from what it was.
	leaves []string
}

// machines are machines with something odd, and the configs that they get one after another. A line is a path:
//
//	/etc/a = text    a file
//	/etc/a += text   a file to which the config appends
//	/etc/a -> /b     a link
//	/etc/a == /b     a hard link
//	/etc/a/          a directory
//	/etc/a /= 1777   a directory with a mode
//	/etc/a |         a pipe, on a machine
//	/etc/a -         nothing; what is there goes
//	{"name":…}       a unit of a config
var machines = map[string]oddMachine{
	"a link of a config goes and a directory comes, to which it led by another link": {
		then: [][]string{
			{"/etc/foo -> bar", "/etc/bar -> ../var/lib/foo", "/var/lib/foo/x = 1"},
			{"/etc/foo/", "/etc/foo/x = 1"},
		},
	},
	"a directory becomes a link to where its file goes": {
		then: [][]string{{"/srv/data/x = 1"}, {"/srv/data -> /srv/new", "/srv/new/x = 1"}, {"/srv/data/x = 1"}},
	},
	"a link becomes a file": {
		then: [][]string{{"/srv/cur -> /srv/a", "/srv/a/x = 1"}, {"/srv/cur = 2"}},
	},
	"a file becomes a directory with a file, and a file again": {
		then: [][]string{{"/etc/a = 1"}, {"/etc/a/b = 2"}, {"/etc/a = 1"}},
	},
	"names that sort between a directory and its entries": {
		then: [][]string{{"/etc/a = 1", "/etc/a.d/x = 1"}, {"/etc/a/x = 1", "/etc/a-b = 2"}, {"/etc/a = 1"}},
	},
	"a directory of the machine with entries is no file": {
		has: []string{"/etc/a/own = mine"}, then: [][]string{{"/etc/a = 1"}}, refuses: `"own"`,
	},
	"an empty directory of the machine is a file, and comes back": {
		has: []string{"/etc/a/"}, then: [][]string{{"/etc/a = 1"}},
	},
	"a directory of the machine with entries is no link": {
		has: []string{"/srv/cur/own = mine"}, then: [][]string{{"/srv/cur -> a"}}, refuses: `"own"`,
	},
	"a link of the machine to nowhere is a file, and comes back": {
		has: []string{"/etc/a -> nowhere"}, then: [][]string{{"/etc/a = 1"}},
	},
	"a directory that is a link to nowhere": {
		has: []string{"/etc/conf -> /var/none"}, then: [][]string{{"/etc/conf/a = 1"}}, leaves: []string{"/var/none/"},
	},
	"a directory that is a link to nowhere, deeper": {
		has: []string{"/etc/conf -> /var/none/x"}, then: [][]string{{"/etc/conf/b/a = 1"}},
	},
	"a directory that is a link in a circle": {
		has: []string{"/etc/l1 -> l2", "/etc/l2 -> l1"}, then: [][]string{{"/etc/l1/a = 1"}}, refuses: "circle",
	},
	"a directory that is a link to a file": {
		has: []string{"/etc/conf -> /etc/group"}, then: [][]string{{"/etc/conf/a = 1"}}, refuses: "/etc/conf: ",
	},
	"a link above the root": {
		has:  []string{"/etc/up -> ../../../../var/up", "/var/up/"},
		then: [][]string{{"/etc/up/x = 1"}, {"/var/up/x = 1"}},
	},
	"a link with a slash behind it": {
		has: []string{"/etc/up -> .././var//up/", "/var/up/"}, then: [][]string{{"/etc/up/x = 1"}, {"/var/up/x = 1"}},
	},
	"Fedora's sbin": {
		has: []string{"/usr/sbin -> bin", "/usr/bin/"}, then: [][]string{{"/usr/sbin/t = 1"}, {"/usr/bin/t = 1"}},
	},
	"Fedora's sbin, named twice": {
		has: []string{"/usr/sbin -> bin", "/usr/bin/"}, then: [][]string{{"/usr/sbin/t = 1", "/usr/bin/t = 1"}},
		refuses: "same place",
	},
	"a merged directory below a merged directory": {
		has:  []string{"/sbin -> usr/sbin", "/usr/sbin -> bin", "/usr/bin/"},
		then: [][]string{{"/sbin/t = 1"}, {"/usr/bin/t = 2"}, {"/usr/sbin/t = 1"}},
	},
	"a directory of a config where the machine has a link to one": {
		has: []string{"/opt -> var/opt", "/var/opt/"}, then: [][]string{{"/opt/", "/opt/x = 1"}}, refuses: "/opt",
	},
	"a directory goes by one spelling and is a file by another": {
		has:  []string{"/opt -> var/opt", "/var/opt/"},
		then: [][]string{{"/opt/app/", "/opt/app/x = 1"}, {"/var/opt/app = 2"}, {"/opt/app/x = 1"}},
	},
	"a hard link by another spelling": {
		has:  []string{"/opt -> var/opt", "/var/opt/"},
		then: [][]string{{"/opt/x = 1", "/etc/h == /var/opt/x"}, {"/var/opt/x = 2", "/etc/h == /opt/x"}},
	},
	"a hard link to a link of the machine": {
		has: []string{"/etc/l -> nowhere"}, then: [][]string{{"/etc/h == /etc/l"}},
	},
	"a hard link becomes a file with the same contents": {
		then: [][]string{
			{"/etc/a = 1", "/etc/h == /etc/a"},
			{"/etc/a = 1", "/etc/h = 1"},
			{"/etc/a = 2", "/etc/h = 1"},
		},
	},
	"a hard link changes its direction": {
		then: [][]string{{"/etc/a = 1", "/etc/h == /etc/a"}, {"/etc/h = 1", "/etc/a == /etc/h"}},
	},
	"a file becomes a hard link to one with the same contents": {
		then: [][]string{
			{"/etc/a = 1", "/etc/h = 1"},
			{"/etc/a = 1", "/etc/h == /etc/a"},
			{"/etc/a = 2", "/etc/h == /etc/a"},
		},
	},
	"a hard link to a hard link": {
		then: [][]string{{"/etc/a = 1", "/etc/h == /etc/a", "/etc/i == /etc/h"}}, refuses: "/etc/i",
	},
	"a hard link whose target is replaced by hand": {
		then: [][]string{
			{"/etc/a = 1", "/etc/h == /etc/a"},
			{"by hand", "/etc/a -", "/etc/a = 1"},
			{"/etc/a = 2", "/etc/h == /etc/a"},
		},
		refuses: "unexpected on-disk state",
	},
	"a hard link to a directory": {
		has: []string{"/srv/d/"}, then: [][]string{{"/etc/h == /srv/d"}}, refuses: "neither a file nor a link",
	},
	"a hard link to nothing": {then: [][]string{{"/etc/h == /srv/none"}}, refuses: "neither a file nor a link"},
	"the original of a file that was a link to another managed file": {
		has: []string{"/etc/a -> b", "/etc/b = mine"}, then: [][]string{{"/etc/a = 1", "/etc/b = 2"}, {"/etc/b = 3"}},
	},
	"two names of one file of the machine": {
		has:  []string{"/etc/a = mine", "/etc/b == /etc/a"},
		then: [][]string{{"/etc/a = 1"}, {"/etc/b = 1"}},
		// A file that comes back is a file of its own.
		leaves: []string{"/etc/b"},
	},
	"a config that appends to a link": {
		has: []string{"/etc/motd -> issue", "/etc/issue = x"}, then: [][]string{{"/etc/motd += y"}}, refuses: "link",
	},
	"a config that appends by one spelling and then by another": {
		has:  []string{"/opt -> var/opt", "/var/opt/f = x"},
		then: [][]string{{"/opt/f += y"}, {"/var/opt/f += y"}, {"/opt/f += z"}},
	},
	"a file to which a config appends is a file of the next, by another spelling": {
		has: []string{"/opt -> var/opt", "/var/opt/f = x"}, then: [][]string{{"/opt/f += y"}, {"/var/opt/f = z"}},
	},
	"resolv.conf is a link of the machine": {
		has:  []string{"/etc/resolv.conf -> ../run/systemd/resolve/stub-resolv.conf"},
		then: [][]string{{"/etc/resolv.conf = x"}},
	},
	"a name as long as names can be": {
		then: [][]string{{"/etc/" + strings.Repeat("n", 200) + " = 1"}},
	},
	"an original whose name is too long to store": {
		has:  []string{"/etc/" + strings.Repeat("n", 250) + " = mine"},
		then: [][]string{{"/etc/" + strings.Repeat("n", 250) + " = 1"}}, refuses: "/etc/nnn",
	},
	"a used directory goes, with what somebody put there": {
		then:    [][]string{{"/srv/d/", "/srv/d/x = 1"}, {"by hand", "/srv/d/own = mine"}, {"/srv/d -> e"}},
		refuses: `"own"`,
	},
	"a link of the config that somebody replaced by a directory": {
		then:    [][]string{{"/srv/cur -> a"}, {"by hand", "/srv/cur -", "/srv/cur/own = mine"}, {"/srv/cur -> b"}},
		refuses: "unexpected on-disk state",
	},
	"a directory above a file becomes a link by hand": {
		then: [][]string{
			{"/srv/d/x = 1"},
			{"by hand", "/srv/d/x -", "/srv/d -", "/srv/e/x = 1", "/srv/d -> e"},
			{"/srv/d/x = 2"},
		},
		leaves: []string{"/srv/e", "/srv/d"},
	},
	"a link above a file leads elsewhere by hand": {
		has:     []string{"/srv/d -> e", "/srv/e/", "/srv/f/"},
		then:    [][]string{{"/srv/d/x = 1"}, {"by hand", "/srv/d -", "/srv/d -> f"}, {"/srv/d/x = 2"}},
		refuses: "unexpected on-disk state",
	},
	"forth, back and forth": {
		has: []string{"/etc/a = mine", "/etc/b/own = mine"},
		then: [][]string{
			{"/etc/a = 1", "/etc/b/x = 1"},
			{"/etc/b/"},
			{"/etc/a = 1", "/etc/b/x = 1"},
			{"/etc/a -> b"},
			{"/etc/a = 1"},
		},
	},
	"a link to a unit of another name is replaced by a unit": {
		has: []string{
			"/usr/lib/systemd/system/bar.service = " + install,
			"/etc/systemd/system/foo.service -> /usr/lib/systemd/system/bar.service",
		},
		then: [][]string{{`{"name":"foo.service","enabled":true,` + wanted + `}`}},
	},
	"a link that enables a unit under another name is replaced by a unit": {
		has: []string{
			"/usr/lib/systemd/system/bar.service = [Install]\nWantedBy=a.target\nAlias=foo.service\n",
			"/etc/systemd/system/foo.service -> /usr/lib/systemd/system/bar.service",
			"/etc/systemd/system/a.target.wants/bar.service -> /usr/lib/systemd/system/bar.service",
		},
		then: [][]string{{`{"name":"foo.service","enabled":true,` + wanted + `}`}},
	},
	"an alias of a unit of the config is a unit of the config": {
		then: [][]string{{
			`{"name":"a.service","enabled":true,"contents":"[Install]\nAlias=b.service\n"}`,
			`{"name":"b.service","contents":"[Service]\nExecStart=/bin/a\n"}`,
		}},
		refuses: "enabling a.service needs a link here",
	},
	"drop-ins where the machine has a file": {
		has:     []string{"/etc/systemd/system/a.service.d = x"},
		then:    [][]string{{`{"name":"a.service","dropins":[{"name":"x.conf","contents":"[Service]"}]}`}},
		refuses: "needs a directory at this path",
	},
	"a mask where the machine has a directory with something in it": {
		has:     []string{"/etc/systemd/system/a.service/x = y"},
		then:    [][]string{{`{"name":"a.service","mask":true}`}},
		refuses: `"x"`,
	},
	"a mask where somebody has a unit": {
		has:  []string{"/etc/systemd/system/a.service = " + install},
		then: [][]string{{`{"name":"a.service","mask":true}`}, {`{"name":"a.service","mask":false}`}},
	},
	"a mask of a config goes, and the unit that it hid is enabled": {
		has: []string{"/etc/systemd/system/a.service = " + install},
		then: [][]string{
			{`{"name":"a.service","mask":true}`}, {`{"name":"a.service","enabled":true}`}, {`{"name":"a.service","mask":true}`},
		},
	},
	"a relative mask": {
		has: []string{
			"/etc/systemd/system/a.service -> ../../../dev/null",
			"/usr/lib/systemd/system/a.service = " + install,
		},
		then:    [][]string{{`{"name":"a.service","enabled":true}`}},
		refuses: "is masked by hand",
	},
	"a mask by a link to a mask": {
		has: []string{
			"/etc/systemd/system/a.service -> b.service", "/etc/systemd/system/b.service -> /dev/null",
			"/usr/lib/systemd/system/a.service = " + install,
		},
		then:    [][]string{{`{"name":"a.service","enabled":true}`}},
		refuses: "is masked by hand",
	},
	"the mask of one instance": {
		has: []string{
			"/etc/systemd/system/t@x.service -> /dev/null",
			"/usr/lib/systemd/system/t@.service = " + install,
		},
		then: [][]string{
			{`{"name":"t@y.service","enabled":true}`},
			{`{"name":"t@y.service","enabled":true}`, `{"name":"t@x.service","enabled":true}`},
		},
		refuses: "t@x.service",
	},
	"a unit that exists by its drop-in alone": {
		then: [][]string{{`{"name":"a.service","enabled":true,"dropins":[{"name":"x.conf",` + wanted + `}]}`}},
		says: "does not exist",
	},
	"the mask of the unit behind an alias": {
		has: []string{
			"/usr/lib/systemd/system/ssh.service = [Install]\nWantedBy=a.target\nAlias=sshd.service\n",
			"/usr/lib/systemd/system/sshd.service -> ssh.service", "/etc/systemd/system/ssh.service -> /dev/null",
		},
		then:    [][]string{{`{"name":"sshd.service","enabled":true}`}},
		refuses: "masked by hand with /etc/systemd/system/ssh.service",
	},
	"the wants of a target are a link": {
		has:  []string{"/etc/systemd/system/a.target.wants -> /var/wants", "/var/wants/"},
		then: [][]string{{`{"name":"a.service","enabled":true,` + wanted + `}`}},
	},
	"the wants of a target are a file": {
		has:     []string{"/etc/systemd/system/a.target.wants = x"},
		then:    [][]string{{`{"name":"a.service","enabled":true,` + wanted + `}`}},
		refuses: "enabling a.service needs a link here",
	},
	"a link that wants the unit leads to nowhere": {
		has:     []string{"/etc/systemd/system/a.target.wants/a.service -> /usr/lib/systemd/system/old.service"},
		then:    [][]string{{`{"name":"a.service","enabled":true,` + wanted + `}`}},
		refuses: "this node has a link to /usr/lib/systemd/system/old.service",
	},
	"an alias of a unit that the administrator replaced": {
		has: []string{
			"/usr/lib/systemd/system/ssh.service = [Install]\nWantedBy=old.target\n",
			"/usr/lib/systemd/system/sshd.service -> ssh.service",
			"/etc/systemd/system/ssh.service = " + install,
		},
		then: [][]string{{`{"name":"sshd.service","enabled":true}`}, {`{"name":"sshd.service","enabled":false}`}},
	},
	"an alias of a template that is masked": {
		has: []string{
			"/usr/lib/systemd/system/t@.service = " + install, "/usr/lib/systemd/system/u@.service -> t@.service",
			"/etc/systemd/system/t@.service -> /dev/null",
		},
		then:    [][]string{{`{"name":"u@x.service","enabled":true}`}},
		refuses: "systemctl unmask t@.service",
	},
	"a unit by one name, and then by the image's other name": {
		has: []string{
			"/usr/lib/systemd/system/ssh.service = " + install, "/usr/lib/systemd/system/sshd.service -> ssh.service",
		},
		then: [][]string{
			{`{"name":"ssh.service","enabled":true}`},
			{`{"name":"sshd.service","enabled":true}`},
			{`{"name":"ssh.service","enabled":true}`},
			{`{"name":"ssh.service"}`, `{"name":"sshd.service","enabled":true}`},
			{`{"name":"sshd.service","enabled":false}`},
		},
	},
	"two names of one unit with different settings": {
		has: []string{
			"/usr/lib/systemd/system/ssh.service = " + install, "/usr/lib/systemd/system/sshd.service -> ssh.service",
		},
		then:    [][]string{{`{"name":"ssh.service","enabled":false}`, `{"name":"sshd.service","enabled":true}`}},
		refuses: "systemd.units sshd.service: on this node it is another name of ssh.service",
	},
	"one name of a unit is masked, and the other enabled": {
		has: []string{
			"/usr/lib/systemd/system/ssh.service = " + install, "/usr/lib/systemd/system/sshd.service -> ssh.service",
		},
		then:    [][]string{{`{"name":"ssh.service","mask":true}`, `{"name":"sshd.service","enabled":true}`}},
		refuses: "another name of ssh.service",
	},
	"the image's other name of an enabled unit becomes a unit of its own": {
		has: []string{
			"/usr/lib/systemd/system/ssh.service = " + install, "/usr/lib/systemd/system/sshd.service -> ssh.service",
			"/usr/lib/systemd/system/ssh.service.d/x.conf = [Install]\nWantedBy=b.target\n",
			"/etc/systemd/system/a.target.wants/ssh.service -> /usr/lib/systemd/system/ssh.service",
		},
		then: [][]string{
			{`{"name":"sshd.service","enabled":true,` + wanted + `}`},
			{`{"name":"sshd.service","enabled":true,"contents":"[Service]\nExecStart=/bin/a\n"}`},
		},
	},
	"a link of storage enables a unit without a section": {
		then: [][]string{
			{
				`{"name":"a.service","contents":"[Service]\nExecStart=/bin/a\n"}`,
				"/etc/systemd/system/a.target.wants/a.service -> ../a.service",
			},
			{
				`{"name":"a.service","contents":"[Service]\nExecStart=/bin/b\n"}`,
				"/etc/systemd/system/a.target.wants/a.service -> ../a.service", "/etc/x = 1",
			},
		},
	},
	"a link of storage stays while the section of its unit changes": {
		then: [][]string{
			{
				`{"name":"a.service","enabled":true,"contents":"[Install]\nWantedBy=b.target\n"}`,
				"/etc/systemd/system/a.target.wants/a.service -> ../a.service",
			},
			{
				`{"name":"a.service","enabled":true,"contents":"[Install]\nWantedBy=c.target\n"}`,
				"/etc/systemd/system/a.target.wants/a.service -> ../a.service",
			},
		},
	},
	"the last unit of a target is disabled, and a link of storage comes there": {
		has: []string{"/usr/lib/systemd/system/a.service = " + install},
		then: [][]string{
			{`{"name":"a.service","enabled":true}`},
			{`{"name":"a.service","enabled":false}`, "/etc/systemd/system/a.target.wants/b.service -> /opt/b.service"},
		},
	},
	"two aliases that lead to each other": {
		has: []string{
			"/usr/lib/systemd/system/a.service -> b.service", "/usr/lib/systemd/system/b.service -> a.service",
		},
		then: [][]string{{`{"name":"a.service","enabled":true}`}}, says: "does not exist",
	},
	"a masked unit that its config gives contents, and takes them again": {
		has: []string{"/etc/systemd/system/a.service -> /dev/null", "/usr/lib/systemd/system/a.service = " + install},
		then: [][]string{
			{`{"name":"a.service","enabled":true,` + wanted + `}`},
			{`{"name":"a.service","enabled":true}`},
		},
		refuses: "is masked by hand",
	},
	"a unit in /run, which the next boot loses": {
		has:  []string{"/run/systemd/system/a.service = " + install},
		then: [][]string{{`{"name":"a.service","enabled":true}`}},
	},
	"a mask in /run behind the administrator's own file": {
		has: []string{
			"/run/systemd/system/a.service -> /dev/null", "/etc/systemd/system/a.service = " + install,
		},
		then: [][]string{{`{"name":"a.service","enabled":true}`}},
	},
	"the file of an enabled unit goes, and another of its name comes with another target": {
		has: []string{"/usr/lib/systemd/system/a.service = " + install},
		then: [][]string{
			{`{"name":"a.service","enabled":true}`},
			{`{"name":"a.service","enabled":true,"contents":"[Install]\nWantedBy=b.target\n"}`},
			{`{"name":"a.service","enabled":true}`},
		},
	},
	"a unit that its config masks and unmasks": {
		has: []string{"/usr/lib/systemd/system/a.service = " + install},
		then: [][]string{
			{`{"name":"a.service","enabled":true}`},
			{`{"name":"a.service","mask":true}`},
			{`{"name":"a.service","enabled":true,"mask":false}`},
			{`{"name":"a.service","enabled":false}`},
		},
	},
	"a drop-in that enables what has no section": {
		has: []string{"/usr/lib/systemd/system/a.service = [Service]\nExecStart=/bin/a\n"},
		then: [][]string{
			{`{"name":"a.service","enabled":true,"dropins":[{"name":"x.conf",` + wanted + `}]}`},
			{`{"name":"a.service","dropins":[{"name":"x.conf","contents":"[Service]\nNice=1\n"}]}`},
		},
	},
	"a drop-in of a template and one of its instance": {
		has: []string{"/usr/lib/systemd/system/t@.service = [Service]\nExecStart=/bin/a\n"},
		then: [][]string{
			{
				`{"name":"t@.service","dropins":[{"name":"x.conf",` + wanted + `}]}`,
				`{"name":"t@i.service","enabled":true}`,
			},
			{
				`{"name":"t@.service","dropins":[{"name":"x.conf",` + wanted + `}]}`,
				`{"name":"t@i.service","enabled":false}`,
			},
		},
	},
	"a unit whose file is a link into /opt": {
		has:  []string{"/opt/a.service = " + install, "/etc/systemd/system/a.service -> /opt/a.service"},
		then: [][]string{{`{"name":"a.service","enabled":true}`}, {`{"name":"a.service","enabled":true,` + wanted + `}`}},
	},
	"a unit whose link into /opt leads to nowhere": {
		has:  []string{"/etc/systemd/system/a.service -> /opt/a.service"},
		then: [][]string{{`{"name":"a.service","enabled":true}`}}, says: "does not exist",
	},
	"a link of storage enables a unit, and then the unit's own setting": {
		has: []string{"/usr/lib/systemd/system/a.service = " + install},
		then: [][]string{
			{"/etc/systemd/system/a.target.wants/a.service -> /usr/lib/systemd/system/a.service"},
			{`{"name":"a.service","enabled":true}`},
			{
				"/etc/systemd/system/a.target.wants/a.service -> /usr/lib/systemd/system/a.service",
				`{"name":"a.service","enabled":true}`,
			},
			{"/etc/systemd/system/b.target.wants/a.service -> ../a.service", `{"name":"a.service","enabled":true}`},
			{`{"name":"a.service","enabled":true}`},
		},
	},
	"a link of storage enables a unit, and then nothing": {
		has: []string{"/usr/lib/systemd/system/a.service = " + install},
		then: [][]string{
			{
				"/etc/systemd/system/b.target.wants/a.service -> /usr/lib/systemd/system/a.service",
				`{"name":"a.service","dropins":[{"name":"x.conf","contents":"[Unit]\n"}]}`,
			},
			{`{"name":"a.service","dropins":[{"name":"x.conf","contents":"[Unit]\n"}]}`},
		},
	},
	"a link of storage enables a unit that the same config disables": {
		has: []string{"/usr/lib/systemd/system/a.service = " + install},
		then: [][]string{{
			"/etc/systemd/system/b.target.wants/a.service -> /usr/lib/systemd/system/a.service",
			`{"name":"a.service","enabled":false}`,
		}},
		refuses: "this link enables a.service, and the config disables it",
	},
	"a link of storage gives a unit another name, which says nothing about when it starts": {
		has: []string{"/usr/lib/systemd/system/a.service = " + install},
		then: [][]string{
			{"/etc/systemd/system/app.service -> a.service", `{"name":"a.service","enabled":false}`},
			{"/etc/systemd/system/app.service -> a.service", `{"name":"a.service","enabled":true}`},
			{"/etc/systemd/system/app.service -> a.service", `{"name":"a.service","enabled":true,` + wanted + `}`},
			{"/etc/systemd/system/app.service -> a.service", `{"name":"a.service","enabled":false}`},
			{"/etc/systemd/system/app.service -> a.service"},
		},
	},
	"a link of storage enables the default instance of a template, whose section changes": {
		has: []string{"/usr/lib/systemd/system/t@.service = [Install]\nWantedBy=a.target\nDefaultInstance=x\n"},
		then: [][]string{
			{"/etc/systemd/system/b.target.wants/t@x.service -> ../t@.service", `{"name":"t@.service","enabled":true}`},
			{
				"/etc/systemd/system/b.target.wants/t@x.service -> ../t@.service",
				`{"name":"t@.service","enabled":true,"dropins":[{"name":"c.conf","contents":"[Install]\nWantedBy=c.target\n"}]}`,
			},
		},
	},
	"a link of storage under another name enables a unit that the same config disables": {
		has: []string{"/usr/lib/systemd/system/a.service = " + install},
		then: [][]string{{
			"/etc/systemd/system/b.target.wants/app.service -> /usr/lib/systemd/system/a.service",
			`{"name":"a.service","enabled":false}`,
		}},
		refuses: "this link enables a.service, and the config disables it",
	},
	"a file of storage that is the file of a unit": {
		then: [][]string{
			{"/etc/systemd/system/a.service = x", `{"name":"a.service","enabled":false}`},
			{`{"name":"a.service","enabled":true,` + wanted + `}`},
		},
	},
	"a kernel argument that another one begins with": {
		then: [][]string{
			{"karg nosmt"},
			{"karg nosmt=force"},
			{"karg nosmt", "karg nosmt=force"},
			{"karg nosmt=force"},
		},
	},
	"a kernel argument that the machine has as its own goes with the config that names it": {
		then:   [][]string{{"karg ro"}, {"karg ro", "karg quiet"}, {"karg quiet"}},
		leaves: []string{"/etc/bunsen-simulated-os.json"},
	},
	"a kernel argument twice": {
		then: [][]string{{"karg a=1", "karg a=1"}, {"karg a=1"}, {"karg a=1", "karg b=1", "karg a=1"}},
	},
	"kernel arguments in another order": {
		then: [][]string{{"karg console=tty0", "karg console=ttyS0"}, {"karg console=ttyS0", "karg console=tty0"}},
	},
	"kernel arguments in one line": {
		then: [][]string{{"karg a=1 b=2"}, {"karg a=1", "karg b=2"}, {"karg  b=2"}},
	},
	"a drop-in of a user clears the section of a unit that is enabled, and the config gives its contents": {
		has: []string{
			"/usr/lib/systemd/system/c.service = [Install]\nAlias=d.service\n",
			"/etc/systemd/system/c.service.d/h.conf = [Install]\nWantedBy=\n",
			"/etc/systemd/system/c.target.wants/c.service -> /usr/lib/systemd/system/c.service",
		},
		then:    [][]string{{`{"name":"c.service","enabled":true,` + wanted + `}`}},
		refuses: "clears it",
	},
	"a user who does not exist": {
		then: [][]string{{`user nosuch`, "/etc/a = 1"}}, refuses: `user "nosuch" does not exist`,
	},
	"a number that no user has": {then: [][]string{{`user 4711`, "/etc/a = 1"}}},
}

// TestAMachineEndsWhereTheConfigSaysOrRefuses: it takes each config completely, has nothing left to do then, and is at
// the end as it was; or it refuses before anything changes.
func TestAMachineEndsWhereTheConfigSaysOrRefuses(t *testing.T) {
	all := maps.Clone(machines)
	maps.Copy(all, systemMachines)
	for sentence, c := range all {
		t.Run(sentence, func(t *testing.T) {
			dir := hosttest.TempDir(t)
			h, root, err := linux.OpenSimulated(dir, func(string) {})
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			has(t, dir, c.has)
			before := listed(t, dir)
			for i, lines := range c.then {
				if lines[0] == "by hand" {
					has(t, dir, lines[1:])
					continue
				}
				was := listed(t, dir)
				var plan once.Plan
				ask := once.Request{To: configOf(t, lines), SkipReboot: true}
				r, err := once.Run(t.Context(), apply.Runner{Host: h}, ask, false, func(p once.Plan) { plan = p })
				if c.refuses != "" && i == len(c.then)-1 {
					if err == nil || !strings.Contains(err.Error(), c.refuses) {
						t.Fatalf("it says %v, want %q\n%s", err, c.refuses, plan)
					}
					if now := listed(t, dir); now != was {
						t.Fatalf("it refuses, and was\n%s\nand is\n%s", was, now)
					}
					return
				}
				if err != nil || r.Why != nil {
					t.Fatalf("config %d: %v, %+v\n%s", i, err, r.Applied, plan)
				}
				notes := strings.Join(plan.Plan.Notes, "\n")
				if i == len(c.then)-1 && ((notes != "") != (c.says != "") || !strings.Contains(notes, c.says)) {
					t.Errorf("it notes %q, want %q", notes, c.says)
				}
				for _, line := range lines {
					if err := holds(dir, h, line); err != nil {
						t.Errorf("config %d: %q: %v\n%s\n%s", i, line, err, plan, listed(t, dir))
					}
				}
				if again, err := once.NewPlan(t.Context(), h, ask); err != nil || !again.Empty() {
					t.Errorf("config %d: after the update, %v is left to do:\n%s", i, err, again)
				}
			}
			none := once.Request{To: configOf(t, nil), SkipReboot: true}
			r, err := once.Run(t.Context(), apply.Runner{Host: h}, none, false, func(once.Plan) {})
			if err != nil || r.Why != nil {
				t.Fatalf("the way back: %v, %+v", err, r)
			}
			if diff := differing(before, listed(t, dir), c.leaves); diff != "" {
				t.Errorf("in the end the machine differs:\n%s", diff)
			}
		})
	}
}

// has makes what lines say.
func has(t *testing.T, dir string, lines []string) {
	t.Helper()
	for _, line := range lines {
		p, op, value := parse(line)
		at := filepath.Join(dir, p)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		switch op {
		case "=":
			err = errors.Join(err, os.WriteFile(at, []byte(value), 0o644))
		case "->":
			err = errors.Join(err, os.Symlink(value, at))
		case "==":
			err = errors.Join(err, os.Link(filepath.Join(dir, value), at))
		case "/":
			err = errors.Join(err, os.MkdirAll(at, 0o755))
		case "/=":
			mode := modeOf(t, value)
			err = errors.Join(err, os.MkdirAll(at, 0o755), unix.Chmod(at, uint32(mode)))
		case "|":
			err = errors.Join(err, unix.Mkfifo(at, 0o644))
		case "-":
			err = os.Remove(at)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func modeOf(t *testing.T, text string) int {
	t.Helper()
	mode, err := strconv.ParseInt(text, 8, 32)
	if err != nil {
		t.Fatal(err)
	}
	return int(mode)
}

func parse(line string) (p, op, value string) {
	if p, is := strings.CutSuffix(line, "/"); is && !strings.Contains(line, " ") {
		return p, "/", ""
	}
	p, rest, _ := strings.Cut(line, " ")
	op, value, _ = strings.Cut(rest, " ")
	return p, op, value
}

// configOf makes a config of lines.
func configOf(t *testing.T, lines []string) mcfgv1.MachineConfig {
	t.Helper()
	type list = []map[string]any
	var files, dirs, links list
	var units []json.RawMessage
	var user map[string]any
	var arguments []string
	for _, line := range lines {
		if argument, is := strings.CutPrefix(line, "karg "); is {
			arguments = append(arguments, argument)
			continue
		}
		if strings.HasPrefix(line, "{") {
			units = append(units, json.RawMessage(line))
			continue
		}
		p, op, value := parse(line)
		node := map[string]any{"path": p, "overwrite": true}
		if user != nil {
			node["user"] = user
		}
		switch op {
		case "=":
			node["contents"] = map[string]any{"source": "data:," + url.PathEscape(value)}
			files = append(files, node)
		case "+=":
			delete(node, "overwrite")
			node["append"] = list{{"source": "data:," + url.PathEscape(value)}}
			files = append(files, node)
		case "->":
			node["target"] = value
			links = append(links, node)
		case "==":
			node["target"], node["hard"] = value, true
			links = append(links, node)
		case "/":
			delete(node, "overwrite")
			dirs = append(dirs, node)
		case "/=":
			delete(node, "overwrite")
			node["mode"] = modeOf(t, value)
			dirs = append(dirs, node)
		default:
			user = map[string]any{"name": op}
			if strings.Trim(op, "0123456789") == "" {
				user = map[string]any{"id": json.Number(op)}
			}
		}
	}
	text, err := json.Marshal(map[string]any{
		"ignition": map[string]any{"version": "3.5.0"},
		"storage":  map[string]any{"files": files, "directories": dirs, "links": links},
		"systemd":  map[string]any{"units": units},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(arguments) > 0 { // only a MachineConfig has them
		text, err = json.Marshal(map[string]any{
			"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
			"metadata": map[string]any{"name": "with-" + strings.Join(strings.Fields(strings.Join(arguments, "-")), "-")},
			"spec":     map[string]any{"config": json.RawMessage(text), "kernelArguments": arguments},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	mc, err := once.Read("config", text)
	if err != nil {
		t.Fatal(err)
	}
	return mc
}

// holds reports whether the machine is as a line of a config says.
func holds(dir string, h host.Host, line string) error {
	if strings.HasPrefix(line, "{") || !strings.HasPrefix(line, "/") {
		return nil // what is left to do tells
	}
	p, op, value := parse(line)
	is, err := h.Files.Stat(p)
	if err != nil {
		return err
	}
	switch op {
	case "=", "+=":
		text, err := h.Files.Read(p)
		if op == "+=" && strings.HasSuffix(string(text), value) {
			value = string(text)
		}
		if err != nil || string(text) != value {
			return fmt.Errorf("it is %s with %q, %w", is, text, err)
		}
	case "->":
		if is.Kind != host.Link || is.Target != value {
			return fmt.Errorf("it is %s", is)
		}
	case "==":
		if same, err := h.Same(p, value); err != nil || !same {
			return fmt.Errorf("it is another file: %w", err)
		}
	case "/", "/=":
		if is.Kind != host.Dir || op == "/=" && fmt.Sprintf("%04o", is.Mode) != value {
			return fmt.Errorf("it is %s", is)
		}
	}
	return nil
}

// listed prints a directory without the daemon's own files.
func listed(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		p := strings.TrimPrefix(at, dir)
		if p == host.StateDir || p == filepath.Dir(host.RecordPath) {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %v", p, info.Mode())
		switch {
		case info.Mode().IsRegular():
			text, err := os.ReadFile(at)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %q", text)
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(at)
			if err != nil {
				return err
			}
			b.WriteString(" -> " + to)
		}
		b.WriteString("\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// differing returns the lines that only one of two lists has. Directories that were made for files stay after them.
func differing(before, after string, leaves []string) string {
	var out []string
	differ := func(sign, these, those string) {
		for line := range strings.Lines(these) {
			known := sign == "+" && strings.Contains(line, " drwx")
			for _, l := range leaves {
				known = known || strings.HasPrefix(line, strings.TrimSuffix(l, "/"))
			}
			if !strings.Contains("\n"+those, "\n"+line) && !known {
				out = append(out, sign+line)
			}
		}
	}
	differ("-", before, after)
	differ("+", after, before)
	return strings.Join(out, "")
}
