package machineconfig

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/ignition/v2/config/util"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/nodepath"
	"github.com/bunsen-os/bunsen/api/safetext"
)

// The names that a machine accepts. Ignition checks few of these names.
var (
	unitName = regexp.MustCompile(
		`^[A-Za-z0-9:_.@\\-]+\.(service|socket|device|mount|automount|swap|target|path|timer|slice|scope)$`)
	dropinName = regexp.MustCompile(`^[^/\x00\n]+\.conf$`)
	userName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,30}[A-Za-z0-9_.$-]?$`)
)

// The valid values of kernelType and of extensions.
var (
	kernelTypes = []string{"", "default", "realtime", "64k-pages"}
	extensions  = []string{
		"ipsec", "kerberos", "kernel-devel", "sandboxed-containers", "sysstat", "two-node-ha",
		"usbguard",
	}
)

// The limits of Linux for a path and for one name in a path, in bytes.
const (
	maxPath = 4095
	maxName = 255
)

// Check checks a parsed config by rules that Ignition does not have: names that would escape their directory or forge
// lines in a system file, special mode bits, sources that are not in the config, contents that do not decode or do not
// match their hash. It reads the flat form of the config, so it covers merged configs too. A config with a problem must
// not reach a node. Package disruption decides whether a running node can apply a config.
func Check(c Config) Problems {
	bad := checkWritten(c)
	if !nests(c.Ignition) {
		return bad
	}
	nested, err := named(c.Ignition)
	if err != nil {
		return append(bad, ProblemsOf(err)...)
	}
	for _, n := range nested {
		bad = append(bad, nestedProblems(spot{path: n.Path, place: n.Place}, Check(n.Config))...)
	}
	flat, err := Flat(c)
	if err != nil {
		return append(bad, ProblemsOf(err)...)
	}
	if len(bad) > 0 {
		return bad // A check of the merged config would report these problems again.
	}
	at := spot{path: "$.ignition.config", place: "ignition.config: merging its configs"}
	return nestedProblems(at, checkWritten(flat))
}

// checkWritten checks a config without the configs that it merges.
func checkWritten(c Config) Problems {
	k := &checker{}
	k.storage(c.Ignition.Storage)
	k.units(c.Ignition.Systemd.Units)
	k.passwd(c.Ignition.Passwd)
	k.ignition(c.Ignition.Ignition)
	k.kargs(c)
	k.image(ofSpec("osImageURL"), c.OSImageURL)
	k.image(ofSpec("baseOSExtensionsContainerImage"), c.ExtensionsImage)
	return k.bad
}

// checker collects problems.
type checker struct{ bad Problems }

func (k *checker) addError(at spot, format string, args ...any) {
	k.bad = append(k.bad, at.problem(fmt.Errorf(format, args...)))
}

func (k *checker) storage(s ign.Storage) {
	for i, f := range s.Files {
		k.file(i, f)
	}
	for i, d := range s.Directories {
		at := item("storage", "directories", i, d.Path)
		k.node(at, d.Node)
		k.mode(at, d.Mode)
	}
	for i, l := range s.Links {
		at := item("storage", "links", i, l.Path)
		k.node(at, l.Node)
		k.belowRoot(at, l.Path)
		if l.Target != nil {
			k.plain(at.part("target"), *l.Target)
		}
	}
	for i, f := range s.Filesystems {
		at := item("storage", "filesystems", i, f.Device)
		k.plain(at.part("device"), f.Device)
		if f.Path != nil {
			k.plain(at.part("path"), *f.Path)
		}
	}
	for i, d := range s.Disks {
		k.plain(item("storage", "disks", i, d.Device).part("device"), d.Device)
	}
	for i, l := range s.Luks {
		k.resource(item("storage", "luks", i, l.Name).part("keyFile"), l.KeyFile)
	}
}

func (k *checker) file(i int, f ign.File) {
	at := item("storage", "files", i, f.Path)
	k.node(at, f.Node)
	k.belowRoot(at, f.Path)
	k.mode(at, f.Mode)
	k.contents(at, f)
	for j, a := range f.Append {
		k.resource(at.part("append").at(j), a)
	}
}

// contents checks the contents of a file, which may be remote.
func (k *checker) contents(at spot, f ign.File) {
	_, remote, err := RemoteOf(f.Contents)
	source := at.part("contents").below("source")
	switch {
	case !remote:
		k.resource(at.part("contents"), f.Contents)
	case err != nil:
		k.addError(resourcePart(at.part("contents"), err), "%w", err)
	case len(f.Append) > 0:
		k.addError(source, "a file with remote contents cannot append: put all of it behind the address, or "+
			"put the contents into the repository")
	case strings.HasPrefix(path.Clean(f.Path), nodepath.UnitDir+"/"), strings.HasPrefix(path.Clean(f.Path),
		nodepath.UnitDir+"-preset/"):
		k.addError(source, "units and presets are not downloaded, because Bunsen must know their [Install] "+
			"sections: put the file into the repository, and name it with Butane's `local:`")
	}
}

func (k *checker) node(at spot, n ign.Node) {
	k.plain(at.part("path"), n.Path)
	k.fits(at.part("path"), n.Path)
	for _, owner := range []struct {
		what string
		name *string
	}{{"user", n.User.Name}, {"group", n.Group.Name}} {
		if util.NotEmpty(owner.name) {
			k.account(at.part(owner.what).below("name"), *owner.name)
		}
	}
}

func (k *checker) mode(at spot, mode *int) {
	if mode == nil || *mode >= 0 && *mode <= 0o777 {
		return
	}
	at = at.below("mode")
	if octal, err := strconv.ParseUint(strconv.Itoa(*mode), 8, 32); err == nil && octal <= 0o777 {
		k.addError(at, "mode %d is read as a decimal number: write %#o (in JSON: %d)", *mode, octal, octal)
	} else if err != nil && *mode > 0 && *mode <= 999 { // A digit 8 or 9: YAML takes 0888 for a decimal number.
		k.addError(at, "mode %d is read as a decimal number, and 8 and 9 are no octal digits: write it like 0644 "+
			"(in JSON: "+
			"420)", *mode)
	} else {
		k.addError(at, "mode %#o has setuid, setgid, sticky or unknown bits, which are not supported. Use 0000 to "+
			"0777 (in JSON as a decimal number: 0644 is 420)", *mode)
	}
}

func (k *checker) resource(at spot, r ign.Resource) {
	data, err := Contents(r)
	if err == nil {
		err = verify(r, data)
	}
	if err != nil {
		k.addError(resourcePart(at, err), "%w", err)
	}
}

// hashError is a problem of the hash of a resource.
type hashError struct{ error }

// resourcePart returns the spot of the part of a resource that a problem is about: the hash, or otherwise the source.
func resourcePart(resource spot, problem error) spot {
	if errors.As(problem, new(hashError)) {
		return resource.below("verification.hash")
	}
	return resource.below("source")
}

func (k *checker) units(units []ign.Unit) {
	for i, u := range units {
		at := item("systemd", "units", i, u.Name)
		if !unitName.MatchString(u.Name) || strings.HasPrefix(u.Name, ".") {
			k.addError(at.below("name"), "%q is not the name of a unit: use letters, digits and :_.@\\- and end "+
				"in .service, .socket, .mount, .timer or another unit type", u.Name)
		}
		k.fits(at.below("name"), u.Name)
		for j, d := range u.Dropins {
			dropin := at.part("dropins").at(j).below("name")
			k.fits(dropin, d.Name)
			if !dropinName.MatchString(d.Name) || safetext.HasHidden(d.Name) {
				k.addError(dropin, "%q is not the name of a drop-in: names end in "+
					".conf and contain no /", d.Name)
			}
		}
	}
}

func (k *checker) passwd(p ign.Passwd) {
	for i, u := range p.Users {
		at := item("passwd", "users", i, u.Name)
		k.account(at.below("name"), u.Name)
		for _, f := range []struct {
			what  string
			value *string
		}{{"gecos", u.Gecos}, {"homeDir", u.HomeDir}, {"shell", u.Shell}, {"passwordHash", u.PasswordHash}} {
			if f.value != nil && (safetext.HasHidden(*f.value) || strings.Contains(*f.value, ":")) {
				k.addError(at.part(f.what), "it contains a colon or a hidden character, which could forge a line of "+
					"/etc/passwd or /etc/shadow")
			}
		}
		if u.PrimaryGroup != nil {
			k.account(at.part("primaryGroup"), *u.PrimaryGroup)
		}
		for _, g := range u.Groups {
			k.account(at.part("groups"), string(g))
		}
		for j, key := range u.SSHAuthorizedKeys {
			if strings.ContainsRune(string(key), 0) {
				k.addError(at.part("sshAuthorizedKeys").at(j), "it contains a NUL byte")
			}
		}
	}
	for i, g := range p.Groups {
		k.account(item("passwd", "groups", i, g.Name).below("name"), g.Name)
	}
}

// account checks the name of a user or group.
func (k *checker) account(at spot, name string) {
	if !userName.MatchString(name) {
		k.addError(at, "%q is not a valid name of a user or group. A name begins with a letter or _, contains "+
			"letters, digits and _.-, and has at most 32 characters", name)
	}
}

// ignition refuses certificates that Ignition would fetch from elsewhere.
func (k *checker) ignition(i ign.Ignition) {
	for j, r := range i.Security.TLS.CertificateAuthorities {
		k.resource(ofIgnition("security.tls.certificateAuthorities").at(j), r)
	}
}

func (k *checker) kargs(c Config) {
	for i, a := range c.KernelArguments {
		if strings.Count(a, `"`)%2 != 0 {
			k.addError(ofSpec("kernelArguments").at(i), "it has an odd number of double quotes, so it would "+
				"include the next arguments: close the quote")
		}
		k.plain(ofSpec("kernelArguments").at(i), strings.ReplaceAll(strings.ReplaceAll(a, "\t", " "), "\n", " "))
	}
}

