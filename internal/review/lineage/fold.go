package lineage

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/ignition/v2/config/merge"
	"github.com/coreos/ignition/v2/config/util"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/internal/disruption"
)

// touch is where a layer sets a part of an item.
type touch struct {
	layer int
	list  *list
	index int
}

// write is one layer's value of one leaf.
type write struct {
	layer int
	// in the layer's own Ignition config, or in its spec
	path string
	leaf leaf
}

// trail has the writes of one leaf up to its final value.
type trail struct {
	write
	replaced []write
}

// folded is an item after all layers.
type folded struct {
	list *list
	// of all leaves, in the order of the item's fields
	trails []trail
	// where layers set the item in its final kind, and before that an item of another kind at the same path
	touches, displaced []touch
}

// fold merges one item of all layers with Ignition's own Merge, and with the renderer's additional rules.
func (l *Lineage) fold(touches []touch) folded {
	var f folded
	var all ign.Config
	for _, t := range touches {
		child := detach(t.list.cut(l.layers[t.layer].Config.Ignition, t.index))
		if f.list != nil && f.list != t.list {
			f.displaced, f.touches = append(f.displaced, f.touches...), nil
		}
		merged, transcript := merge.MergeStructTranscribe(all, child)
		next, ok := merged.(ign.Config)
		if !ok {
			continue // Merge returns a value of the type that it is given.
		}
		oneOwner(&next, child)
		f.list, f.touches = t.list, append(f.touches, t)
		f.follow(next, transcript, t)
		all = next
	}
	f.trails = slices.DeleteFunc(f.trails, func(t trail) bool { return t.leaf.detached() })
	return f
}

// follow updates the trails after one merge. The transcript says where each leaf of the result comes from.
func (f *folded) follow(result ign.Config, transcript merge.Transcript, t touch) {
	item, ok := t.list.item(result)
	if !ok {
		return // An item that Merge dropped has no leaves.
	}
	fromParent, fromChild := map[string]string{}, map[string]string{}
	for _, m := range transcript.Mappings { // A leaf has one mapping. The nodes above a leaf may have two mappings.
		if m.From.Tag == merge.TAG_CHILD {
			fromChild[m.To.String()] = m.From.String()
		} else {
			fromParent[m.To.String()] = m.From.String()
		}
	}
	before, byID := map[string]trail{}, map[string]trail{}
	for _, old := range f.trails {
		before[old.leaf.path], byID[old.leaf.id] = old, old
	}
	f.trails = nil
	root := t.list.root(0)
	for _, x := range leaves(item, root, t.list.key) {
		if old, ok := before[fromParent[x.path]]; ok {
			old.leaf.path, old.leaf.name = x.path, x.name // The leaf's index in a list may have changed.
			f.trails = append(f.trails, old)
			continue
		}
		next := trail{write: write{t.layer, t.list.root(t.index) + strings.TrimPrefix(fromChild[x.path], root), x}}
		if old, ok := byID[x.id]; ok {
			next.replaced = append(slices.Clone(old.replaced), old.write)
		}
		f.trails = append(f.trails, next)
	}
}

// leaves lists the values of an item without the field that has the item's name.
func leaves(item reflect.Value, root, key string) []leaf {
	w := walker{key: key}
	w.walk(item, leaf{path: root}, nil)
	return w.out
}

// detach applies a rule of the renderer: compression and verification of replaced contents do not apply to the new
// ones.
func detach(c ign.Config) ign.Config {
	for i := range c.Storage.Files { // This list is a copy, so the loop may change it.
		f := &c.Storage.Files[i]
		if f.Contents.Source == nil {
			continue
		}
		if f.Contents.Compression == nil {
			f.Contents.Compression = util.StrToPtr("")
		}
		if f.Contents.Verification.Hash == nil {
			f.Contents.Verification.Hash = util.StrToPtr("")
		}
	}
	return c
}

// oneOwner applies a rule of the renderer: an owner by number replaces an owner by name, and the reverse.
func oneOwner(result *ign.Config, child ign.Config) {
	a, b := node(result), node(&child)
	if a == nil || b == nil {
		return
	}
	switch u := b.User; {
	case u.ID != nil && u.Name == nil:
		a.User.Name = nil
	case u.Name != nil && u.ID == nil:
		a.User.ID = nil
	}
	switch g := b.Group; {
	case g.ID != nil && g.Name == nil:
		a.Group.Name = nil
	case g.Name != nil && g.ID == nil:
		a.Group.ID = nil
	}
}

