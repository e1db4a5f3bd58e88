package host

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// Digest is the SHA-256 of contents in lower-case hex. Digest is "" if there are no contents, and NotRead if the
// contents were not read.
type Digest string

// DigestOf computes the digest of contents. The empty file has a digest too.
func DigestOf(contents []byte) Digest {
	sum := sha256.Sum256(contents)
	return Digest(hex.EncodeToString(sum[:]))
}

// RemoteDigest returns the digest of remote contents from their hash in a config. The hash sha512-HEX does not say the
// SHA-256 of the contents. Until they are downloaded, the hash itself stands for it, and no file has this digest.
func RemoteDigest(hash string) Digest { return Digest(strings.TrimPrefix(hash, "sha256-")) }

// MaxDownload is the maximum size of a remote file, in bytes.
const MaxDownload = 1 << 30

// NotRead returns the placeholder for the digest of a file that is too large to read. Files of the same size have the
// same placeholder.
func NotRead(bytes int64) Digest { return Digest(fmt.Sprintf("not-read-%d-bytes", bytes)) }

// Short returns the first characters of a digest, for messages.
func (d Digest) Short() string { return string(d[:min(len(d), 8)]) }

// Kind is the kind of file at a path.
type Kind string

// The kinds. Other is a device, socket or pipe, which the daemon neither creates nor replaces. Hard is a hard link to
// Target, an absolute path. Unsafe is a path that the daemon does not open (UnsafePathError). Stat returns neither Hard
// nor Unsafe.
const (
	Absent Kind = ""
	File   Kind = "file"
	Link   Kind = "link"
	Dir    Kind = "dir"
	Hard   Kind = "hard link"
	Other  Kind = "other"
	Unsafe Kind = "unsafe path"
)

// MaxLinks is how many links the kernel follows when it opens a file.
const MaxLinks = 40

// LinkTarget returns the path to which a link at a path leads. The parameter target is the content of the link.
func LinkTarget(at, target string) string {
	if path.IsAbs(target) {
		return path.Clean(target)
	}
	return path.Join(path.Dir(at), target)
}

// Owner is a numeric owner; the zero value is root.
type Owner struct {
	// UID and GID are the numbers in the file system.
	UID, GID int
}

// Entry is the file, directory or link at a path. The zero value means that nothing exists there. The entry of a link
// is about the link itself.
type Entry struct {
	Kind Kind `json:",omitempty"`
	// Mode has the permission bits of a file or directory, at most 07777; 0 for a link.
	Mode uint32 `json:",omitempty"`
	// Owner is the owner of the file, directory or link.
	Owner Owner `json:",omitzero"`
	// Digest is the digest of a file's contents.
	Digest Digest `json:",omitempty"`
	// Target is the target of a link, as the link contains it.
	Target string `json:",omitempty"`
}

// String returns the canonical text: `file 0644 1f2e3d4c`, `link -> /dev/null`, `dir 0755 1000:1000`, `absent`.
func (e Entry) String() string {
	var b strings.Builder
	switch e.Kind {
	case Absent:
		return "absent"
	case Link:
		fmt.Fprintf(&b, "link -> %s", e.Target)
	case Hard:
		return "hard link to " + e.Target
	case Unsafe:
		return string(e.Kind)
	case File:
		fmt.Fprintf(&b, "file %04o %s", e.Mode, e.Digest.Short())
	default:
		fmt.Fprintf(&b, "%s %04o", e.Kind, e.Mode)
	}
	if e.Owner != (Owner{}) {
		fmt.Fprintf(&b, " %d:%d", e.Owner.UID, e.Owner.GID)
	}
	return b.String()
}

// Verb says what a step does.
type Verb string

