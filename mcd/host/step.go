package host

import (
	"fmt"
	"strings"
)

// Verb says what a step does.
type Verb string

// The verbs. Path and account verbs make a path, user or group be After; OS verbs stage After for the next boot; the rest act on running parts.
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
	DaemonReload  Verb = "daemon-reload"
	Reload        Verb = "reload"
	Restart       Verb = "restart"
	Reboot        Verb = "reboot"
)

// Value is one side of a step: an Entry for path verbs, a User or Group for theirs, a Word for others (enabled, an
// image, arguments).
type Value struct {
	// Entry at the path.
	Entry Entry `json:",omitzero"`
	// User and Group of account verbs.
	User  User  `json:",omitzero"`
	Group Group `json:",omitzero"`
	// Word of the other verbs.
	Word string `json:",omitempty"`
}

// Step is one change as data: what, where, what was there, what will be. It is comparable and holds no contents.
type Step struct {
	// Verb says what is done.
	Verb Verb
	// Target is a path, a unit, a user or a group; empty where there is one only.
	Target string `json:",omitempty"`
	// Before and After are equal for actions, which change nothing that stays.
	Before, After Value
}

// IsPath tells steps that make a path be something.
func (s Step) IsPath() bool {
	switch s.Verb {
	case Write, Remove, MakeLink, MakeDir, WriteRecord:
		return true
	}
	return false
}

// IsAction tells steps that change nothing on disk.
func (s Step) IsAction() bool {
	switch s.Verb {
	case DaemonReload, Reload, Restart, Reboot:
		return true
	}
	return false
}

// String is canonical: `write /etc/chrony.conf 0644 (was 0600)`, `enable chronyd.service`, `kargs +quiet -debug`.
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

// difference says in what an entry was other, without its contents.
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

// listText prints the change of a list by its members: those that go, then those that come. Equal members in another
// order are printed whole.
func listText(s Step) string {
	before, after := SplitArgs(s.Before.Word), SplitArgs(s.After.Word)
	parts := append(without("-", before, after), without("+", after, before)...)
	if len(parts) == 0 {
		parts = []string{"=", s.After.Word}
	}
	return string(s.Verb) + " " + strings.Join(parts, " ")
}

// without lists the members of a that b has not, each as often as it is missing, with a sign before it.
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