// image refuses references that a program would read as two arguments or as an option.
func (k *checker) image(at spot, ref string) {
	if strings.HasPrefix(ref, "-") || strings.ContainsFunc(ref, func(r rune) bool { return r <= ' ' || r > '~' }) {
		k.addError(at, "%q is not a reference of an image: write one like quay.io/org/image@sha256:…, without blanks",
			ref)
	}
}

// belowRoot refuses a file or link at the path of the root directory.
func (k *checker) belowRoot(at spot, path string) {
	if path == "/" {
		k.addError(at.part("path"), "it is the root directory: write a path below it")
	}
}

// fits refuses names that are too long for file systems. A node would fail when it writes the file.
func (k *checker) fits(at spot, path string) {
	if len(path) > maxPath {
		k.addError(at, "it has %d bytes, and a path has at most %d", len(path), maxPath)
		return
	}
	for _, name := range strings.Split(path, "/") {
		if len(name) > maxName {
			k.addError(at, "%.20q… has %d bytes, and a name in a path has at most %d", name, len(name), maxName)
		}
	}
}

// plain refuses hidden characters, because two different names could look the same.
func (k *checker) plain(at spot, text string) {
	if safetext.HasHidden(text) {
		k.addError(at, "%s contains a hidden character", safetext.Quote(text))
	}
}

// oneLine returns a name for messages, quoted if it has hidden characters.
func oneLine(name string) string {
	if safetext.HasHidden(name) {
		return safetext.Quote(name)
	}
	return name
}

// CheckSystem returns the problems of kernelType and extensions.
func CheckSystem(kernelType string, names []string) (bad Problems) {
	if !slices.Contains(kernelTypes, kernelType) {
		bad = append(bad, Problem{Path: ofSpec("kernelType").path, Err: fmt.Errorf("kernelType %q is invalid: use "+
			"default, realtime or 64k-pages", kernelType)})
	}
	for i, e := range names {
		if !slices.Contains(extensions, e) {
			at := ofSpec("extensions").at(i)
			bad = append(bad, Problem{Path: at.path, Place: at.place, Err: fmt.Errorf("%q is an invalid extension: "+
				"use any of %s", e, strings.Join(extensions, ", "))})
		}
	}
	if slices.Contains(names, "kernel-devel") && kernelType != "" && kernelType != "default" {
		bad = append(bad, Problem{Path: "$", Err: fmt.Errorf("extension kernel-devel needs the default kernel, not "+
			"kernelType %s: remove one of them", kernelType)})
	}
	return bad
}
