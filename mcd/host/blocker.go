package host

import (
	"cmp"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// BlockerKind says what stops a change of a path.
type BlockerKind string

// The kinds of blockers.
const (
	// Immutable and AppendOnly are attributes of a file or directory, which bind root too (chattr).
	Immutable  BlockerKind = "immutable"
	AppendOnly BlockerKind = "append-only"
	// MountPoint means that something is mounted on the path itself.
	MountPoint BlockerKind = "mount point"
	// ReadOnlyMount means that the file system is mounted read-only.
	ReadOnlyMount BlockerKind = "read-only"
	// OtherSystem means that a hard link would lead to another file system, or to another mount of the same one.
	OtherSystem BlockerKind = "other file system"
	// UsedDir is a directory with entries that stay, at the path of a file or link.
	UsedDir BlockerKind = "used directory"
	// Special is a device, socket or pipe, which the daemon does not replace.
	Special BlockerKind = "special file"
	// InMemory means that a file system in memory, other than that of the root, would have the path, so that the path
	// is lost at the next boot. It stops no step.
	InMemory BlockerKind = "in memory"
	// Full means that the file system has too little space, and NoInodes that it cannot have more files.
	Full     BlockerKind = "full"
	NoInodes BlockerKind = "no inodes"
	// Denied means that the kernel refuses a new file, for the reason in Text.
	Denied BlockerKind = "denied"
	// LinkTaken means that a unit cannot be enabled, because something else is where a link of it has to be.
	LinkTaken BlockerKind = "link taken"
	// WrongInstall means that a unit cannot be enabled, because its [Install] section has an error.
	WrongInstall BlockerKind = "wrong install"
	// MaskedUnit means that the update reloads or restarts a unit that is masked.
	MaskedUnit BlockerKind = "masked unit"
)

// Blocker is something on the machine that would stop a step. Only a person or another program can remove it.
type Blocker struct {
	Kind BlockerKind
	// Path is the path of the step; for a step about a unit, that of the link or the file of the unit.
	Path string
	// Unit is the unit of the step; "" if the step is about none.
	Unit string
	// Shipped is true for the mask of a unit that the OS image has as the default of the path.
	Shipped bool
	// At has the blocker: the path itself, or a directory above it.
	At string
	// Need and Free are bytes of the file system, for the kind Full.
	Need, Free int64
	// Text has the names of entries for the kind UsedDir, the answer of the kernel for the kind Denied, what is at the
	// path for the kind LinkTaken, the error for the kind WrongInstall, and the verb for the kind MaskedUnit.
	Text string
}

// String returns the blocker, and how a person removes it.
func (o Blocker) String() string {
	what := "this node's " + o.At
	if o.At == o.Path {
		what = "what this node has at this path"
	}
	switch o.Kind {
	case Immutable, AppendOnly:
		return fmt.Sprintf("%s has the attribute %q, with which nobody can replace it. If it may change, run chattr "+
			"-%s %s on the node", what, o.Kind, map[BlockerKind]string{Immutable: "i", AppendOnly: "a"}[o.Kind], o.At)
	case MountPoint:
		return fmt.Sprintf("something is mounted at this path on this node, so nobody can replace or remove it: see "+
			"findmnt %s. Unmount it, or choose another path", o.At)
	case ReadOnlyMount:
		return fmt.Sprintf("this node's file system at %s is read-only: see findmnt -T %s. Choose another path, or "+
			"mount it writable", o.At, o.At)
	case OtherSystem:
		return fmt.Sprintf("this is a hard link to %s, which this node has on another file system or mount: see "+
			"findmnt -T %s. Make it a symbolic link, or a copy of the file", o.At, o.At)
	case InMemory:
		return fmt.Sprintf("this node's file system at %s is in memory, so the reboot of this update would remove the "+
			"path again: let a line of /etc/tmpfiles.d make it at each boot, or choose another path", o.At)
	case UsedDir:
		return "this node has a directory here that is not empty" + o.Text +
			": move it away on the node, or choose another path"
	case Special:
		return "this node has a device, pipe or socket here, which no config made: move it away, or choose another " +
			"path"
	case Full:
		return fmt.Sprintf("this node's file system at %s has %d KiB free, and the update needs %d KiB: see df %s",
			o.At, o.Free>>10, (o.Need+1023)>>10, o.At)
	case LinkTaken:
		return fmt.Sprintf("enabling %s needs a link here, and this node has %s at %s: move that away (mv %s "+
			"/root/), or take its name out of [Install]", o.Unit, o.Text, o.At, shellName(o.At))
	case WrongInstall:
		return fmt.Sprintf("%s cannot be enabled: its [Install] section has an error (%s). Correct it, or add a "+
			"drop-in with another section", o.Unit, o.Text)
	case MaskedUnit:
		return o.maskText()
	case NoInodes:
		return fmt.Sprintf("this node's file system at %s can have no more files: see df -i %s", o.At, o.At)
	}
	return fmt.Sprintf("this node's kernel refuses a new file in %s (%s)", o.At, o.Text)
}

// IsOfConfig reports whether the config itself has what stops the step, so that a change of the machine does not help.
func (o Blocker) IsOfConfig() bool {
	return o.Kind == WrongInstall || o.Kind == ReadOnlyMount || o.Kind == OtherSystem || o.Kind == InMemory || o.Kind == MaskedUnit && o.At == ""
}

// maskText describes a unit that is masked and would be reloaded or restarted. A unit without a mask on the node is
// masked by the config itself.
func (o Blocker) maskText() string {
	const otherwise = ", or take this action out of the disruption policy"
	text := fmt.Sprintf("the update wants to %s %s, which ", o.Text, o.Unit)
	if o.At == "" {
		return text + "the config masks: do not mask it" + otherwise
	}
	mask := Obstacle{Why: UnitMasked, At: o.At, Shipped: o.Shipped}
	return text + mask.Problem() + ": " + cmp.Or(mask.unmask(), "add its contents") + otherwise
}

// BootSpace is the space of a file system with files of the boot loader, in bytes.
type BootSpace struct {
	// At is the directory of the files.
	At string
	// Free is what the file system has left.
	Free int64
	// Least is what some steps need in any case. Likely is an estimate, which may be too high: the new OS may have the
	// same kernel as the running one.
	Least, Likely int64
}

// Shortage says that the space is probably too small; "" if it is not.
func (s BootSpace) Shortage() string {
	what, need := "the update", s.Least
	if s.Likely > need {
		what, need = "another kernel like the one that runs", s.Likely
	}
	if s.Free >= need {
		return ""
	}
	return fmt.Sprintf("the file system %s has %d KiB free, and %s needs %d KiB: see df %s", s.At, s.Free>>10, what,
		(need+1023)>>10, s.At)
}

// KindText returns what is at a path, with its article.
func KindText(k Kind) string {
	switch k {
	case Dir:
		return "a directory"
	case Other:
		return "a device, pipe or socket"
	}
	return "a " + string(k)
}

// EntriesText returns the Text of a UsedDir.
func EntriesText(names []string) string {
	if len(names) == 0 {
		return ""
	}
	more := ""
	if len(names) > 3 {
		names, more = names[:3], ", …"
	}
	quoted := make([]string, len(names)) // Anyone who may write into the directory chooses the names.
	for i, name := range names {
		quoted[i] = strconv.QuoteToASCII(name)
	}
	return " (in it: " + strings.Join(quoted, ", ") + more + ")"
}

// EntriesLeft returns the entries of a directory that are there after all steps.
func EntriesLeft(dir string, names []string, steps []Step) (left []string) {
	gone := map[string]bool{}
	for _, s := range steps {
		if s.IsPath() && s.After.Entry.Kind == Absent {
			gone[s.Target] = true
		}
	}
	for _, name := range names {
		if !gone[path.Join(dir, name)] {
			left = append(left, name)
		}
	}
	return left
}
