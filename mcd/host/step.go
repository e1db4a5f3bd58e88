package host

import (
	"fmt"
	"strings"
)

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
	case MergeKeys, UpdateTrust, DaemonReload, Reload, Restart, Reboot:
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
