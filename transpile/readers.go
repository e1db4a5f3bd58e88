package transpile

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// The rules of files that their reader ignores.
const (
	ruleMode  = "ignored-mode"
	ruleName  = "ignored-name"
	ruleOwner = "ignored-owner"
	ruleEnd   = "ignored-end"
)

// reader is a program that ignores files of a directory because of their name, mode, owner or last line.
type reader struct {
	// program is the subject of a sentence.
	program string
	// files matches the paths of the files.
	files *regexp.Regexp
	// endings are the endings of the names that the program reads; nil for all names.
	endings []string
	// ignored matches further names that the program ignores, and why says what they have, after "its name".
	ignored *regexp.Regexp
	why     string
	// deny are bits of the mode that no file may have, and need are bits that it must have; mode is one that works.
	deny, need int
	mode       string
	// group may read the file instead of all users, if need has the bits of all users.
	group string
	// root is true if the owner must be root.
	root bool
	// newline is true if the last line must end.
	newline bool
}

// Parts of the table.
const (
	// lib are the directories in which programs of systemd and of the kernel look for NAME.d.
	lib = `^(/etc|/run|/usr/local/lib|/usr/lib|/lib)/`
	// name is a file in a directory.
	name = `/[^/]+$`
	// leftOvers are the names of files that package managers and editors leave.
	leftOvers = `\.(rpmsave|rpmorig|rpmnew|dpkg-[a-z]+|ucf-[a-z]+|cfsaved|swp|bak|disabled)$|,v$|~$`
	// notOfRunParts matches what is in no name that run-parts of Debian runs.
	notOfRunParts    = `[^A-Za-z0-9_-]`
	notOfRunPartsWhy = "has other characters than letters, digits, - and _"
)

// Bits of modes.
const (
	writable   = 0o022
	accessible = 0o077
	readable   = 0o004
	runnable   = 0o111
	setID      = 0o6000
)

var conf = []string{".conf"}