// The verbs. Verbs of paths and accounts set a path, user or group to After. Verbs of the OS stage After for the next
// boot. The other verbs act on services, or reboot.
const (
	Write         Verb = "write"
	Remove        Verb = "remove"
	MakeLink      Verb = "link"
	MakeDir       Verb = "mkdir"
	WriteRecord   Verb = "record"
	Enable        Verb = "enable"
	Disable       Verb = "disable"
	SetUser       Verb = "user"
	DropUser      Verb = "drop-user"
	SetGroup      Verb = "group"
	DropGroup     Verb = "drop-group"
	SetImage      Verb = "image"
	SetKargs      Verb = "kargs"
	SetKernelType Verb = "kernel-type"
	SetExtensions Verb = "extensions"
	MergeKeys     Verb = "merge-keys"
	UpdateTrust   Verb = "update-trust"
	DaemonReload  Verb = "daemon-reload"
	Reload        Verb = "reload"
	Restart       Verb = "restart"
	Stop          Verb = "stop"
	Reboot        Verb = "reboot"
)

// Value is the value before or after a step. Value has an Entry for paths, a User or Group for accounts, and a Word for
// other verbs (enabled, an image, arguments).
type Value struct {
	// Entry at the path.
	Entry Entry `json:",omitzero"`
	// User and Group are the values of account verbs.
	User  User  `json:",omitzero"`
	Group Group `json:",omitzero"`
	// Word is the value of the other verbs.
	Word string `json:",omitempty"`
}

// Step is one change as data. Step is comparable, and has digests instead of contents.
type Step struct {
	// Verb says what the step does.
	Verb Verb
	// Target is a path, a unit, a user, a group or a program of the trust store; empty for verbs of the OS,
	// daemon-reload and reboot.
	Target string `json:",omitempty"`
	// Before and After are the values before and after the step. For actions, both are equal.
	Before, After Value
}

// IsPath reports whether the step changes a path.
func (s Step) IsPath() bool {
	switch s.Verb {
	case Write, Remove, MakeLink, MakeDir, WriteRecord:
		return true
	}
	return false
}

// Stages reports whether the step stages a part of the OS for the next boot.
func (s Step) Stages() bool {
	switch s.Verb {
	case SetImage, SetKargs, SetKernelType, SetExtensions:
		return true
	}
	return false
}

// IsAction reports whether the step acts on services or reboots, and changes nothing on disk.
func (s Step) IsAction() bool {
	switch s.Verb {
	case MergeKeys, UpdateTrust, DaemonReload, Reload, Restart, Stop, Reboot:
		return true
	}
	return false
}

// String returns the canonical text: `write /etc/chrony.conf 0644 (was 0600)`, `enable chronyd.service`, `kargs +quiet
// -debug`.
func (s Step) String() string {
	switch {
	case s.Verb == WriteRecord:
		return fmt.Sprintf("record %s", s.Target)
	case s.IsPath():
		return s.pathText()
	case s.Verb == SetUser:
		return fmt.Sprintf("user %s %s (%s)", s.Target, s.After.User, s.After.User.Difference(s.Before.User))
	case s.Verb == SetGroup:
		return s.groupText()
	case s.Verb == SetKargs || s.Verb == SetExtensions:
		return listText(s)
	case s.Verb == SetImage || s.Verb == SetKernelType:
		return fmt.Sprintf("%s %s (was %s)", s.Verb, orNone(s.After.Word), orNone(s.Before.Word))
	case s.Target == "":
		return string(s.Verb)
	}
	return string(s.Verb) + " " + s.Target
}

func (s Step) groupText() string {
	was := "new"
	if s.Before.Group.There {
		was = "was " + s.Before.Group.String()
	}
	return fmt.Sprintf("group %s %s (%s)", s.Target, s.After.Group, was)
}

func (s Step) pathText() string {
	was, now := s.Before.Entry, s.After.Entry
	text := string(s.Verb) + " " + s.Target
	switch now.Kind {
	case Absent:
		return text
	case Link:
		text += " -> " + now.Target
	case Hard:
		return text + " = " + now.Target + " (" + difference(was, now) + ")"
	default:
		text += fmt.Sprintf(" %04o", now.Mode)
	}
	if now.Owner != (Owner{}) {
		text += fmt.Sprintf(" %d:%d", now.Owner.UID, now.Owner.GID)
	}
	return text + " (" + difference(was, now) + ")"
}

