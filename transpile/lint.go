package transpile

import (
	"encoding/base64"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/nodepath"
	"github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/unit"
)

// The rules of findings about mistakes that users would notice only on a machine. Such findings are warnings, because a
// machine runs despite these mistakes.
const (
	ruleScript      = "script-line-ends"
	rulePlaceholder = "placeholder"
	// RuleNodeFact is the rule of placeholders that a table of nodes would replace.
	RuleNodeFact = "node-fact"
	// ruleIgnored is the rule of fields that Bunsen accepts and that no node reads.
	ruleIgnored  = "ignored-field"
	ruleArgument = "kernel-arguments"
	// ruleIdle is the rule of settings of a unit that have no effect.
	ruleIdle = "unit-idle"
	// ruleReference is the rule of references to secrets.
	ruleReference = "secret-reference"
)

// linter checks a config for mistakes that no parser refuses.
type linter struct {
	config   machineconfig.Config
	origin   origin.Map
	system   string // the operating system of the document, as a variant of Butane; "" if it does not say
	fs       fs.FS
	lines    map[string][]string // the lines of files of the repository
	findings []origin.Finding
}

// Lint warns of mistakes that users would notice only on a machine. The parameter system is the operating system of
// the document, as a variant of Butane; "" if the document does not say. Check reads files of the repository for the
// lines of units.
func Lint(repository fs.FS, config machineconfig.Config, system string, at origin.Map) []origin.Finding {
	l := &linter{config: config, system: system, origin: at, fs: repository, lines: map[string][]string{}}
	l.units()
	l.kernelArguments()
	if config.ExtensionsImage != "" {
		at, _ := l.origin.Find("spec.baseOSExtensionsContainerImage")
		l.warn(at, ruleIgnored, "baseOSExtensionsContainerImage has no effect: nodes install extensions from their "+
			"package repositories; remove it")
	}
	for i, f := range l.config.Ignition.Storage.Files {
		at := fmt.Sprintf("$.storage.files.%d", i)
		l.placeholder(at+".path", "the path", f.Path)
		l.contents(at+".contents", f.Path, f.Contents)
		l.owners(at, f.Node)
		l.place(at, f.Path)
		l.shared(at, f)
		l.read(at, f)
	}
	l.homes()
	for i, f := range l.config.Ignition.Storage.Directories {
		at := fmt.Sprintf("$.storage.directories.%d", i)
		l.placeholder(at+".path", "the path", f.Path)
		l.place(at, f.Path)
		l.owners(at, f.Node)
	}
	for i, f := range l.config.Ignition.Storage.Links {
		at := fmt.Sprintf("$.storage.links.%d", i)
		l.placeholder(at+".path", "the path", f.Path)
		l.place(at, f.Path)
		if f.Target != nil {
			l.placeholder(at+".target", "the target", *f.Target)
		}
	}
	for i, u := range l.config.Ignition.Passwd.Users {
		l.placeholder(fmt.Sprintf("$.passwd.users.%d.name", i), "the name", u.Name)
	}
	return l.findings
}

func (l *linter) warn(at origin.Pos, rule, message string) {
	l.findings = append(l.findings, origin.Finding{Warning: true, Rule: rule, Message: message, At: at})
}

func (l *linter) warnAt(item, rule, format string, args ...any) {
	at, _ := l.origin.Find(item)
	l.warn(at, rule, fmt.Sprintf(format, args...))
}

func (l *linter) units() {
	for i, u := range l.config.Ignition.Systemd.Units {
		at := fmt.Sprintf("$.systemd.units.%d", i)
		l.placeholder(at+".name", "the name", u.Name)
		l.unit(at+".contents", u.Name, u.Contents)
		l.misspelled(at, u)
		l.idle(at, u)
		for j, d := range u.Dropins {
			l.unit(fmt.Sprintf("%s.dropins.%d.contents", at, j), u.Name, d.Contents)
		}
	}
}