// readers has the rules of the programs, from their manual pages and sources: sysctl.d(5) and its kin, udev(7),
// systemd.unit(5), networkd, NetworkManager(8), sudoers(5), cron(8) of Debian and cronie, run-parts(8), logrotate(8),
// sshd_config(5), netplan(5), libcni, update-ca-certificates(8), apt.conf(5), yum.conf(5), sssd.conf(5), polkit(8),
// quadlet, dracut.conf(5), kubelet. Several rows can be about one file.
var readers = sync.OnceValue(func() []reader {
	return []reader{
		{program: "systemd", files: regexp.MustCompile(lib +
			`(sysctl|modules-load|tmpfiles|user-tmpfiles|sysusers|binfmt|` +
			`environment|repart)\.d` + name), endings: conf},
		{program: "modprobe", files: regexp.MustCompile(lib + `modprobe\.d` + name), endings: conf},
		{program: "dracut", files: regexp.MustCompile(lib + `dracut\.conf\.d` + name), endings: conf},
		{program: "udev", files: regexp.MustCompile(lib + `udev/rules\.d` + name), endings: []string{".rules"}},
		{program: "udev", files: regexp.MustCompile(lib + `udev/hwdb\.d` + name), endings: []string{".hwdb"}},
		{program: "systemd", files: regexp.MustCompile(lib + `systemd/(system|user)` + name), endings: []string{
			".service", ".socket", ".mount", ".automount", ".swap", ".target", ".path", ".timer", ".slice", ".scope",
			".device",
		}},
		{program: "systemd", files: regexp.MustCompile(lib + `systemd/((system|user|network)/[^/]+\.d|[a-z]+\.conf\.d)` +
			name), endings: conf},
		{program: "systemd", files: regexp.MustCompile(lib + `systemd/(system|user)-preset` + name), endings: []string{
			".preset",
		}},
		{
			program: "systemd", files: regexp.MustCompile(lib + `systemd/((system|user)-(environment-)?generators)` + name),
			need: runnable, mode: "0755",
		},
		{program: "systemd-networkd", files: regexp.MustCompile(lib + `systemd/network` + name), endings: []string{
			".network", ".netdev", ".link",
		}},
		{
			program: "systemd-networkd", files: regexp.MustCompile(lib + `systemd/network/[^/]+\.(network|netdev)` +
				`(\.d/[^/]+)?$`),
			need: readable, group: "systemd-network", mode: "0644",
		},
		{
			program: "systemd-resolved", files: regexp.MustCompile(lib + `systemd/resolved\.conf(\.d/[^/]+)?$`),
			need: readable, group: "systemd-resolve", mode: "0644",
		},
		{
			program: "systemd-timesyncd", files: regexp.MustCompile(lib + `systemd/timesyncd\.conf(\.d/[^/]+)?$`),
			need: readable, group: "systemd-timesync", mode: "0644",
		},
		{
			program: "NetworkManager", files: regexp.MustCompile(lib + `NetworkManager/system-connections` + name),
			deny: accessible, mode: "0600", root: true, ignored: regexp.MustCompile(`^\.|` + leftOvers),
			why: "begins with a dot, or ends as a copy does",
		},
		{program: "NetworkManager", files: regexp.MustCompile(`^(/run|/usr/lib|/lib)/NetworkManager/system-connections` +
			name), endings: []string{".nmconnection"}},
		{program: "NetworkManager", files: regexp.MustCompile(lib + `NetworkManager/conf\.d` + name), endings: conf},
		{
			program: "NetworkManager", files: regexp.MustCompile(lib + `NetworkManager/dispatcher\.d/((pre-up|pre-down|` +
				`no-wait)\.d/)?[^/]+$`), need: 0o100, deny: writable | setID, mode: "0755", root: true,
			ignored: regexp.MustCompile(`^\.|` + leftOvers), why: "begins with a dot, or ends as a copy does",
		},
		{
			program: "netplan", files: regexp.MustCompile(`^(/etc|/run|/lib|/usr/lib)/netplan` + name),
			endings: []string{".yaml"},
		},
		{
			program: "sshd", files: regexp.MustCompile(`^/etc/ssh/ssh_host_[^/.]+_key$`), deny: accessible, mode: "0600",
			root: true,
		},
		{program: "sshd", files: regexp.MustCompile(`^/etc/ssh/sshd_config\.d` + name), endings: conf},
		{program: "ssh", files: regexp.MustCompile(`^/etc/ssh/ssh_config\.d` + name), endings: conf},
		{
			program: "sshd", files: regexp.MustCompile(`^(/root|/home/[^/]+)/\.ssh/authorized_keys2?$`), deny: writable,
			mode: "0600",
		},
		{
			program: "sudo", files: regexp.MustCompile(`^/etc/sudoers(\.d/[^/]+)?$`), deny: 0o002, mode: "0440",
			root: true,
		},
		{
			program: "sudo", files: regexp.MustCompile(`^/etc/sudoers\.d` + name), ignored: regexp.MustCompile(`\.|~$`),
			why: "has a dot or ends in ~",
		},
		{
			program: "cron", files: regexp.MustCompile(`^/etc/(crontab|cron\.d/[^/]+)$`), deny: writable | runnable | setID,
			need: 0o400, mode: "0644", root: true, newline: true,
		},
		{
			program: "cron of Debian", files: regexp.MustCompile(`^/etc/cron\.d` + name),
			ignored: regexp.MustCompile(notOfRunParts), why: notOfRunPartsWhy,
		},
		{
			program: "cron", files: regexp.MustCompile(`^/etc/cron\.(hourly|daily|weekly|monthly)` + name),
			need: runnable, mode: "0755",
		},
		{
			program: "cron of Debian", files: regexp.MustCompile(`^/etc/cron\.(hourly|daily|weekly|monthly)` + name),
			ignored: regexp.MustCompile(notOfRunParts), why: notOfRunPartsWhy,
		},
		{program: "run-parts", files: regexp.MustCompile(`^/etc/(update-motd\.d|network/if-(pre-up|up|down|post-down)\.d)` +
			name), need: runnable, mode: "0755", ignored: regexp.MustCompile(notOfRunParts), why: notOfRunPartsWhy},
		{
			program: "logrotate", files: regexp.MustCompile(`^/etc/logrotate\.(conf|d/[^/]+)$`),
			deny: writable, mode: "0644", root: true,
		},
		{
			program: "logrotate", files: regexp.MustCompile(`^/etc/logrotate\.d` + name),
			ignored: regexp.MustCompile(leftOvers), why: "ends as a copy does",
		},
		{program: "a shell", files: regexp.MustCompile(`^/etc/profile\.d` + name), endings: []string{
			".sh", ".csh",
		}, need: readable, mode: "0644"},
		{
			program: "a program of another user than root", files: regexp.MustCompile(`^/etc/(hosts|resolv\.conf|` +
				`nsswitch\.conf|passwd|group|services|protocols|profile|bashrc|bash\.bashrc|localtime|os-release)$`),
			need: readable, mode: "0644",
		},
		{
			program: "a shell", files: regexp.MustCompile(`^/(usr/local/s?bin|opt/bin|var/opt/bin|usr/s?bin|s?bin)` + name),
			need: runnable, mode: "0755",
		},
		{program: "systemd", files: regexp.MustCompile(`^/etc/(rc\.d/)?rc\.local$`), need: 0o100, mode: "0755"},
		{program: "grub-mkconfig", files: regexp.MustCompile(`^/etc/grub\.d` + name), need: 0o100, mode: "0755"},
		{program: "grub-mkconfig", files: regexp.MustCompile(`^/etc/default/grub\.d` + name), endings: []string{".cfg"}},
		{program: "Podman", files: regexp.MustCompile(`^(/etc|/usr/share)/containers/systemd` + name), endings: []string{
			".container", ".volume", ".network", ".kube", ".image", ".build", ".pod", ".artifact",
		}},
		{
			program: "Podman", files: regexp.MustCompile(`^(/etc|/usr/share)/containers/systemd/[^/]+\.d` + name),
			endings: conf,
		},
		{program: "the container runtime", files: regexp.MustCompile(`^(/etc|/usr/share)/containers/(registries|containers|` +
			`storage)\.conf\.d` + name), endings: conf},
		{
			program: "the container runtime", files: regexp.MustCompile(`^(/etc|/usr/share)/containers/registries\.d` +
				name),
			endings: []string{".yaml"},
		},
		{program: "the container runtime", files: regexp.MustCompile(`^/etc/cni/net\.d` + name), endings: []string{
			".conf", ".conflist", ".json",
		}},
		{
			program: "the kubelet", files: regexp.MustCompile(`^/etc/kubernetes/manifests` + name),
			ignored: regexp.MustCompile(`^\.`), why: "begins with a dot",
		},
		{program: "the kubelet", files: regexp.MustCompile(`^/etc/kubernetes/kubelet\.conf\.d` + name), endings: conf},
		{program: "k3s", files: regexp.MustCompile(`^/etc/rancher/k3s/config\.yaml\.d` + name), endings: []string{".yaml"}},
		{
			program: "RKE2", files: regexp.MustCompile(`^/etc/rancher/rke2/config\.yaml\.d` + name),
			endings: []string{".yaml"},
		},
		{program: "PAM", files: regexp.MustCompile(`^/etc/security/(limits|namespace|access)\.d` + name), endings: conf},
		{program: "the dynamic linker", files: regexp.MustCompile(`^/etc/ld\.so\.conf\.d` + name), endings: conf},
		{
			program: "polkit", files: regexp.MustCompile(`^(/etc|/usr/share|/usr/local/share)/polkit-1/rules\.d` + name),
			endings: []string{".rules"}, need: readable, group: "polkitd", mode: "0644",
		},
		{
			program: "D-Bus", files: regexp.MustCompile(`^(/etc|/usr/share)/dbus-1/(system|session)\.d` +
				name), endings: conf,
			need: readable, mode: "0644",
		},
		{program: "auditd", files: regexp.MustCompile(`^/etc/audit/rules\.d` + name), endings: []string{".rules"}},
		{program: "rsyslog", files: regexp.MustCompile(`^/etc/rsyslog\.d` + name), endings: conf},
		{program: "chrony", files: regexp.MustCompile(`^/etc/chrony/conf\.d` + name), endings: conf},
		{program: "chrony", files: regexp.MustCompile(`^/etc/chrony/sources\.d` + name), endings: []string{".sources"}},
		{
			program: "firewalld", files: regexp.MustCompile(`^/etc/firewalld/(zones|services|policies|ipsets|icmptypes)` +
				name),
			endings: []string{".xml"},
		},
		{program: "dnf", files: regexp.MustCompile(`^/etc/yum\.repos\.d` + name), endings: []string{".repo"}},
		{program: "apt", files: regexp.MustCompile(`^/etc/apt/sources\.list\.d` + name), endings: []string{
			".list", ".sources",
		}},
		{
			program: "apt", files: regexp.MustCompile(`^/etc/apt/apt\.conf\.d` + name),
			ignored: regexp.MustCompile(`[^A-Za-z0-9_.-]|` + leftOvers), why: "has an ending or a character of a copy",
		},
		{
			program: "update-ca-certificates", files: regexp.MustCompile(`^/usr/local/share/ca-certificates/(.+/)?[^/]+$`),
			endings: []string{".crt"},
		},
		{
			program: "SSSD", files: regexp.MustCompile(`^/etc/sssd/(sssd\.conf|conf\.d/[^/]+)$`), endings: conf,
			deny: accessible, mode: "0600",
		},
		{program: "OSTree", files: regexp.MustCompile(`^/etc/ostree/remotes\.d` + name), endings: conf},
		{program: "Zincati", files: regexp.MustCompile(`^/etc/zincati/config\.d` + name), endings: []string{".toml"}},
		{program: "agetty", files: regexp.MustCompile(`^/etc/issue\.d` + name), endings: []string{".issue"}},
		{program: "autofs", files: regexp.MustCompile(`^/etc/auto\.master\.d` + name), endings: []string{".autofs"}},
		{program: "exportfs", files: regexp.MustCompile(`^/etc/exports\.d` + name), endings: []string{".exports"}},
		{program: "multipath", files: regexp.MustCompile(`^/etc/multipath/conf\.d` + name), endings: conf},
	}
})