func node(c *ign.Config) *ign.Node {
	switch s := &c.Storage; {
	case len(s.Files) > 0:
		return &s.Files[0].Node
	case len(s.Directories) > 0:
		return &s.Directories[0].Node
	case len(s.Links) > 0:
		return &s.Links[0].Node
	}
	return nil
}

type leaf struct {
	// in the config, such as `$.storage.files.0.contents.source`
	path string
	name string
	// the same in all layers, even if they have the leaf at different indexes of a list
	id  string
	raw string
	// the resource whose source is the value, or nil
	resource *ign.Resource
}

// detached reports whether a leaf only removes the value of another layer, such as a compression or a digest.
func (l leaf) detached() bool {
	return l.raw == "" && (strings.HasSuffix(l.name, ".compression") || strings.HasSuffix(l.name, ".verification.hash"))
}

type walker struct {
	key string
	out []leaf
}

func (w *walker) walk(v reflect.Value, at leaf, in *ign.Resource) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && v.Elem().Kind() == reflect.Struct {
			w.walk(v.Elem(), at, in)
		} else if !v.IsNil() {
			w.add(v.Elem(), at, in)
		}
	case reflect.Struct:
		w.fields(v, at)
	case reflect.Slice:
		for i := range v.Len() {
			w.walk(v.Index(i), element(at, v, i), in)
		}
	default:
		if !v.IsZero() { // Merge also ignores an empty plain value.
			w.add(v, at, in)
		}
	}
}

func (w *walker) fields(v reflect.Value, at leaf) {
	var in *ign.Resource
	if r, ok := v.Interface().(ign.Resource); ok {
		in = &r
	}
	var repeats map[string]struct{}
	if x, ok := v.Interface().(util.IgnoresDups); ok {
		repeats = x.IgnoreDuplicates()
	}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if field.Anonymous {
			w.fields(v.Field(i), at)
			continue
		}
		json, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if at.name == "" && json == w.key || named(v, json) {
			continue
		}
		next := leaf{path: at.path + "." + json, name: join(at.name, json), id: join(at.id, same(json))}
		// Two equal values in a list are different leaves, so the id needs their positions.
		if _, ok := repeats[field.Name]; ok {
			for j := range v.Field(i).Len() {
				n := strconv.Itoa(j)
				w.walk(v.Field(i).Index(j), leaf{
					path: next.path + "." + n, name: next.name + "." + n,
					id: next.id + "#" + n,
				}, nil)
			}
			continue
		}
		w.walk(v.Field(i), next, in)
	}
}

// named reports whether a leaf is a drop-in's name, which the attribute with the contents has already.
func named(v reflect.Value, json string) bool {
	d, ok := v.Interface().(ign.Dropin)
	return ok && json == "name" && d.Contents != nil
}

// same returns a field's name for the id of a leaf: one for two lists of which one removes entries of the other.
func same(json string) string {
	if json == "shouldNotExist" {
		return "shouldExist"
	}
	return json
}

func element(at leaf, list reflect.Value, i int) leaf {
	v, n := list.Index(i), strconv.Itoa(i)
	key := util.CallKey(v)
	next := leaf{path: at.path + "." + n, name: at.name + "." + n, id: at.id + "#" + key}
	if _, resource := v.Interface().(ign.Resource); v.Kind() == reflect.Struct && !resource {
		next.name = at.name + "." + key
	}
	return next
}

func (w *walker) add(v reflect.Value, at leaf, in *ign.Resource) {
	at.raw = fmt.Sprint(v.Interface())
	if name, ok := strings.CutSuffix(at.name, ".source"); ok && in != nil {
		at.name, at.resource = name, in
	}
	switch {
	case at.name == "user.id" || at.name == "user.name":
		at.name, at.id = "user", "user" // An owner by id replaces an owner by name, and the reverse.
	case at.name == "group.id" || at.name == "group.name":
		at.name, at.id = "group", "group"
	case strings.HasPrefix(at.name, "dropins."):
		at.name = strings.TrimSuffix(strings.TrimSuffix(at.name, ".contents"), ".name")
	case at.name == "mode":
		n, _ := strconv.Atoi(at.raw) // The text is a number that this package printed, so there is no error.
		at.raw = fmt.Sprintf("%04o", n)
	}
	w.out = append(w.out, at)
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "." + b
}

