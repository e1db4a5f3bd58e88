package render

import (
	"strconv"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// attribute is an attribute of an item that a later input replaces.
type attribute struct{ rule, name, value string }

// said has the attributes that one input sets for one item.
type said []attribute

func (s *said) add(rule, name, value string) { *s = append(*s, attribute{rule, name, value}) }

func (s *said) text(rule, name string, value *string) {
	if value != nil {
		s.add(rule, name, *value)
	}
}

func (s *said) number(rule, name string, value *int) {
	if value != nil {
		s.add(rule, name, strconv.Itoa(*value))
	}
}

func (s *said) flag(rule, name string, value *bool) {
	if value != nil {
		s.add(rule, name, strconv.FormatBool(*value))
	}
}

// kindAttribute is the attribute for the kind of a path. maskAttribute is the attribute that says whether a unit's
// drop-ins have an effect.
const (
	kindAttribute = "kind"
	maskAttribute = "drop-ins"
)

// fileSays lists the attributes that an input sets for a file. The functions with a name that ends in Says do the same
// for the items of other lists.
func fileSays(f ign.File) (s said) {
	s.node(RuleSameFile, "file", f.Node)
	s.number(RuleSameFile, "mode", f.Mode)
	if f.Contents.Source != nil {
		value := *f.Contents.Source
		if data, err := machineconfig.Contents(f.Contents); err == nil {
			value = string(data) // The value is the decoded contents.
		}
		s.add(RuleSameFile, "contents", value)
	}
	return s
}

func directorySays(d ign.Directory) (s said) {
	s.node(RuleSameDirectory, "directory", d.Node)
	s.number(RuleSameDirectory, "mode", d.Mode)
	return s
}

func linkSays(l ign.Link) (s said) {
	s.node(RuleSameLink, "link", l.Node)
	s.text(RuleSameLink, "target", l.Target)
	s.flag(RuleSameLink, "hard", l.Hard)
	return s
}

// node adds the kind and the owners of a path. The name and the number of an owner are two forms of the same attribute.
func (s *said) node(rule, kind string, n ign.Node) {
	s.add(RuleSamePath, kindAttribute, kind)
	s.text(rule, "user", n.User.Name)
	s.number(rule, "user", n.User.ID)
	s.text(rule, "group", n.Group.Name)
	s.number(rule, "group", n.Group.ID)
}

func unitSays(u ign.Unit) (s said) {
	s.text(RuleSameUnit, "contents", u.Contents)
	s.flag(RuleSameUnit, "enabled", u.Enabled)
	s.flag(RuleSameUnit, "mask", u.Mask)
	for _, d := range u.Dropins {
		s.text(RuleDropinReplaced, "drop-in "+d.Name, d.Contents)
	}
	switch {
	case u.Mask != nil && *u.Mask:
		s.add(RuleDropinReplaced, maskAttribute, "masked")
	case len(u.Dropins) > 0:
		s.add(RuleDropinReplaced, maskAttribute, "used")
	}
	return s
}

func userSays(u ign.PasswdUser) (s said) {
	s.text(RuleSameUser, "passwordHash", u.PasswordHash)
	s.number(RuleSameUser, "uid", u.UID)
	s.text(RuleSameUser, "gecos", u.Gecos)
	s.text(RuleSameUser, "homeDir", u.HomeDir)
	s.text(RuleSameUser, "primaryGroup", u.PrimaryGroup)
	s.text(RuleSameUser, "shell", u.Shell)
	s.flag(RuleSameUser, "shouldExist", u.ShouldExist)
	return s
}

func groupSays(g ign.PasswdGroup) (s said) {
	s.number(RuleSameGroup, "gid", g.Gid)
	s.text(RuleSameGroup, "passwordHash", g.PasswordHash)
	s.flag(RuleSameGroup, "shouldExist", g.ShouldExist)
	return s
}

// clashesOfItem returns the attributes of an item on which its setters disagree. If a path has several kinds,
// clashesOfItem returns only the clash of kinds.
func clashesOfItem(all []said) []clash {
	found := clashesOf(all)
	for i, c := range found {
		switch {
		case c.attribute == kindAttribute:
			return found[i : i+1]
		// The input that masks the unit came first, and its mask stays in effect.
		case c.attribute == maskAttribute && c.last == "used":
			return append(found[:i:i], found[i+1:]...)
		}
	}
	return found
}
