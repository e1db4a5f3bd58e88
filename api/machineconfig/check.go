package machineconfig

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/coreos/ignition/v2/config/util"
	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/safetext"
)

// The names that a machine takes. Ignition itself checks hardly any of them, and writes what it is given.
var (
	unitName   = regexp.MustCompile(`^[A-Za-z0-9:_.@\\-]+\.(service|socket|device|mount|automount|swap|target|path|timer|slice|scope)$`)
	dropinName = regexp.MustCompile(`^[^/\x00\n]+\.conf$`)
	userName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,30}[A-Za-z0-9_.$-]?$`)
)

// What Linux takes as a path and as one name in it, in bytes.
const (
	maxPath = 4095
	maxName = 255
)

// Check judges a parsed config by the rules beyond Ignition's: names that would escape their directory or forge lines
// in a system file, special mode bits, sources that are not in the config, contents that do not decode or do not match
// their hash. It judges the flat form, so configs that the config merges are checked too, and a config without a flat form
// has a problem. Check returns every problem, each naming its place; a config with any must not reach a node. Check says
// nothing about whether a running node can take the config: package policy does.
func Check(c Config) []error {
	bad := checkWritten(c)
	if !nests(c.Ignition) {
		return bad
	}
	nested, err := named(c.Ignition)
	if err != nil {
		return append(bad, split(err)...)
	}
	for _, n := range nested {
		for _, err := range Check(n.Config) {
			bad = append(bad, at(n.Place, err))
		}
	}
	flat, err := Flat(c)
	if err != nil {
		return append(bad, split(err)...)
	}
	if len(bad) > 0 {
		return bad // what these give together has the same problems
	}
	for _, err := range checkWritten(flat) {
		bad = append(bad, at("ignition.config: merging the configs that it names", err))
	}
	return bad
}

// checkWritten looks at all of a config but for the configs that it names.
func checkWritten(c Config) []error {
	k := &checker{}
	k.storage(c.Ignition.Storage)
	k.units(c.Ignition.Systemd.Units)
	k.passwd(c.Ignition.Passwd)
	k.ignition(c.Ignition.Ignition)
	k.kargs(c)
	k.image("osImageURL", c.OSImageURL)
	k.image("baseOSExtensionsContainerImage", c.ExtensionsImage)
	return k.bad
}

// checker collects problems.
type checker struct{ bad []error }

func (k *checker) say(place, format string, args ...any) {
	k.bad = append(k.bad, fmt.Errorf("%s: %w", place, fmt.Errorf(format, args...)))
}

func (k *checker) storage(s ign.Storage) {
	for i, f := range s.Files {
		k.file(i, f)
	}
	for i, d := range s.Directories {
		at := item("directories", i, d.Path)
		k.node(at, d.Node)
		k.mode(at, d.Mode)
	}
	for i, l := range s.Links {
		at := item("links", i, l.Path)
		k.node(at, l.Node)
		k.belowRoot(at, l.Path)
		if l.Target != nil {
			k.plain(at+" target", *l.Target)
		}
	}
	for i, f := range s.Filesystems {
		at := item("filesystems", i, f.Device)
		k.plain(at+" device", f.Device)
		if f.Path != nil {
			k.plain(at+" path", *f.Path)
		}
	}
	for i, d := range s.Disks {
		k.plain(item("disks", i, d.Device)+" device", d.Device)
	}
	for i, l := range s.Luks {
		k.resource(item("luks", i, l.Name)+" keyFile", l.KeyFile)
	}
}

func (k *checker) file(i int, f ign.File) {
	at := item("files", i, f.Path)
	k.node(at, f.Node)
	k.belowRoot(at, f.Path)
	k.mode(at, f.Mode)
	k.resource(at+" contents", f.Contents)
	for j, a := range f.Append {
		k.resource(fmt.Sprintf("%s append[%d]", at, j), a)
	}
}

func (k *checker) node(at string, n ign.Node) {
	k.plain(at+" path", n.Path)
	k.fits(at+" path", n.Path)
	for _, owner := range []struct {
		what string
		name *string
	}{{"user", n.User.Name}, {"group", n.Group.Name}} {
		if util.NotEmpty(owner.name) {
			k.account(at+" "+owner.what, *owner.name)
		}
	}
}

func (k *checker) mode(at string, mode *int) {
	if mode == nil || *mode >= 0 && *mode <= 0o777 {
		return
	}
	if meant, err := strconv.ParseUint(strconv.Itoa(*mode), 8, 32); err == nil && meant <= 0o777 {
		k.say(at, "mode %d is read as a decimal number: write %#o (in JSON: %d)", *mode, meant, meant)
	} else {
		k.say(at, "mode %#o has more than permission bits: setuid, setgid and sticky are not supported, use 0000 to 0777 (JSON wants it in decimal: 0644 is 420)", *mode)
	}
}

func (k *checker) resource(at string, r ign.Resource) {
	data, err := Contents(r)
	if err == nil {
		err = verify(r, data)
	}
	if err != nil {
		k.say(at, "%w", err)
	}
}

func (k *checker) units(units []ign.Unit) {
	for i, u := range units {
		at := item("units", i, u.Name)
		if !unitName.MatchString(u.Name) || strings.HasPrefix(u.Name, ".") {
			k.say(at, "%q is no name of a unit: use letters, digits and :_.@\\- and end in .service, .socket, .mount, .timer or another unit type", u.Name)
		}
		k.fits(at, u.Name)
		for j, d := range u.Dropins {
			k.fits(fmt.Sprintf("%s dropins[%d]", at, j), d.Name)
			if !dropinName.MatchString(d.Name) || safetext.HasHidden(d.Name) {
				k.say(fmt.Sprintf("%s dropins[%d]", at, j), "%q is no name of a drop-in: it ends in .conf and has no / in it", d.Name)
			}
		}
	}
}

func (k *checker) passwd(p ign.Passwd) {
	for i, u := range p.Users {
		at := item("users", i, u.Name)
		k.account(at, u.Name)
		for _, f := range []struct {
			what  string
			value *string
		}{{"gecos", u.Gecos}, {"homeDir", u.HomeDir}, {"shell", u.Shell}, {"passwordHash", u.PasswordHash}} {
			if f.value != nil && (safetext.HasHidden(*f.value) || strings.Contains(*f.value, ":")) {
				k.say(at+" "+f.what, "it has a colon, a control character or another hidden character, which could forge a line of /etc/passwd or /etc/shadow")
			}
		}
		if u.PrimaryGroup != nil {
			k.account(at+" primaryGroup", *u.PrimaryGroup)
		}
		for _, g := range u.Groups {
			k.account(at+" groups", string(g))
		}
		for j, key := range u.SSHAuthorizedKeys {
			if strings.ContainsRune(string(key), 0) {
				k.say(fmt.Sprintf("%s sshAuthorizedKeys[%d]", at, j), "it has a NUL in it")
			}
		}
	}
	for i, g := range p.Groups {
		k.account(item("groups", i, g.Name), g.Name)
	}
}

// account checks the name of a user or group.
func (k *checker) account(at, name string) {
	if !userName.MatchString(name) {
		k.say(at, "%q is no name of a user or group: a letter or _ first, then letters, digits and _.-, at most 32", name)
	}
}

// ignition refuses certificates that Ignition would fetch from elsewhere.
func (k *checker) ignition(i ign.Ignition) {
	for j, r := range i.Security.TLS.CertificateAuthorities {
		k.resource(fmt.Sprintf("ignition.security.tls.certificateAuthorities[%d]", j), r)
	}
}

func (k *checker) kargs(c Config) {
	for i, a := range c.KernelArguments {
		if strings.Count(a, `"`)%2 != 0 {
			k.say(fmt.Sprintf("kernelArguments[%d]", i), "it has an odd number of double quotes, so it would take in the arguments that follow: close the quote")
		}
		k.plain(fmt.Sprintf("kernelArguments[%d]", i), strings.ReplaceAll(strings.ReplaceAll(a, "\t", " "), "\n", " "))
	}
}