// otherEnding matches the ending of a name that another ending replaces.
var otherEnding = regexp.MustCompile(`(\.[a-z]{1,12})?~?$`)

// defaultMode is the mode of a file whose config has none.
const defaultMode = 0o644

// read warns of a file that its reader ignores.
func (l *linter) read(at string, f ign.File) {
	for _, r := range readers() {
		if !r.files.MatchString(f.Path) {
			continue
		}
		l.named(at, f.Path, r)
		if f.Contents.Source == nil {
			continue // The file exists on the machine, and keeps its mode and contents.
		}
		mode, said := defaultMode, "without a mode it is 0644"
		if f.Mode != nil {
			mode, said = *f.Mode, fmt.Sprintf("its mode is %04o", *f.Mode)
		}
		if why := r.refuses(mode, f.Group); why != "" {
			l.warnAt(at+".mode", ruleMode, "%s ignores %s, because %s (%s): write `mode: %s`", r.program, f.Path, why,
				said, r.mode)
		}
		if r.root && !ofRoot(f.User) {
			l.warnAt(at+".user", ruleOwner, "%s ignores %s, because its owner is not root: remove `user`", r.program,
				f.Path)
		}
		if r.newline && unended(f.Contents) {
			l.warnAt(at+".contents.source", ruleEnd, "%s ignores %s, because its last line does not end: write a "+
				"newline behind it", r.program, f.Path)
		}
	}
}