// misspelled warns of a unit that the config does not create, if a unit of a distribution has nearly that name. systemd
// ignores the settings of a unit that does not exist.
func (l *linter) misspelled(at string, u ign.Unit) {
	if u.Contents != nil && *u.Contents != "" || slices.ContainsFunc(l.config.Ignition.Storage.Files,
		func(f ign.File) bool { return path.Base(f.Path) == u.Name }) {
		return
	}
	if right := unit.Misspelled(u.Name); right != "" {
		pos, _ := l.origin.Find(at + ".name")
		l.warn(pos, unit.RuleName, fmt.Sprintf("the config does not create the unit %s, and systemd ignores "+
			"settings of a "+
			"unit that does not exist: did you mean %s?", u.Name, right))
	}
}

// kernelArguments warns of arguments that are none, that belong to the boot loader, or that the kernel does not read.
func (l *linter) kernelArguments() {
	// Of a longer command line, the kernel of x86-64 reads only the beginning: COMMAND_LINE_SIZE in its sources.
	const longest = 2047
	length := -1
	for i, entry := range l.config.KernelArguments {
		at := fmt.Sprintf("spec.kernelArguments.%d", i)
		args := machineconfig.SplitKargs([]string{entry})
		if len(args) == 0 {
			l.warnAt(at, ruleArgument, "kernel argument %d is empty: write one, or remove the entry", i+1)
		}
		for _, arg := range args {
			length += len(arg) + 1
			switch name, _, _ := strings.Cut(arg, "="); name {
			case "ostree", "BOOT_IMAGE":
				l.warnAt(at, ruleArgument, "%s= is written for each boot by OSTree or the boot loader, and with "+
					"another value a machine may not boot: remove it", name)
			}
		}
	}
	if length > longest {
		l.warnAt("spec.kernelArguments.0", ruleArgument, "the kernel arguments have %d characters, and a kernel of "+
			"x86-64 reads %d with those of the image: remove some", length, longest)
	}
}

// idle warns of what a document says about a unit without an effect.
func (l *linter) idle(at string, u ign.Unit) {
	own, isEnabled := u.Contents != nil && *u.Contents != "", u.Enabled != nil && *u.Enabled
	switch {
	case u.Mask != nil && *u.Mask:
		if own || isEnabled || len(u.Dropins) > 0 {
			l.warnAt(at+".mask", ruleIdle, "%s is masked, so its contents, its drop-ins and enabled: true have no "+
				"effect: remove them, or the mask", u.Name)
		}
	case isEnabled && l.hasMask(u.Name):
		l.warnAt(at+".enabled", ruleIdle, "a link of storage.links to /dev/null masks %s, so enabled: true has no "+
			"effect: remove one of them", u.Name)
	case !own && len(u.Dropins) == 0 && u.Enabled == nil && u.Mask == nil:
		l.warnAt(at+".name", ruleIdle, "nothing is set of %s: give it contents, dropins, enabled or mask, or remove "+
			"it", u.Name)
	case isEnabled && own && strings.HasSuffix(strings.TrimSuffix(u.Name, path.Ext(u.Name)), "@") &&
		!hasDefaultInstance(u):
		l.warnAt(at+".enabled", ruleIdle, "%s is a template without a default instance, so enabled: true has no "+
			"effect: enable an instance such as %s, or write DefaultInstance= in the section [Install]", u.Name,
			strings.Replace(u.Name, "@.", "@INSTANCE.", 1))
	}
}

// hasMask reports whether a link of the document masks a unit.
func (l *linter) hasMask(unit string) bool {
	return slices.ContainsFunc(l.config.Ignition.Storage.Links, func(n ign.Link) bool {
		return path.Clean(n.Path) == path.Join(nodepath.UnitDir, unit) && n.Target != nil && *n.Target == "/dev/null"
	})
}

func hasDefaultInstance(u ign.Unit) bool {
	texts := []*string{u.Contents}
	for _, d := range u.Dropins {
		texts = append(texts, d.Contents)
	}
	return slices.ContainsFunc(texts, func(text *string) bool {
		return text != nil && defaultInstance.MatchString(*text)
	})
}

