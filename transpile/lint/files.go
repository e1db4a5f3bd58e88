package lint

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/transpile/unit"
)

// The rules of files that their reader ignores.
const (
	ruleMode = "ignored-mode"
	ruleName = "ignored-name"
)

// readers are the programs that ignore a file because of its mode: the file may have none of the bits.
var readers = []struct {
	files   *regexp.Regexp
	bits    int
	program string
	mode    string
}{
	{
		regexp.MustCompile(`^/(etc|run|usr/lib)/NetworkManager/system-connections/[^/]+$`), 0o077, "NetworkManager",
		"0600",
	},
	{regexp.MustCompile(`^/etc/ssh/ssh_host_[^/.]+_key$`), 0o077, "sshd", "0600"},
	{regexp.MustCompile(`^/etc/sudoers(\.d/[^/]+)?$`), 0o022, "sudo", "0440"},
	{regexp.MustCompile(`^/etc/cron\.d/[^/]+$`), 0o022, "cron", "0644"},
	{regexp.MustCompile(`^(/root|/home/[^/]+)/\.ssh/authorized_keys2?$`), 0o022, "sshd", "0600"},
}

// defaultMode is the mode of a file whose config has none.
const defaultMode = 0o644

// mode warns of a file that its reader ignores because of its mode.
func (l *linter) mode(at string, f ign.File) {
	if f.Contents.Source == nil {
		return // The file exists on the machine, and keeps its mode.
	}
	mode, said := defaultMode, "without a mode it is 0644"
	if f.Mode != nil {
		mode, said = *f.Mode, fmt.Sprintf("its mode is %04o", *f.Mode)
	}
	for _, r := range readers {
		if r.files.MatchString(f.Path) && mode&r.bits != 0 {
			pos, _ := l.origin.Find(at + ".mode")
			l.warn(pos, ruleMode, fmt.Sprintf("%s ignores %s, because others can read or change it (%s): write "+
				"`mode: %s`",
				r.program, f.Path, said, r.mode))
		}
	}
	if dir, name := path.Split(f.Path); dir == "/etc/sudoers.d/" && (strings.Contains(name, ".") ||
		strings.HasSuffix(name, "~")) {
		pos, _ := l.origin.Find(at + ".path")
		l.warn(pos, ruleName, fmt.Sprintf("sudo ignores %s, because its name has a dot or ends in ~: write "+
			"%s%s", f.Path,
			dir, strings.ReplaceAll(strings.TrimSuffix(name, "~"), ".", "-")))
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