type list struct {
	// in the config, without `$.`
	path string
	// common to lists whose items replace each other
	family string
	kind   disruption.ChangeKind
	// the field with the items' names
	key string
	// of the attributes' names: devices in several lists are of one kind and may have the same name
	prefix string
	keys   func(ign.Config) []string
	// a config with one item alone
	cut func(ign.Config, int) ign.Config
	// the list's only item, if there is one
	item func(ign.Config) (reflect.Value, bool)
}

// nodes: the family of paths
const nodes = "node"

// lists: those with keys
var lists = []list{
	listOf("storage.files:path", nodes, disruption.KindFile,
		func(c *ign.Config) *[]ign.File { return &c.Storage.Files }),
	listOf("storage.directories:path", nodes, disruption.KindDirectory, func(c *ign.Config) *[]ign.Directory {
		return &c.Storage.Directories
	}),
	listOf("storage.links:path", nodes, disruption.KindLink,
		func(c *ign.Config) *[]ign.Link { return &c.Storage.Links }),
	listOf("systemd.units:name", "unit", disruption.KindUnit,
		func(c *ign.Config) *[]ign.Unit { return &c.Systemd.Units }),
	listOf("passwd.users:name", "user", disruption.KindUser, func(c *ign.Config) *[]ign.PasswdUser {
		return &c.Passwd.Users
	}),
	listOf("passwd.groups:name", "group", disruption.KindGroup, func(c *ign.Config) *[]ign.PasswdGroup {
		return &c.Passwd.Groups
	}),
	listOf("storage.disks:device", "disk", disruption.KindStorage, func(c *ign.Config) *[]ign.Disk {
		return &c.Storage.Disks
	}),
	listOf("storage.filesystems:device", "filesystem", disruption.KindStorage, func(c *ign.Config) *[]ign.Filesystem {
		return &c.Storage.Filesystems
	}),
	listOf("storage.raid:name", "raid", disruption.KindStorage,
		func(c *ign.Config) *[]ign.Raid { return &c.Storage.Raid }),
	listOf("storage.luks:name", "luks", disruption.KindStorage,
		func(c *ign.Config) *[]ign.Luks { return &c.Storage.Luks }),
	whole("kernelArguments", disruption.KindFirstBootKargs, func(c *ign.Config) *ign.KernelArguments {
		return &c.KernelArguments
	}),
	whole("ignition", disruption.KindIgnition, func(c *ign.Config) *ign.Ignition { return &c.Ignition }),
}

// listOf returns a list by its path, a colon and the key field of its items.
func listOf[T util.Keyed](path, family string, kind disruption.ChangeKind, of func(*ign.Config) *[]T) list {
	path, key, _ := strings.Cut(path, ":")
	l := list{path: path, key: key, family: family, kind: kind}
	if kind == disruption.KindStorage {
		l.prefix = family + "."
	}
	l.keys = func(c ign.Config) (keys []string) {
		for _, x := range *of(&c) {
			keys = append(keys, x.Key())
		}
		return keys
	}
	l.cut = func(c ign.Config, i int) (part ign.Config) {
		*of(&part) = []T{(*of(&c))[i]}
		return part
	}
	l.item = func(c ign.Config) (reflect.Value, bool) {
		items := *of(&c)
		if len(items) == 0 {
			return reflect.Value{}, false
		}
		return reflect.ValueOf(items[0]), true
	}
	return l
}

// whole is a part of a config that is one item without a name.
func whole[T any](path string, kind disruption.ChangeKind, of func(*ign.Config) *T) list {
	empty := func(c ign.Config) bool {
		c.Ignition.Version = ""
		return reflect.ValueOf(*of(&c)).IsZero()
	}
	return list{
		path: path, key: "version", family: path, kind: kind,
		keys: func(c ign.Config) []string {
			if empty(c) {
				return nil
			}
			return []string{""}
		},
		cut: func(c ign.Config, _ int) (part ign.Config) {
			c.Ignition.Version = ""
			*of(&part) = *of(&c)
			return part
		},
		item: func(c ign.Config) (reflect.Value, bool) { return reflect.ValueOf(*of(&c)), !empty(c) },
	}
}

// root returns the path of an item in a config.
func (l list) root(index int) string {
	if l.family == l.path {
		return "$." + l.path
	}
	return fmt.Sprintf("$.%s.%d", l.path, index)
}
