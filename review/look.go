package review

import (
	"fmt"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/policy"
	"github.com/bunsen-os/bunsen/policy/secret"
)

// view is one item as people read it: lines of attributes, and contents.
type view struct {
	// exists tells that this side has the item.
	exists bool
	// attrs are lines, each beginning with the word for what it says.
	attrs []string
	// plain tells that the attributes are values without such a word: arguments, an image.
	plain bool
	// parts are texts: of a file its contents, of a unit also each drop-in.
	parts []part
}

// part is one text of an item.
type part struct {
	// name is "contents", "drop-in 10-x.conf", "append 1".
	name    string
	content []byte
	// shown is the content as people may see it.
	shown secret.Result
}

func newPart(name, path string, content []byte, marked secret.Paths) part {
	return part{name: name, content: content, shown: marked.Mask(path, string(content))}
}

// pair is an item on both sides.
type pair struct{ from, to view }

// index finds the items of a config by their names.
type index struct {
	config  machineconfig.Config
	secrets secret.Paths
	files   map[string]*ign.File
	units   map[string]*ign.Unit
}

func newIndex(p Pool, secrets secret.Paths) index {
	x := index{config: p.Config, secrets: secrets, files: map[string]*ign.File{}, units: map[string]*ign.Unit{}}
	for i := range p.Config.Ignition.Storage.Files {
		f := &p.Config.Ignition.Storage.Files[i]
		x.files[f.Path] = f
	}
	for i := range p.Config.Ignition.Systemd.Units {
		u := &p.Config.Ignition.Systemd.Units[i]
		x.units[u.Name] = u
	}
	return x
}

// look reads each changed item on both sides. What is marked is secret on both.
func look(changes []policy.Costed, from, to Pool, marked secret.Paths) []pair {
	a, b := newIndex(from, marked), newIndex(to, marked)
	out := make([]pair, len(changes))
	for i, c := range changes {
		out[i] = pair{a.look(c.Kind, c.Name), b.look(c.Kind, c.Name)}
	}
	return out
}

func (x index) look(kind policy.ChangeKind, name string) view {
	switch kind {
	case policy.KindFile:
		return x.file(name)
	case policy.KindUnit:
		return x.unit(name)
	case policy.KindDirectory:
		return lookup(x.config.Ignition.Storage.Directories, name, directory)
	case policy.KindLink:
		return lookup(x.config.Ignition.Storage.Links, name, link)
	case policy.KindUser:
		return lookup(x.config.Ignition.Passwd.Users, name, user)
	case policy.KindGroup:
		return lookup(x.config.Ignition.Passwd.Groups, name, group)
	case policy.KindStorage:
		return storage(x.config.Ignition.Storage, name)
	case policy.KindIgnition:
		return ignition(x.config.Ignition.Ignition, name)
	}
	return single(kind, x.config)
}

// lookup reads the item of a list that has the name.
func lookup[T interface{ Key() string }](list []T, name string, read func(T) []string) view {
	for _, item := range list {
		if item.Key() == name {
			return view{exists: true, attrs: read(item)}
		}
	}
	return view{}
}

func (x index) file(path string) view {
	f := x.files[path]
	if f == nil {
		return view{}
	}
	v := view{exists: true, attrs: append([]string{"mode " + mode(f.Mode, 0o644)}, owner(f.Node)...)}
	v.parts = append(v.parts, resource("contents", path, f.Contents, x.secrets))
	for i, r := range f.Append {
		v.parts = append(v.parts, resource(fmt.Sprintf("append %d", i+1), path, r, x.secrets))
	}
	return v
}

func resource(name, path string, r ign.Resource, marked secret.Paths) part {
	content, err := machineconfig.Contents(r)
	if err != nil {
		content = []byte("(unreadable: " + err.Error() + ")\n")
	}
	return newPart(name, path, content, marked)
}

// mode is a mode, or the one that a machine gives where none is said.
func mode(m *int, otherwise int) string {
	if m != nil {
		otherwise = *m
	}
	return fmt.Sprintf("%04o", otherwise)
}

// owner is a line about whom a file belongs to.
func owner(n ign.Node) []string {
	id := func(name *string, id *int) string {
		switch {
		case id != nil && *id != 0:
			return fmt.Sprint(*id)
		case id == nil && name != nil && *name != "":
			return *name
		default:
			return "root"
		}
	}
	return []string{"owner " + id(n.User.Name, n.User.ID) + ":" + id(n.Group.Name, n.Group.ID)}
}

func (x index) unit(name string) view {
	u := x.units[name]
	if u == nil {
		return view{}
	}
	state := "by preset"
	if u.Enabled != nil {
		state = map[bool]string{true: "enabled", false: "disabled"}[*u.Enabled]
	}
	v := view{exists: true, attrs: []string{"state " + state}}
	if u.Mask != nil && *u.Mask {
		v.attrs[0] = "state masked: never starts"
	}
	add := func(name, at string, contents *string) {
		if contents != nil {
			v.parts = append(v.parts, newPart(name, at, []byte(*contents), x.secrets))
		}
	}
	add("contents", u.Name, u.Contents)
	for _, d := range u.Dropins {
		add("drop-in "+d.Name, u.Name+".d/"+d.Name, d.Contents)
	}
	return v
}

func directory(d ign.Directory) []string {
	return append([]string{"mode " + mode(d.Mode, 0o755)}, owner(d.Node)...)
}

func link(l ign.Link) []string {
	kind := "target "
	if l.Hard != nil && *l.Hard {
		kind = "hard link to "
	}
	target := ""
	if l.Target != nil {
		target = *l.Target
	}
	return append([]string{kind + target}, owner(l.Node)...)
}

// word is the first word of an attribute's line, which names it.
func word(attr string) string {
	name, _, _ := strings.Cut(attr, " ")
	return name
}
