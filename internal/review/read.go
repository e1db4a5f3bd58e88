package review

import (
	"fmt"
	"slices"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/secretmask"

	"github.com/bunsen-os/bunsen/internal/sops/document"
)

// view is one item in readable form: lines of attributes, and contents.
type view struct {
	// exists is true if this side has the item.
	exists bool
	// attrs are lines that begin with the name of an attribute.
	attrs []string
	// plain is true if the attributes are values without a name in front, such as arguments or an image.
	plain bool
	// parts are texts: the contents of a file, and each drop-in of a unit.
	parts []part
}

// part is one text of an item.
type part struct {
	// name is the name of the part, such as "contents", "drop-in 10-x.conf" or "append 1".
	name    string
	content []byte
	// shown is what people may see of the content.
	shown secretmask.Masked
	// encrypted is the file that SOPS encrypted, or nil. If marked is true, its values in the clear are not shown.
	encrypted *document.Document
	marked    bool
	// plain is the decrypted file; nil without a key that decrypts it.
	plain []byte
}

func newPart(name, path string, content []byte, marked secretmask.Paths) part {
	return part{name: name, content: content, shown: marked.Mask(path, string(content))}
}

// ContentPair is an item on both sides.
type ContentPair struct{ from, to view }

// index finds the items of a config by their names.
type index struct {
	config machineconfig.Config
	KnownContent
	files map[string]*ign.File
	units map[string]*ign.Unit
}

// KnownContent is what is known about the items of both sides.
type KnownContent struct {
	// Marked are the items whose contents are never shown.
	Marked secretmask.Paths
	// Sizes are the sizes of files of the content store.
	Sizes DownloadSizes
	// Decrypt decrypts a file of SOPS, for a reader who has its key. If nil, differences have no decrypted value.
	Decrypt func(format string, body []byte) ([]byte, error)
}

func newIndex(c machineconfig.Config, known KnownContent) index {
	x := index{config: c, KnownContent: known, files: map[string]*ign.File{}, units: map[string]*ign.Unit{}}
	for i := range c.Ignition.Storage.Files {
		f := &c.Ignition.Storage.Files[i]
		x.files[f.Path] = f
	}
	for i := range c.Ignition.Systemd.Units {
		u := &c.Ignition.Systemd.Units[i]
		x.units[u.Name] = u
	}
	return x
}

// ReadItems reads each changed item on both sides. Marked items are hidden on both sides.
func ReadItems(changes []disruption.Costed, from, to machineconfig.Config, known KnownContent) []ContentPair {
	a, b := newIndex(from, known), newIndex(to, known)
	out := make([]ContentPair, len(changes))
	for i, c := range changes {
		out[i] = withUnsetState(ContentPair{a.read(c.Kind, c.Name), b.read(c.Kind, c.Name)})
	}
	return out
}

// read reads one item. If the config does not have the item, read returns the zero view.
func (x index) read(kind disruption.ChangeKind, name string) view {
	switch kind {
	case disruption.KindFile:
		return x.file(name)
	case disruption.KindUnit:
		return x.unit(name)
	case disruption.KindDirectory:
		return lookup(x.config.Ignition.Storage.Directories, name, directory)
	case disruption.KindLink:
		return lookup(x.config.Ignition.Storage.Links, name, link)
	case disruption.KindUser:
		return lookup(x.config.Ignition.Passwd.Users, name, user)
	case disruption.KindGroup:
		return lookup(x.config.Ignition.Passwd.Groups, name, group)
	case disruption.KindStorage:
		return storage(x.config.Ignition.Storage, name)
	case disruption.KindIgnition:
		return ignition(x.config.Ignition.Ignition, name)
	}
	return single(kind, x.config)
}

// lookup finds the item with a name in a list, and reads it.
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
	v.parts = append(v.parts, x.resource("contents", path, f.Contents))
	for i, r := range f.Append {
		v.parts = append(v.parts, x.resource(fmt.Sprintf("append %d", i+1), path, r))
	}
	return v
}

func (x index) resource(name, path string, r ign.Resource) part {
	if found, unresolved, err := machineconfig.SecretsOf(r); unresolved && err == nil {
		p := unresolvedPart(name, path, found, x.Marked)
		if p.encrypted != nil && !p.marked && x.Decrypt != nil {
			p.plain, _ = x.Decrypt(found.Format, found.Body) // the difference says what is not decrypted
		}
		return p
	}
	if remote, is, err := machineconfig.RemoteOf(r); is && err == nil {
		return remotePart(name, remote, x.Sizes.Of(remote))
	}
	content, err := machineconfig.Contents(r)
	if err != nil {
		content = []byte("(unreadable: " + err.Error() + ")\n")
	}
	return newPart(name, path, content, x.Marked)
}

// remotePart says what a node downloads. A review does not read the contents. The query of the address may be secret.
func remotePart(name string, r machineconfig.Remote, size int64) part {
	about := "size unknown"
	if size > 0 {
		about = machineconfig.SizeText(size)
	}
	if r.Gzip {
		about += ", compressed"
	}
	from := machineconfig.ShownAddress(r.URL)
	if _, isStored := machineconfig.StoredHash(r.URL); isStored {
		from = "from " + from
	}
	text := fmt.Sprintf("downloads %s (%s)\n%s\n", from, about, r.Hash)
	return part{name: name, content: []byte(text), shown: secretmask.Masked{Text: text}}
}

// mode is the mode of an item, or the default mode.
func mode(m *int, otherwise int) string {
	if m != nil {
		otherwise = *m
	}
	return fmt.Sprintf("%04o", otherwise)
}

// owner is the line with the owner of a file.
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
	v := view{exists: true, attrs: []string{unsetState}}
	if u.Enabled != nil {
		v.attrs[0] = "state " + map[bool]string{true: "enabled", false: "disabled"}[*u.Enabled]
	}
	if u.Mask != nil && *u.Mask {
		v.attrs[0] = "state masked: never starts"
	}
	add := func(name, at string, contents *string) {
		if contents != nil {
			v.parts = append(v.parts, newPart(name, at, []byte(*contents), x.Marked))
		}
	}
	add(contentsPart, u.Name, u.Contents)
	for _, d := range u.Dropins {
		add("drop-in "+d.Name, u.Name+".d/"+d.Name, d.Contents)
	}
	return v
}

// unsetState is the state of a unit for which the config has no setting.
const unsetState = "state not set"

// withUnsetState replaces a unit's new state, if the new config does not set the state, by a text that says what an
// update does to the state.
func withUnsetState(p ContentPair) ContentPair {
	if len(p.to.attrs) == 0 || p.to.attrs[0] != unsetState {
		return p
	}
	hasContents := slices.ContainsFunc(p.to.parts, func(t part) bool { return t.name == contentsPart })
	switch {
	case p.from.exists && p.from.attrs[0] != unsetState:
		p.to.attrs = []string{"state as it was before a config set it"}
	case !p.from.exists && hasContents:
		p.to.attrs = []string{"state unchanged; a new unit gets its preset"}
	case !p.from.exists:
		p.to.attrs = []string{"state unchanged"}
	}
	return p
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

// word returns the first word of an attribute's line, which is the attribute's name.
func word(attr string) string {
	name, _, _ := strings.Cut(attr, " ")
	return name
}