var defaultInstance = regexp.MustCompile(`(?m)^[ \t]*DefaultInstance[ \t]*=[ \t]*\S`)

// unit checks the text of a unit or of one of its drop-ins.
func (l *linter) unit(path, name string, text *string) {
	if text == nil {
		return
	}
	l.unmarked(path, name, *text)
	start, _ := l.origin.Find(path)
	for _, p := range unit.Check(name, *text) {
		l.warn(unit.Place(l.linesOf(start.File), start, *text, p.Line), p.Rule, p.Message)
	}
}

// linesOf returns the lines of a file of the repository. linesOf returns nil if the file is unreadable; findings then
// have the position of the whole text.
func (l *linter) linesOf(name string) []string {
	lines, known := l.lines[name]
	if !known && name != "" {
		if src, err := fs.ReadFile(l.fs, name); err == nil {
			lines = strings.Split(string(src), "\n")
		}
		l.lines[name] = lines
	}
	return lines
}

// leftOver matches placeholders of a template: ${NAME}, ${module.name}, {{ name }}.
var leftOver = regexp.MustCompile(`\$\{[A-Za-z_][^{}\s]*\}|\{\{[^{}]*\}\}`)

// placeholder warns of a placeholder in a value, because no program replaces it on a machine.
func (l *linter) placeholder(path, what, value string) {
	if !strings.Contains(value, "{") {
		return
	}
	if found := leftOver.FindString(value); found != "" {
		at, _ := l.origin.Find(path)
		l.warn(at, ruleOf(found), fmt.Sprintf("%s still has the placeholder %s, and nothing replaces it on a "+
			"machine: write the value", what, found))
	}
}

// ruleOf returns the rule of a placeholder.
func ruleOf(placeholder string) string {
	if strings.HasPrefix(placeholder, "${node.") {
		return RuleNodeFact
	}
	return rulePlaceholder
}

func (l *linter) owners(at string, n ign.Node) {
	if n.User.Name != nil {
		l.placeholder(at+".user.name", "the owner", *n.User.Name)
	}
	if n.Group.Name != nil {
		l.placeholder(at+".group.name", "the group", *n.Group.Name)
	}
}

// contents warns of a script with Windows line ends, and of contents that are a single placeholder. contents does not
// warn of several placeholders, because they may be variables of a script.
func (l *linter) contents(path, name string, r ign.Resource) {
	if r.Source == nil || machineconfig.IsUnresolved(*r.Source) || unitOf(name) == "" && !mayBeScript(r) &&
		len(*r.Source) > maxPlaceholder && !mayRefer(*r.Source) {
		return
	}
	data, err := machineconfig.Contents(r)
	if err != nil {
		return // The validation of the whole config reports this error.
	}
	text := string(data)
	l.unmarked(path+".source", name, text)
	l.unitFile(path, name, text)
	at, _ := l.origin.Find(path + ".source")
	if first, _, ok := strings.Cut(text, "\n"); ok && strings.HasPrefix(text, "#!") && strings.HasSuffix(first, "\r") {
		l.warn(at, ruleScript, fmt.Sprintf("%s is a script whose lines end in CR LF, so its interpreter %q does not "+
			"exist on a machine: save it with LF alone", name, strings.TrimPrefix(first, "#!")))
	}
	if whole := strings.TrimSpace(text); len(whole) <= maxPlaceholder && whole != "" &&
		leftOver.FindString(whole) == whole {
		l.warn(at, ruleOf(whole), fmt.Sprintf("the contents of %s are the placeholder %s, and nothing replaces it on "+
			"a machine: write the value", name, whole))
	}
}

// maxPlaceholder is the maximum length of a data: URL whose contents may be a single placeholder.
const maxPlaceholder = 300

