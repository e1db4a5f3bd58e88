package transpile

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/nodepath"
	"github.com/bunsen-os/bunsen/transpile/unit"
)

// The rules of files in places that do not last, and of files that are about one machine or all its accounts.
const (
	rulePlace    = "place"
	ruleAccounts = "accounts-file"
	// RuleIdentity is the rule of files that are the identity of a machine. A document of one node may have them.
	RuleIdentity = "one-identity"
)

// place warns of a path whose files do not last.
func (l *linter) place(at, file string) {
	if !path.IsAbs(file) || nodepath.Reserved(file) != "" {
		return
	}
	switch p := nodepath.PlaceOf(file, l.system); p.Fate {
	case nodepath.Lasts, nodepath.OfKernel: // Of the kernel's, every node refuses them, which is an error.
	default:
		l.warnAt(at+".path", rulePlace, "%s: %s: %s", file, p.Says(), p.Instead)
	}
}

// accountFiles have all accounts of a machine.
var accountFiles = regexp.MustCompile(`^/etc/(passwd|shadow|group|gshadow)$`)

// identities are the files that make a machine another one than all others: names, numbers and private keys.
var identities = []struct {
	files *regexp.Regexp
	what  string
}{
	{regexp.MustCompile(`^/etc/hostname$`), "host name"},
	{regexp.MustCompile(`^(/etc|/var/lib/dbus)/machine-id$`), "machine ID"},
	{regexp.MustCompile(`^/etc/ssh/ssh_host_[^/]+_key(\.pub)?$`), "SSH host key"},
	{regexp.MustCompile(`^/etc/iscsi/initiatorname\.iscsi$`), "name of an iSCSI initiator"},
	{regexp.MustCompile(`^/etc/nvme/host(nqn|id)$`), "name of an NVMe host"},
	{regexp.MustCompile(`^/var/lib/systemd/(random-seed|credential\.secret)$`), "secret of systemd"},
	{regexp.MustCompile(`^/var/lib/kubelet/pki/`), "certificate of a kubelet"},
	{regexp.MustCompile(`^/etc/rancher/node/password$`), "password of a node"},
	{regexp.MustCompile(`^/etc/pki/consumer/`), "subscription"},
	{regexp.MustCompile(`^/etc/krb5\.keytab$`), "Kerberos key"},
}

// shared warns of a file with which all machines of a pool would be one machine, or have the accounts of another one.
func (l *linter) shared(at string, f ign.File) {
	if accountFiles.MatchString(f.Path) && f.Contents.Source != nil {
		l.warnAt(at+".path", ruleAccounts, "%s has all accounts of a machine, those of its own programs too, and this "+
			"file replaces it: list users and groups in `passwd`", f.Path)
	}
	if f.Contents.Source == nil || strings.Contains(*f.Contents.Source, "node.") {
		return // A fact may be in a URL as it is, or with escapes.
	}
	if data, err := machineconfig.Contents(f.Contents); err == nil && (len(data) == 0 ||
		strings.Contains(string(data), "${node.")) {
		return // An empty /etc/machine-id makes each machine choose one.
	}
	for _, id := range identities {
		if id.files.MatchString(f.Path) {
			l.warnAt(at+".path", RuleIdentity, "%s gives every machine of the pool the same %s: write a value that "+
				"differs by node, such as ${node.name} (docs/per-node.md)", f.Path, id.what)
		}
	}
}

// unitFile matches the path of a unit, or of one of its drop-ins, that a config writes as a file.
var unitFile = regexp.MustCompile(`^/(etc|run|usr/local/lib|usr/lib|lib)/systemd/(system|user)/(([^/]+)\.d/[^/]+\.conf|` +
	`[^/]+\.(service|socket|mount|automount|swap|target|path|timer|slice|scope))$`)

// unitOf returns the name of the unit to which a file belongs, "" for none.
func unitOf(file string) string {
	m := unitFile.FindStringSubmatch(file)
	switch {
	case m == nil:
		return ""
	case m[4] != "" && !strings.Contains(m[4], "."):
		return "" // Drop-ins of all units of a type, such as service.d.
	case m[4] != "":
		return m[4]
	default:
		return path.Base(file)
	}
}

// unitFile checks a unit that a config writes as a file, as it checks the units of the config.
func (l *linter) unitFile(at, file, text string) {
	name := unitOf(file)
	if name == "" || strings.ContainsRune(text, 0) {
		return
	}
	start, _ := l.origin.Find(at + ".source")
	for _, p := range unit.Check(name, text) {
		l.warn(unit.Place(l.linesOf(start.File), start, text, p.Line), p.Rule, p.Message)
	}
}

// homes warns of the parent directories of a file in a home directory that the config does not create: Ignition and the
// daemon create them for root.
func (l *linter) homes() {
	made := map[string]bool{}
	for _, d := range l.config.Ignition.Storage.Directories {
		made[path.Clean(d.Path)] = true
	}
	said := map[string]bool{}
	for i, f := range l.config.Ignition.Storage.Files {
		parts := strings.Split(path.Clean(f.Path), "/")
		if len(parts) < 5 || parts[1] != "home" || f.User.ID == nil && f.User.Name == nil ||
			f.User.Name != nil && *f.User.Name == "root" || f.User.ID != nil && *f.User.ID == 0 {
			continue
		}
		var missing []string
		for n := 4; n < len(parts); n++ { // /home/NAME itself is that of the user.
			if dir := strings.Join(parts[:n], "/"); !made[dir] && !said[dir] {
				missing = append(missing, dir)
				said[dir] = true
			}
		}
		if missing = slices.DeleteFunc(missing,
			func(d string) bool { return path.Base(d) == ".ssh" }); len(missing) > 0 {
			pos, _ := l.origin.Find(fmt.Sprintf("$.storage.files.%d.path", i))
			l.warn(pos, "home-directory", fmt.Sprintf("%s will belong to root, and %s to its user: add %s to "+
				"storage.directories with the same owner", strings.Join(missing, ", "), f.Path, them(missing)))
		}
	}
}

func them(list []string) string {
	if len(list) == 1 {
		return "it"
	}
	return "them"
}