// image refuses what no reference of an image has in it, and a program would take for two arguments or for an option.
func (k *checker) image(at, ref string) {
	if strings.HasPrefix(ref, "-") || strings.ContainsFunc(ref, func(r rune) bool { return r <= ' ' || r > '~' }) {
		k.say(at, "%q is no reference of an image: it is like quay.io/org/image@sha256:…, without blanks", ref)
	}
}

// belowRoot refuses a file or link in the place of the root directory.
func (k *checker) belowRoot(at, path string) {
	if path == "/" {
		k.say(at+" path", "it is the root directory itself; name what is below it")
	}
}

// fits refuses names that no file system takes: a node would fail only when it writes the file.
func (k *checker) fits(at, path string) {
	if len(path) > maxPath {
		k.say(at, "it has %d bytes, and a path has at most %d", len(path), maxPath)
		return
	}
	for _, name := range strings.Split(path, "/") {
		if len(name) > maxName {
			k.say(at, "%.20q… has %d bytes, and a name in a path has at most %d", name, len(name), maxName)
		}
	}
}

// plain refuses hidden characters: two names that look the same would differ, and a reader could not tell.
func (k *checker) plain(at, text string) {
	if safetext.HasHidden(text) {
		k.say(at, "%s has a control character or another hidden character in it", safetext.Quote(text))
	}
}

// item names one item of a list: `files[2] /etc/x`. A hostile name is quoted, so that a message stays one line.
func item(list string, i int, name string) string {
	return strings.TrimRight(fmt.Sprintf("%s[%d] %s", list, i, oneLine(name)), " ")
}

func oneLine(name string) string {
	if safetext.HasHidden(name) {
		return safetext.Quote(name)
	}
	return name
}