// mayBeScript reports whether contents may begin with #!, without decoding them.
func mayBeScript(r ign.Resource) bool {
	if r.Compression != nil && *r.Compression != "" {
		return true
	}
	for _, begin := range []string{"data:,%23!", "data:,%23%21", "data:,#!", "data:;base64," +
		base64.StdEncoding.EncodeToString([]byte("#!"))[:2]} {
		if strings.HasPrefix(*r.Source, begin) {
			return true
		}
	}
	return strings.HasPrefix(*r.Source, "data:text/") || strings.HasPrefix(*r.Source, "data:application/")
}

// unmarked warns of a placeholder for a secret in a text that is no template, because the node gets it as it is.
func (l *linter) unmarked(path, name, text string) {
	for _, kind := range []machineconfig.SecretKind{machineconfig.Secret, machineconfig.ConfigMap} {
		if before, _, found := strings.Cut(text, "${"+string(kind)+":"); found && !strings.HasSuffix(before, "$") {
			at, _ := l.origin.Find(path)
			l.warn(at, ruleReference, fmt.Sprintf("%s has ${%s:…}, and nothing replaces it on a machine: write "+
				"`template: true` beside its path. Only files in storage.files can be templates", name, kind))
		}
	}
}

// mayRefer reports, without decoding a source, whether its contents may have a placeholder for a secret.
func mayRefer(source string) bool {
	return strings.Contains(source, "secret") && (strings.Contains(source, "secret:") || strings.Contains(source,
		"secret%3A")) ||
		strings.Contains(source, "configmap:") || strings.Contains(source, "configmap%3A")
}

// passwordHash matches what crypt(3) accepts: a hash with its method, or a marker of an account without a password. The
// methods are those of libcrypt: yescrypt, gost-yescrypt, scrypt, bcrypt, sha512crypt, sha256crypt, sha1crypt, md5crypt
// and sunmd5.
var passwordHash = regexp.MustCompile(`^(!{0,2}\$(y|gy|7|2[abxy]?|6|5|sha1|1|md5)[$,][^\s:]+|[!*x]|!!|\*LK\*|)$`)

// checkAccounts checks the SSH keys and password hashes of a document's users. Ignition does not check SSH keys and
// password hashes, so users notice a mistake only when they cannot log in. A private key is an error. Every other
// mistake is a warning, because imported configs may contain unused keys. The findings never quote a key or a hash.
func checkAccounts(config machineconfig.Config, from origin.Map) []origin.Finding {
	var found []origin.Finding
	say := func(path, rule, format string, args ...any) {
		at, _ := from.Find(path)
		message := fmt.Sprintf(format, args...)
		found = append(found, origin.Finding{Warning: rule != "private-key", Rule: rule, Message: message, At: at})
	}
	for i, u := range config.Ignition.Passwd.Users {
		here := fmt.Sprintf("$.passwd.users.%d", i)
		for j, key := range u.SSHAuthorizedKeys {
			if strings.HasPrefix(string(key), "#") {
				continue // sshd skips comments, and a local file of keys may contain some.
			}
			if why := kinds.SSHKeyProblem(string(key)); why != "" {
				rule := "ssh-key"
				if strings.Contains(string(key), "PRIVATE KEY") {
					rule = "private-key"
				}
				say(fmt.Sprintf("%s.sshAuthorizedKeys.%d", here, j), rule, "user %s: %s", u.Name, why)
			}
		}
		if u.NoCreateHome != nil && *u.NoCreateHome && len(u.SSHAuthorizedKeys) > 0 && u.Name != "root" &&
			u.Name != "core" {
			say(here+".noCreateHome", "no-home", "user %s has SSH keys and no_create_home: unless the image has the "+
				"home directory, a new machine cannot write the keys and does not boot. Remove no_create_home", u.Name)
		}
		if h := u.PasswordHash; h != nil && !passwordHash.MatchString(*h) {
			say(here+".passwordHash", "password-hash", "user %s: the value is not a password hash, so the user "+
				"cannot log in. If it is a password, change it, because every reader of the repository has it; "+
				"write what `mkpasswd --method=yescrypt` prints", u.Name)
		}
	}
	return found
}

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
