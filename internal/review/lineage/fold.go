package lineage

import (
	"reflect"
	"slices"
	"strings"

	"github.com/coreos/ignition/v2/config/merge"
	"github.com/coreos/ignition/v2/config/util"

	ign "github.com/bunsen-os/bunsen/api/ignition"
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
