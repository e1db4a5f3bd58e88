package machineconfig

import (
	"errors"
	"fmt"
	"strings"

	ign "github.com/bunsen-os/bunsen/api/ignition"
)

// Problem is one thing that is wrong in a config.
type Problem struct {
	// Path is the path of the value, in the form that origins have: $.storage.files.2.contents.source for a value of
	// the Ignition config, spec.kernelArguments.0 for another field of the spec, and $ for the config as a whole. For a
	// problem inside a config that another one names, it is the path of the reference.
	Path string
	// Place is the place for people, such as `files[2] /etc/x contents`; empty if the text of the problem names it.
	Place string
	// Item is the key of the item of a list that Path leads to, such as /etc/x, or "".
	Item string
	// Err is what is wrong, without the place.
	Err error
	// Nested is true if the problem is in a config that this config names, or in the merge of both.
	Nested bool
}

// Error returns the place and what is wrong.
func (p Problem) Error() string {
	if p.Place == "" {
		return p.Err.Error()
	}
	return p.Place + ": " + p.Err.Error()
}

// Unwrap returns what is wrong, without the place.
func (p Problem) Unwrap() error { return p.Err }

// Problems are all problems that a check found.
type Problems []Problem

// Err joins the problems, one a line; nil if there are none.
func (p Problems) Err() error {
	all := make([]error, len(p))
	for i, problem := range p {
		all[i] = problem
	}
	return errors.Join(all...)
}

// ProblemsOf returns the problems of an error of Parse, Flat or another function of this package, which may have joined
// several. An error without a place concerns the config as a whole.
func ProblemsOf(err error) (all Problems) {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			all = append(all, ProblemsOf(e)...)
		}
		return all
	}
	if p, ok := err.(Problem); ok {
		return Problems{p}
	}
	return Problems{{Path: "$", Err: err}}
}

// spot is where a check is in a config: the path of a value, its place for people, and the item with it.
type spot struct{ path, place, item string }

func (s spot) problem(err error) Problem {
	return Problem{Path: s.path, Place: s.place, Item: s.item, Err: err}
}

// part returns the spot of a field.
func (s spot) part(field string) spot {
	return spot{s.path + "." + field, s.place + " " + field, s.item}
}

// below returns the same place with the path of a field. A path such as verification.hash names a field of a field.
func (s spot) below(field string) spot { return spot{s.path + "." + field, s.place, s.item} }

// at returns the spot of an entry of a list at this spot.
func (s spot) at(i int) spot {
	return spot{fmt.Sprintf("%s.%d", s.path, i), fmt.Sprintf("%s[%d]", s.place, i), s.item}
}

// item returns the spot of an item of a list, such as storage.files. Its place is `files[2] /etc/x`; a name with hidden
// characters is quoted.
func item(section, list string, i int, name string) spot {
	return spot{
		fmt.Sprintf("$.%s.%s.%d", section, list, i),
		strings.TrimRight(fmt.Sprintf("%s[%d] %s", list, i, oneLine(name)), " "),
		name,
	}
}

// ofSpec returns the spot of a field of a MachineConfig's spec.
func ofSpec(field string) spot { return spot{path: "spec." + field, place: field} }

// ofIgnition returns the spot of a field of the section `ignition`.
func ofIgnition(field string) spot {
	return spot{path: "$.ignition." + field, place: "ignition." + field}
}

// reported returns the spot of a path in a report of Ignition. The place of storage, files, 2, mode is
// `files[2] /etc/x mode`.
func reported(c ign.Config, path []any) spot {
	at, of := "$", ""
	var b strings.Builder
	for i, step := range path {
		at += fmt.Sprintf(".%v", step)
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", step)
			if i > 0 {
				if name := nameAt(c, fmt.Sprint(path[i-1]), step); i == 2 && name != "" {
					b.WriteString(" " + oneLine(name))
					of = name
				}
			}
		default:
			word := fmt.Sprint(step)
			if i == 0 && len(path) > 1 && (word == "storage" || word == "systemd" || word == "passwd") {
				continue // The text does not repeat the parent's name: the name of the list is enough.
			}
			if b.Len() > 0 {
				b.WriteString(separator(b.String()))
			}
			b.WriteString(word)
		}
	}
	if b.Len() == 0 {
		return spot{path: at, place: "config"}
	}
	return spot{at, b.String(), of}
}

// separator returns a blank after an item's index or name, and a dot between fields.
func separator(before string) string {
	if strings.ContainsAny(before, "[") && !strings.Contains(before[strings.LastIndexAny(before, "[]"):], ".") {
		return " "
	}
	return "."
}

// nameAt returns the key of an item of a list, or "".
func nameAt(c ign.Config, list string, i int) string {
	s := c.Storage
	keys := map[string]func(int) string{
		"files": keyOf(s.Files), "directories": keyOf(s.Directories), "links": keyOf(s.Links),
		"filesystems": keyOf(s.Filesystems),
		"disks":       keyOf(s.Disks), "raid": keyOf(s.Raid), "luks": keyOf(s.Luks),
		"units": keyOf(c.Systemd.Units), "users": keyOf(c.Passwd.Users), "groups": keyOf(c.Passwd.Groups),
	}
	if key := keys[list]; key != nil {
		return key(i)
	}
	return ""
}

// keyOf returns a function that returns the key of item i, or "".
func keyOf[T interface{ Key() string }](list []T) func(i int) string {
	return func(i int) string {
		if i < len(list) {
			return list[i].Key()
		}
		return ""
	}
}
