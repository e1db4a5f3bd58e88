package once_test

import (
	"fmt"
	"strings"
)

// systemMachines are more of machines: what systems have by themselves, and names that are rare.
var systemMachines = map[string]oddMachine{
	"localtime is a link of the machine, and another one, a file and a link again": {
		has: []string{"/etc/localtime -> ../usr/share/zoneinfo/UTC"},
		then: [][]string{
			{"/etc/localtime -> ../usr/share/zoneinfo/Asia/Tokyo"},
			{"/etc/localtime = TZif2"},
			{"/etc/localtime -> /usr/share/zoneinfo/UTC"},
		},
	},
	"resolv.conf is a file of the machine, and a link into /run": {
		has:  []string{"/etc/resolv.conf = nameserver 192.0.2.1"},
		then: [][]string{{"/etc/resolv.conf -> ../run/systemd/resolve/resolv.conf"}, {"/etc/resolv.conf = x"}},
	},
	"mtab is a link to what the kernel has": {
		has: []string{"/etc/mtab -> ../proc/self/mounts"}, then: [][]string{{"/etc/mtab = x"}},
	},
	"fstab, crypttab, hostname and machine-id": {
		has: []string{"/etc/fstab = / / ext4", "/etc/hostname = own", "/etc/machine-id = 1234"},
		then: [][]string{
			{"/etc/fstab += x", "/etc/crypttab = c", "/etc/hostname = node", "/etc/machine-id = 5678"},
			{"/etc/fstab = y", "/etc/hostname += z"},
		},
	},
	"the machine's whole list of groups": {
		has:  []string{"/etc/group = root:x:0:\nown:x:7000:\n"},
		then: [][]string{{"/etc/group = root:x:0:\nours:x:7001:\n"}},
	},
	"a pipe of the machine is no file": {
		has: []string{"/etc/a |"}, then: [][]string{{"/etc/a = 1"}}, refuses: "/etc/a",
	},
	"a pipe of the machine is no directory": {
		has: []string{"/etc/a |"}, then: [][]string{{"/etc/a/b = 1"}}, refuses: "/etc/a",
	},
	"a sticky directory of the machine gets another mode, and its own again": {
		has: []string{"/srv/d /= 1777"}, then: [][]string{{"/srv/d /= 0755", "/srv/d/x = 1"}},
	},
	"a directory of a group keeps its bits when only files in it are the config's": {
		has: []string{"/srv/d /= 2775"}, then: [][]string{{"/srv/d/x = 1"}, {"/srv/d/e/x = 1"}},
	},
	"a sticky directory of the machine becomes a file, and a sticky directory again": {
		has: []string{"/srv/d /= 1777"}, then: [][]string{{"/srv/d/x = 1"}, {"/srv/d = 1"}, {"/srv/d/x = 1"}},
	},
	"a directory that nobody may enter": {
		then: [][]string{{"/srv/d /= 0000", "/srv/d/x = 1"}, {"/srv/d /= 0700", "/srv/d/x = 2"}},
	},
	"two names that look alike": {
		then: [][]string{
			{"/etc/caf\u00e9 = 1", "/etc/cafe\u0301 = 2"}, {"/etc/cafe\u0301 = 1"}, {"/etc/caf\u00e9 = 1"},
		},
	},
	"names with blanks inside of characters, dashes in front and dots behind": {
		then: [][]string{{"/etc/-a = 1", "/etc/a\u00a0b = 2", "/etc/a.. = 3", "/etc/... = 4"}, {"/etc/.../x = 1"}},
	},
	"the longest name that has a mark": {
		then: [][]string{{"/etc/" + strings.Repeat("n", 245) + " = 1"}, {"/etc/" + strings.Repeat("n", 245) + " -> x"}},
	},
	"two long names that differ at their end": {
		then: [][]string{{
			"/etc/" + strings.Repeat("n", 240) + "a = 1", "/etc/" + strings.Repeat("n", 240) + "b = 2",
		}},
	},
	"a long name of characters of three bytes": {
		then: [][]string{{"/etc/" + strings.Repeat("\u20ac", 81) + " = 1"}},
	},
	"a directory with the longest of all names": {
		then: [][]string{{"/etc/" + strings.Repeat("d", 255) + "/x = 1"}}, refuses: "at most 245",
	},
	"a path through all kinds": {
		then: [][]string{
			{"/etc/a = 1"},
			{"/etc/a -> b"},
			{"/etc/a/"},
			{"/etc/a/b = 1"},
			{"/etc/a -> c", "/etc/c/b = 1"},
			{"/etc/a = 2"},
		},
	},
	"links of a config in a circle": {
		then:    [][]string{{"/etc/l1 -> l2", "/etc/l2 = 1"}, {"/etc/l1 -> l2", "/etc/l2 -> l1"}},
		refuses: "leads to itself",
	},
	"links of a config change their direction": {
		then: [][]string{{"/etc/l1 -> l2", "/etc/l2 = 1"}, {"/etc/l1 = 1", "/etc/l2 -> l1"}, {"/etc/l1/x = 1"}},
	},
	"a link to itself": {then: [][]string{{"/etc/l = 1"}, {"/etc/l -> ./l"}}, refuses: "leads to itself"},
	"links of the machine in a circle become files": {
		has:  []string{"/etc/l1 -> l2", "/etc/l2 -> l1"},
		then: [][]string{{"/etc/l1 = 1"}, {"/etc/l1 = 1", "/etc/l2 = 2"}},
	},
	"a link to its own directory": {
		then: [][]string{{"/srv/l -> ."}, {"/srv/l/x = 1"}, {"/srv/l -> ..", "/srv/x = 1"}},
	},
	"a link of the machine to its own directory": {
		has: []string{"/srv/l -> ."}, then: [][]string{{"/srv/l/x = 1"}, {"/srv/x = 1"}, {"/srv/l/l/x = 2"}},
	},
	"one place through a link to its own directory": {
		has: []string{"/srv/l -> ."}, then: [][]string{{"/srv/l/x = 1", "/srv/x = 1"}}, refuses: "same place",
	},
	"a directory with directories that were made for its file becomes a link": {
		then: [][]string{{"/srv/d/x/y/z = 1"}, {"/srv/d -> e", "/srv/e/x/y/z = 1"}, {"/srv/d/x/y/z = 1"}},
	},
	"a directory with directories that were made for its file becomes a file": {
		then: [][]string{{"/srv/d/x/y/z = 1"}, {"/srv/d = 1"}},
	},
	"an empty directory of the machine below one that becomes a file": {
		has: []string{"/srv/d/own/"}, then: [][]string{{"/srv/d/x = 1"}, {"/srv/d = 1"}}, refuses: `"own"`,
	},
	"a hard link and its file change places with a directory between": {
		then: [][]string{
			{"/srv/a = 1", "/srv/d/h == /srv/a"},
			{"/srv/a/h = 1", "/srv/d == /srv/a/h"},
			{"/srv/a = 1", "/srv/d/h == /srv/a"},
		},
	},
	"a unit whose file is a link of the same config": {
		then: [][]string{
			{
				"/opt/a.service = [Install]\nWantedBy=a.target\n", "/etc/systemd/system/a.service -> /opt/a.service",
				`{"name":"a.service","enabled":true}`,
			},
			{
				"/opt/a.service = [Install]\nWantedBy=b.target\n", "/etc/systemd/system/a.service -> /opt/a.service",
				`{"name":"a.service","enabled":true}`,
			},
			{`{"name":"a.service","enabled":true,` + wanted + `}`},
		},
	},
	"a drop-in that is a link of the same config": {
		has: []string{"/usr/lib/systemd/system/a.service = [Service]\nExecStart=/bin/a\n"},
		then: [][]string{{
			"/opt/x.conf = [Install]\nWantedBy=a.target\n", "/etc/systemd/system/a.service.d/x.conf -> /opt/x.conf",
			`{"name":"a.service","enabled":true}`,
		}},
	},
	"the drop-ins of a unit are in a directory that is a link": {
		has: []string{
			"/usr/lib/systemd/system/a.service = [Service]\nExecStart=/bin/a\n", "/opt/d/",
			"/etc/systemd/system/a.service.d -> /opt/d",
		},
		then: [][]string{{`{"name":"a.service","enabled":true,"dropins":[{"name":"x.conf",` + wanted + `}]}`}},
	},
	"a drop-in of the image that enables, hidden by one of the config": {
		has: []string{
			"/usr/lib/systemd/system/a.service = [Service]\nExecStart=/bin/a\n",
			"/usr/lib/systemd/system/a.service.d/x.conf = " + install,
		},
		then: [][]string{
			{`{"name":"a.service","enabled":true}`},
			{`{"name":"a.service","enabled":true,"dropins":[{"name":"x.conf","contents":"[Service]\nNice=1\n"}]}`},
		},
	},
	"drop-ins of one name in three places": {
		has: []string{
			"/usr/lib/systemd/system/a.service = [Service]\nExecStart=/bin/a\n",
			"/usr/lib/systemd/system/a.service.d/x.conf = [Install]\nWantedBy=usr.target\n",
			"/run/systemd/system/a.service.d/x.conf = [Install]\nWantedBy=run.target\n",
		},
		then: [][]string{
			{`{"name":"a.service","enabled":true}`},
			{`{"name":"a.service","enabled":true,"dropins":[{"name":"x.conf",` + wanted + `}]}`},
			{`{"name":"a.service","enabled":true}`},
		},
	},
	"a link of the machine that enables a unit relatively": {
		has: []string{
			"/usr/lib/systemd/system/a.service = " + install,
			"/etc/systemd/system/a.target.wants/a.service -> ../../../../usr/lib/systemd/system/a.service",
		},
		then: [][]string{{`{"name":"a.service","enabled":true}`}, {`{"name":"a.service","enabled":false}`}},
		// systemctl writes the absolute path.
		leaves: []string{"/etc/systemd/system/a.target.wants/a.service"},
	},
	"a unit that the administrator linked from the image": {
		has: []string{
			"/usr/lib/systemd/system/a.service = " + install,
			"/etc/systemd/system/a.service -> /usr/lib/systemd/system/a.service",
		},
		then: [][]string{
			{`{"name":"a.service","enabled":true}`},
			{`{"name":"a.service","enabled":true,"contents":"[Install]\nWantedBy=b.target\n"}`},
			{`{"name":"a.service","enabled":false}`},
		},
	},
	"a template with a default instance, one of its instances, and a timer of another": {
		then: [][]string{
			{
				`{"name":"t@.service","enabled":true,"contents":"[Install]\nWantedBy=a.target\nDefaultInstance=d\n"}`,
				`{"name":"t@i.service","enabled":true}`,
				`{"name":"t@j.timer","enabled":true,"contents":"[Timer]\nOnBootSec=1\n[Install]\nWantedBy=timers.target\n"}`,
			},
			{
				`{"name":"t@.service","enabled":true,"contents":"[Install]\nWantedBy=b.target\nDefaultInstance=e\n"}`,
				`{"name":"t@i.service","enabled":true}`,
			},
			{`{"name":"t@.service","contents":"[Service]\nExecStart=/bin/a\n"}`},
		},
	},
	"a socket of the image, whose service goes": {
		has: []string{
			"/usr/lib/systemd/system/a.socket = [Socket]\nListenStream=/run/a\n[Install]\nWantedBy=sockets.target\n",
		},
		then: [][]string{
			{`{"name":"a.socket","enabled":true}`, `{"name":"a.service","contents":"[Service]\nExecStart=/bin/a\n"}`},
			{`{"name":"a.socket","enabled":true}`},
			{`{"name":"a.socket","enabled":false}`, `{"name":"a.service","mask":true}`},
		},
	},
	"mounts and slices, whose names have dashes and escapes": {
		then: [][]string{
			{
				`{"name":"var-lib-x\\x2dy.mount","enabled":true,"contents":"[Mount]\nWhat=/dev/x\nWhere=/var/lib/x-y\n` +
					`[Install]\nWantedBy=local-fs.target\n"}`,
				`{"name":"-.slice","dropins":[{"name":"x.conf","contents":"[Slice]\nMemoryMax=1G\n"}]}`,
			},
			{`{"name":"var-lib-x\\x2dy.mount","contents":"[Mount]\nWhat=/dev/x\nWhere=/var/lib/x-y\n"}`},
		},
	},
	"a mask that is a link of storage, and the unit that the same config enables": {
		has: []string{"/usr/lib/systemd/system/a.service = " + install},
		then: [][]string{{
			"/etc/systemd/system/a.service -> /dev/null", `{"name":"a.service","enabled":true}`,
		}},
	},
	"a link of the machine to a unit that the config brings": {
		has: []string{"/etc/systemd/system/a.service -> /opt/a.service"},
		then: [][]string{
			{"/opt/a.service = [Install]\nWantedBy=a.target\n", `{"name":"a.service","enabled":true}`},
			{"/opt/a.service = [Install]\nWantedBy=b.target\n", `{"name":"a.service","enabled":true}`},
		},
	},
	"a link of the config to a unit of the machine": {
		has: []string{"/opt/a.service = [Install]\nWantedBy=a.target\nAlso=b.service\n"},
		then: [][]string{
			{
				"/etc/systemd/system/a.service -> /opt/a.service", `{"name":"a.service","enabled":true}`,
				`{"name":"b.service","contents":"[Install]\nWantedBy=b.target\n"}`,
			},
			{`{"name":"a.service","enabled":true,` + wanted + `}`},
		},
	},
	"a link of the config to a drop-in of the machine, by another spelling": {
		has: []string{
			"/opt -> var/opt", "/var/opt/x.conf = " + install,
			"/usr/lib/systemd/system/a.service = [Service]\nExecStart=/bin/a\n",
		},
		then: [][]string{{
			"/etc/systemd/system/a.service.d/x.conf -> ../../../../opt/x.conf", `{"name":"a.service","enabled":true}`,
		}},
	},
	"a link of the config to a link of the config to a unit": {
		then: [][]string{{
			"/opt/a.service = [Install]\nWantedBy=a.target\n", "/opt/l/a.service -> ../a.service",
			"/etc/systemd/system/a.service -> /opt/l/a.service", `{"name":"a.service","enabled":true}`,
		}},
	},
	"an alias of a unit of the config that is a link of the same config": {
		then: [][]string{
			{
				`{"name":"a.service","enabled":true,` + wanted + `}`, "/etc/systemd/system/b.service -> a.service",
			},
			{`{"name":"a.service","enabled":true,` + wanted + `}`, `{"name":"b.service","contents":"[Service]\n"}`},
		},
	},
	"a unit of the config that wants itself by Also": {
		then: [][]string{
			{`{"name":"a.service","enabled":true,"contents":"[Install]\nWantedBy=a.target\nAlso=a.service b.timer\n"}`},
			{
				`{"name":"a.service","enabled":true,"contents":"[Install]\nWantedBy=a.target\nAlso=b.timer\n"}`,
				`{"name":"b.timer","enabled":false,"contents":"[Install]\nWantedBy=timers.target\n"}`,
			},
		},
	},
	"a unit of the config with an alias that is a unit of the image": {
		has: []string{"/usr/lib/systemd/system/ssh.service = " + install},
		then: [][]string{
			{`{"name":"a.service","enabled":true,"contents":"[Install]\nWantedBy=a.target\nAlias=ssh.service\n"}`},
			{`{"name":"a.service","enabled":true,` + wanted + `}`},
			{`{"name":"a.service","enabled":true,` + wanted + `}`, `{"name":"ssh.service","enabled":true}`},
		},
	},
	"a unit that the image starts by a link of its own is disabled": {
		has: []string{
			"/usr/lib/systemd/system/a.service = " + install,
			"/usr/lib/systemd/system/a.target.wants/a.service -> ../a.service",
		},
		then: [][]string{{`{"name":"a.service","enabled":false}`}, {`{"name":"a.service","enabled":true}`}},
	},
	"a unit that is enabled until the next boot": {
		has: []string{
			"/usr/lib/systemd/system/a.service = " + install,
			"/run/systemd/system/a.target.wants/a.service -> /usr/lib/systemd/system/a.service",
		},
		then: [][]string{{`{"name":"a.service","enabled":true}`}, {`{"name":"a.service","enabled":false}`}},
	},
	"a section over several lines": {
		then: [][]string{
			{`{"name":"a.service","enabled":true,"contents":"[Install]\nWantedBy=a.target \\\n b.target\n"}`},
			{`{"name":"a.service","enabled":true,"contents":"[Install]\nWantedBy=a.target \\\n b.target\nWantedBy=\n` +
				`RequiredBy=c.target\nUpheldBy=d.target\n"}`},
			{`{"name":"a.service","enabled":true,"contents":"[Install]\nWantedBy=\n"}`},
		},
	},
	"a specifier that is the instance": {
		then: [][]string{
			{`{"name":"t@i.service","enabled":true}`, `{"name":"t@.service","contents":"[Install]\nWantedBy=%i.target\n"}`},
			{`{"name":"t@j.service","enabled":true}`, `{"name":"t@.service","contents":"[Install]\nWantedBy=%p@%i.target\n"}`},
		},
	},
	"drop-ins of one name for a template and its instance": {
		has: []string{"/usr/lib/systemd/system/t@.service = [Service]\nExecStart=/bin/a\n"},
		then: [][]string{
			{
				`{"name":"t@.service","dropins":[{"name":"x.conf",` + wanted + `}]}`,
				`{"name":"t@i.service","enabled":true,"dropins":[{"name":"x.conf","contents":"[Install]\nWantedBy=i.target\n"}]}`,
				`{"name":"t@j.service","enabled":true}`,
			},
			{
				`{"name":"t@.service","dropins":[{"name":"x.conf",` + wanted + `}]}`,
				`{"name":"t@i.service","enabled":true}`, `{"name":"t@j.service","enabled":false}`,
			},
		},
	},
	"the machine's whole list of users, without the owner of a file": {
		then: [][]string{
			{"user 1000", "/srv/x = 1", "/etc/passwd = root:x:0:0::/root:/bin/bash\n"},
			{"user 1000", "/srv/x = 2"},
		},
	},
	"a directory of the image update takes the place of a file's directory": {
		has: []string{"/opt/"},
		then: [][]string{
			{"/opt/app/x = 1"},
			{"by hand", "/opt/app/x -", "/opt/app -", "/opt -", "/var/opt/app/x = 1", "/opt -> var/opt"},
			{"/opt/app/x = 2", "/opt/app/y = 3"},
		},
		leaves: []string{"/opt", "/var/opt"},
	},
	"a file that somebody replaced by a link to it": {
		then: [][]string{
			{"/etc/a = 1"}, {"by hand", "/etc/a -", "/var/a = 1", "/etc/a -> ../var/a"}, {"/etc/a = 2"},
		},
		refuses: "unexpected on-disk state",
	},
	"a file of the config that a later image has as a directory": {
		then: [][]string{
			{"/etc/a = 1"}, {"by hand", "/etc/a -", "/etc/a/own = mine"}, {"/etc/b = 1"},
		},
		refuses: "unexpected on-disk state",
	},
	"a link of the machine out of its root, to itself": {
		has:  []string{"/srv/l -> /../../srv/../srv/d/./", "/srv/d/"},
		then: [][]string{{"/srv/l/x = 1"}, {"/srv/d/x = 1"}, {"/srv/l/x = 2"}},
	},
	"a thousand files, and a thousand others": {
		then: [][]string{many("/srv/m/a/%d = 1", 1000), many("/srv/m/b/%d = 1", 1000)},
	},
	"files of many directories move one level down": {
		then: [][]string{many("/srv/m/%d/x = 1", 100), many("/srv/m/%d/x/y = 1", 100)},
	},
}

// many are lines with the numbers from zero.
func many(format string, n int) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprintf(format, i))
	}
	return lines
}
