package nodepath

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Fate is what becomes of a file that a config writes, because of the directory it is in.
type Fate string

// The fates of files.
const (
	// Lasts is the fate of all files but those in the directories of the table.
	Lasts Fate = ""
	// OfKernel means that the kernel makes the files of the directory, so that nobody can write others.
	OfKernel Fate = "of the kernel"
	// LostAtBoot means that the directory is empty after each boot.
	LostAtBoot Fate = "lost at boot"
	// LostByAge means that systemd-tmpfiles removes old files of the directory.
	LostByAge Fate = "lost by age"
	// ReadOnly means that the directory is part of the image of the operating system.
	ReadOnly Fate = "read-only"
	// WithoutModes means that the file system has neither modes nor owners nor links.
	WithoutModes Fate = "without modes"
)

// Place is a directory with the fate of its files.
type Place struct {
	Dir  string
	Fate Fate
	// Instead is what works instead, as a sentence without a capital letter and a full stop.
	Instead string
}

// The operating systems of the table are named as Butane's variants: those whose root is a deployment of OSTree, and
// those whose daemons mount /boot read-only.
var (
	ofOSTree     = []string{"fcos", "openshift", "r4e", "fiot"}
	readOnlyBoot = []string{"fcos", "openshift"}
	ofFlatcar    = []string{"flatcar"}
)

// places has the directories whose files do not simply last: file-hierarchy(7), ostree(1) (adapting), and the
// documentation of Fedora CoreOS and Flatcar. systems are variants of Butane; a row without systems is for all of them.
var places = []struct {
	Place
	systems []string
}{
	{Place{"/proc", OfKernel, "a setting of the kernel is a line in a file /etc/sysctl.d/NAME.conf"}, nil},
	{Place{"/sys", OfKernel, "let systemd write the value at each boot, with a line " +
		"`w PATH - - - - VALUE` in a file /etc/tmpfiles.d/NAME.conf, or with a rule of udev"}, nil},
	{Place{"/dev", OfKernel, "name a device with a rule in /etc/udev/rules.d, or make it at each boot with a line in " +
		"a file /etc/tmpfiles.d/NAME.conf"}, nil},
	{Place{"/run", LostAtBoot, inRun}, nil},
	{Place{"/var/run", LostAtBoot, inRun}, nil},
	{Place{"/var/lock", LostAtBoot, inRun}, nil},
	{Place{"/tmp", LostAtBoot, "choose a directory below /var/lib, or write a line of /etc/tmpfiles.d, which makes " +
		"the file at each boot"}, nil},
	{Place{"/media", LostAtBoot, "choose a directory below /var/mnt or /var/lib"}, ofOSTree},
	{Place{"/var/tmp", LostByAge, "choose a directory below /var/lib"}, nil},
	{Place{"/efi", WithoutModes, onFAT}, nil},
	{Place{"/boot/efi", WithoutModes, onFAT}, nil},
	{Place{"/boot", WithoutModes, onFAT}, ofFlatcar},
	{Place{"/boot", ReadOnly, "kernel arguments are `kernelArguments` of the config"}, readOnlyBoot},
	{Place{"/boot/grub2", Lasts, ""}, readOnlyBoot}, // A first boot writes user.cfg, for Butane's grub.users.
	{Place{"/usr", ReadOnly, "choose a directory below /etc, /var or /usr/local"}, ofOSTree},
	{Place{"/usr/bin", ReadOnly, "/usr/local/bin is writable, and in the PATH"}, ofOSTree},
	{Place{"/usr/sbin", ReadOnly, "/usr/local/sbin is writable, and in the PATH"}, ofOSTree},
	{Place{"/usr/local", Lasts, ""}, ofOSTree},
	{Place{"/usr", ReadOnly, "choose a directory below /etc, /var or /opt"}, ofFlatcar},
	{Place{"/usr/bin", ReadOnly, "/opt/bin is writable, and in the PATH"}, ofFlatcar},
	{Place{"/usr/sbin", ReadOnly, "/opt/bin is writable, and in the PATH"}, ofFlatcar},
	{Place{"/usr/local/bin", ReadOnly, "/opt/bin is writable, and in the PATH"}, ofFlatcar},
	{Place{"/usr/lib/systemd", ReadOnly, "units are `systemd.units` of the config, and other files of systemd go " +
		"below /etc/systemd"}, slices.Concat(ofOSTree, ofFlatcar)},
	{Place{"/sysroot", ReadOnly, "choose a directory below /etc or /var"}, ofOSTree},
	{Place{"/ostree", ReadOnly, "choose a directory below /etc or /var"}, ofOSTree},
}