// difference describes how an entry differed, without its contents.
func difference(was, now Entry) string {
	if was.Kind == Absent {
		return "new"
	}
	if was.Kind != now.Kind {
		return "was a " + string(was.Kind)
	}
	var parts []string
	if was.Mode != now.Mode {
		parts = append(parts, fmt.Sprintf("was %04o", was.Mode))
	}
	if was.Owner != now.Owner {
		parts = append(parts, fmt.Sprintf("was %d:%d", was.Owner.UID, was.Owner.GID))
	}
	if was.Target != now.Target {
		parts = append(parts, "was -> "+was.Target)
	}
	if was.Digest != now.Digest {
		parts = append(parts, "contents changed")
	}
	if len(parts) == 0 {
		return "unchanged"
	}
	return strings.Join(parts, ", ")
}

// listText prints the change of a list: the members that are removed, then those that are added. If only the order
// differs, listText prints the whole list.
func listText(s Step) string {
	before, after := SplitArgs(s.Before.Word), SplitArgs(s.After.Word)
	parts := append(without("-", before, after), without("+", after, before)...)
	if len(parts) == 0 {
		parts = []string{"=", s.After.Word}
	}
	return string(s.Verb) + " " + strings.Join(parts, " ")
}

// without returns the members of a that b lacks, each with a sign in front. without counts repetitions: if a contains a
// member twice and b once, the member is listed once.
func without(sign string, a, b []string) []string {
	count := map[string]int{}
	for _, m := range b {
		count[m]++
	}
	var left []string
	for _, m := range a {
		if count[m]--; count[m] < 0 {
			left = append(left, sign+m)
		}
	}
	return left
}

func orNone(word string) string {
	if word == "" {
		return "none"
	}
	return word
}

// SplitArgs splits kernel arguments as machineconfig.SplitKargs does.
func SplitArgs(words string) []string { return machineconfig.SplitKargs([]string{words}) }

// JoinArgs is the inverse of SplitArgs.
func JoinArgs(args []string) string { return strings.Join(args, " ") }

// EditKargs changes a list of kernel arguments as Stage does. EditKargs removes every argument of before and after, and
// adds after at the end. Other arguments stay. A second call changes nothing.
func EditKargs(all, before, after string) string {
	managed := append(SplitArgs(before), SplitArgs(after)...)
	kept := slices.DeleteFunc(SplitArgs(all), func(a string) bool { return slices.Contains(managed, a) })
	return JoinArgs(append(kept, SplitArgs(after)...))
}

// OwnArgs returns those of a machine's own kernel arguments that are among the given arguments, in the machine's order.
func OwnArgs(own string, among ...string) []string {
	var all []string
	for _, words := range among {
		all = append(all, SplitArgs(words)...)
	}
	return slices.DeleteFunc(SplitArgs(own), func(a string) bool { return !slices.Contains(all, a) })
}

// MissingArgs returns the arguments that a machine needs after its own arguments to have all of want. If the machine's
// own arguments include all of want, no argument is missing. Otherwise, the first arguments of want that the machine
// has in the same order are not missing.
func MissingArgs(own, want []string) []string {
	count := map[string]int{}
	for _, a := range own {
		count[a]++
	}
	lacks := slices.ContainsFunc(want, func(a string) bool { count[a]--; return count[a] < 0 })
	if !lacks {
		return nil
	}
	for len(want) > 0 {
		at := slices.Index(own, want[0])
		if at < 0 {
			return want
		}
		own, want = own[at+1:], want[1:]
	}
	return nil
}

// AddedArgs returns the arguments that a step adds after the machine's own arguments, which the step cannot remove.
// AddedArgs returns false if After does not begin with those of the machine's own arguments that the step names.
func AddedArgs(own string, step Step) ([]string, bool) {
	fixed, after := OwnArgs(own, step.Before.Word, step.After.Word), SplitArgs(step.After.Word)
	if len(after) < len(fixed) || !slices.Equal(after[:len(fixed)], fixed) {
		return nil, false
	}
	return after[len(fixed):], true
}