// named warns of a name that the reader ignores.
func (l *linter) named(at, file string, r reader) {
	dir, name := path.Split(file)
	ending := func(e string) bool { return strings.HasSuffix(name, e) && len(name) > len(e) }
	switch {
	case strings.HasPrefix(name, "README"), name == "sh.local", name == "csh.local":
	case r.endings != nil && !slices.ContainsFunc(r.endings, ending):
		right := strings.TrimLeft(otherEnding.ReplaceAllString(name, ""), ".") + r.endings[0]
		l.warnAt(at+".path", ruleName, "%s ignores %s, because it reads only names that end in %s: write %s", r.program,
			file, list(r.endings), dir+right)
	case r.endings != nil && name[0] == '.':
		l.warnAt(at+".path", ruleName, "%s ignores %s, because its name begins with a dot: write %s", r.program, file,
			dir+strings.TrimLeft(name, "."))
	case r.ignored != nil && r.ignored.MatchString(name):
		right := strings.Trim(regexp.MustCompile(notOfRunParts).ReplaceAllString(name, "-"), "-")
		l.warnAt(at+".path", ruleName, "%s ignores %s, because its name %s: write %s", r.program, file, r.why,
			dir+right)
	}
}

// refuses returns why a reader ignores a file with a mode, or "".
func (r reader) refuses(mode int, group ign.NodeGroup) string {
	ofGroup := r.group != "" && group.Name != nil && *group.Name == r.group && mode&0o040 != 0
	switch bad := mode & r.deny; {
	case r.need&runnable != 0 && mode&r.need == 0:
		return "it is not executable"
	case r.need&runnable == 0 && mode&r.need != r.need && !ofGroup:
		return "it cannot read the file"
	case bad&setID != 0:
		return "it runs as its owner or group"
	case bad&writable != 0 && r.deny&0o044 != 0, bad&0o044 != 0:
		return "others can read or change it"
	case bad&writable != 0:
		return "others can change it"
	case bad != 0:
		return "it is executable"
	}
	return ""
}

func ofRoot(u ign.NodeUser) bool {
	return (u.ID == nil || *u.ID == 0) && (u.Name == nil || *u.Name == "" || *u.Name == "root")
}

// unended tells whether the contents have a last line without an end. unended does not know the value of a secret.
func unended(r ign.Resource) bool {
	if machineconfig.IsUnresolved(*r.Source) {
		return false
	}
	data, err := machineconfig.Contents(r)
	return err == nil && len(data) > 0 && data[len(data)-1] != '\n'
}

// list returns words as a part of a sentence: "a, b or c".
func list(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