const (
	inRun = "write a line of /etc/tmpfiles.d, which makes the file at each boot, or RuntimeDirectory= in the unit " +
		"that needs it"
	onFAT = "choose a directory below /etc or /var"
)

// merged are the links of systems whose programs and libraries are all below /usr.
var merged = map[string]string{
	"/bin": "/usr/bin", "/sbin": "/usr/sbin", "/lib": "/usr/lib", "/lib32": "/usr/lib32", "/lib64": "/usr/lib64",
}

// Merged returns the path without the links at the root that every system with a merged /usr has: /usr/lib/x for
// /lib/x.
func Merged(file string) string {
	if top, rest, below := strings.Cut(strings.TrimPrefix(file, "/"), "/"); below {
		if to, link := merged["/"+top]; link {
			return to + "/" + rest
		}
	}
	return file
}

// ofRoot are the directories in the root of a system that OSTree deploys. Nobody can add another one, because the root
// has the attribute "immutable".
var ofRoot = []string{
	"boot", "dev", "etc", "home", "media", "mnt", "opt", "proc", "root", "run", "srv", "sys", "tmp",
	"usr", "var", "efi", "ostree", "sysroot",
}

// PlaceOf returns what becomes of a file at a path. The parameter system is a variant of Butane; for "", PlaceOf
// returns what is true of all systems.
func PlaceOf(file, system string) Place {
	file = path.Clean(file)
	if _, rest, _ := strings.Cut(file[1:], "/"); slices.Contains(ofOSTree, system) {
		top := strings.TrimSuffix(file[1:], "/"+rest)
		if _, link := merged["/"+top]; !link && !slices.Contains(ofRoot, top) {
			return Place{Dir: "/", Fate: ReadOnly, Instead: "choose a directory below /etc, /var or /opt"}
		}
	}
	if system != "" {
		file = Merged(file)
	}
	var found Place
	for _, p := range places {
		if (p.systems == nil || slices.Contains(p.systems, system)) && strings.HasPrefix(file, p.Dir+"/") &&
			len(p.Dir) > len(found.Dir) {
			found = p.Place
		}
	}
	switch {
	case found.Fate == ReadOnly && strings.HasPrefix(file, "/usr/lib/"):
		found.Instead = insteadOfLib(file, found.Instead)
	case found.Dir == "/proc" && strings.HasPrefix(file, "/proc/sys/"):
		found.Instead = fmt.Sprintf("write the line `%s = VALUE` into a file /etc/sysctl.d/NAME.conf",
			sysctlName(strings.TrimPrefix(file, "/proc/sys/")))
	}
	return found
}

// insteadOfLib returns what works instead of a file below /usr/lib. Programs that read a directory NAME.d there read
// /etc/NAME.d before it.
func insteadOfLib(file, otherwise string) string {
	name, rest, _ := strings.Cut(strings.TrimPrefix(file, "/usr/lib/"), "/")
	if rest != "" && (strings.HasSuffix(name, ".d") || name == "udev" || name == "NetworkManager") {
		return fmt.Sprintf("/etc/%s/%s is writable, and its reader prefers it", name, rest)
	}
	return otherwise
}

// sysctlName returns the name of a setting below /proc/sys, as sysctl.d(5) writes it: a dot separates its parts, and a
// part that has a dot itself has a slash in its place.
func sysctlName(file string) string {
	return strings.NewReplacer("/", ".", ".", "/").Replace(file)
}

// Says returns what becomes of a file in the place, as the end of a sentence that begins with the file.
func (p Place) Says() string {
	switch p.Fate {
	case OfKernel:
		return "the kernel makes everything in " + p.Dir + ", and no file can be written there"
	case LostAtBoot:
		return p.Dir + " is empty after each boot, so the machine would not be in its config"
	case LostByAge:
		return "systemd removes files in " + p.Dir + " that nothing has used for some days, so the machine would not " +
			"be in its config"
	case ReadOnly:
		return p.Dir + " is read-only on this operating system, so a running machine refuses the config, and a new " +
			"one may not boot"
	case WithoutModes:
		return p.Dir + " is a FAT file system, which keeps no mode, owner or link, so the machine would not be in " +
			"its config"
	}
	return ""
}
