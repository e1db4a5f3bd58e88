package documents

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// CheckLists finds items that occur twice in a list with a merge key. In a patch, CheckLists also finds items without
// their merge key. kustomize would silently drop a repeated item, and would empty the whole list for an item without a
// key.
func CheckLists(t YAMLText, root *yaml.Node, lists []List, patch bool) []origin.Finding {
	var out []origin.Finding
	for _, l := range lists {
		if l.Key == "" {
			continue
		}
		for _, n := range NodesBelow(root, strings.Split(l.Path, ".")) {
			if n.Kind == yaml.SequenceNode {
				out = append(out, checkList(t, n, l, patch)...)
			}
		}
	}
	return out
}

func checkList(t YAMLText, n *yaml.Node, l List, patch bool) []origin.Finding {
	var out []origin.Finding
	seen := map[string]*yaml.Node{}
	for _, item := range n.Content {
		_, key := Field(item, l.Key)
		_, directive := Field(item, "$patch")
		switch {
		// An item with this directive needs no key, because the directive applies to the whole list.
		case key == nil && directive != nil && len(item.Content) == 2:
		case key == nil && patch:
			out = append(out, origin.Errorf(t.Pos(item), "patch-key", "an item of %s in a patch needs its `%s`, "+
				"which says what it patches; without one kustomize would empty the whole list", l.Path, l.Key))
		case key == nil:
		case seen[key.Value] != nil && l.MergeKey() == l.Key:
			out = append(out, origin.Errorf(t.Pos(key), "duplicate-item", "%s %q occurs twice in %s: in line %d and "+
				"in line %d; keep one", l.Key, key.Value, l.Path, seen[key.Value].Line+t.Offset, key.Line+t.Offset))
		default:
			seen[key.Value] = key
		}
	}
	return out
}

// directives are the values of `$patch`.
var directives = []string{"delete", "replace", "merge"}

// CheckDirectives finds directives that kustomize does not support: kustomize would leave some of them in the document.
func CheckDirectives(t YAMLText, n *yaml.Node) []origin.Finding {
	var out []origin.Finding
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			switch v := n.Content[i+1]; {
			case !strings.HasPrefix(c.Value, "$"):
			case c.Value != "$patch":
				out = append(out, origin.Errorf(t.Pos(c), "patch", "kustomize knows no directive %s; it has $patch: "+
					"delete, replace and merge", c.Value))
			case v.Kind != yaml.ScalarNode || !slices.Contains(directives, v.Value):
				out = append(out, origin.Errorf(t.Pos(v), "patch", "$patch is one of %s",
					strings.Join(directives, ", ")))
			}
			continue
		}
		out = append(out, CheckDirectives(t, c)...)
	}
	return out
}

// NodesBelow returns the nodes below a chain of keys. If a key leads to a list, NodesBelow follows the remaining keys
// in every item of the list.
func NodesBelow(n *yaml.Node, keys []string) []*yaml.Node {
	if n == nil {
		return nil
	}
	if len(keys) == 0 {
		return []*yaml.Node{n}
	}
	if n.Kind == yaml.SequenceNode {
		var out []*yaml.Node
		for _, c := range n.Content {
			out = append(out, NodesBelow(c, keys)...)
		}
		return out
	}
	_, v := Field(n, keys[0])
	return NodesBelow(v, keys[1:])
}

// AddHiddenKeys adds a unique hidden key to each item of lists whose items may repeat their key.
func AddHiddenKeys(content *yaml.Node, lists []List) {
	for _, l := range lists {
		if l.MergeKey() == l.Key {
			continue
		}
		for _, n := range NodesBelow(content, strings.Split(l.Path, ".")) {
			seen := map[string]int{}
			for _, item := range n.Content {
				if _, key := Field(item, l.Key); key != nil {
					seen[key.Value]++
					Set(item, HiddenKey, Str(strings.Repeat("+", seen[key.Value])+key.Value))
				}
			}
		}
	}
}

// RemoveHiddenKeys removes the keys that AddHiddenKeys added.
func RemoveHiddenKeys(content *yaml.Node, lists []List) {
	for _, l := range lists {
		if l.MergeKey() == l.Key {
			continue
		}
		for _, n := range NodesBelow(content, strings.Split(l.Path, ".")) {
			for _, item := range n.Content {
				Remove(item, HiddenKey)
			}
		}
	}
}

// FindAmbiguousKey returns a key that occurs twice in a list of the document and also in the patch. The item of the
// patch then matches both items of the document.
func FindAmbiguousKey(content, patch *yaml.Node, lists []List) (key string, found bool) {
	for _, l := range lists {
		if l.MergeKey() == l.Key {
			continue
		}
		words := strings.Split(l.Path+"."+l.Key, ".")
		count := map[string]int{}
		for _, k := range NodesBelow(content, words) {
			count[k.Value]++
		}
		for _, k := range NodesBelow(patch, words) {
			if count[k.Value] > 1 {
				return k.Value, true
			}
		}
	}
	return "", false
}

// Entry is one item of a list. For an item within another item, Name contains both names: `a.service/10-x.conf`.
type Entry struct {
	List, Name string
	// whole is the content of an item of a list that patches replace as a whole; empty for the lists that patches
	// merge. holderList and holderName are the item with the list, empty if there is none.
	whole, holderList, holderName string
}

// IsOfWhole reports whether the entry is an item of a list that patches replace as a whole.
func (e Entry) IsOfWhole() bool { return e.whole != "" }

// Within returns the item that contains the entry: the unit of a drop-in, the user of a key.
func (e Entry) Within() (Entry, bool) {
	if e.IsOfWhole() {
		return Entry{List: e.holderList, Name: e.holderName}, e.holderList != ""
	}
	if !strings.Contains(e.List, "units.") && !strings.Contains(e.List, "users.") {
		return Entry{}, false
	}
	holder, _, _ := strings.Cut(e.Name, "/")
	return Entry{List: e.List[:strings.LastIndexByte(e.List, '.')], Name: holder}, true
}

// Short returns the name of the entry in an acknowledgement. If the name is long, such as an SSH key, Short returns the
// name of the user who has the key.
func (e Entry) Short() string {
	holder, within := e.Within()
	switch {
	case !within:
		return e.Name
	case strings.HasSuffix(e.List, "dropins"):
		return strings.TrimPrefix(e.Name, holder.Name+"/")
	default:
		return holder.Name
	}
}

// String returns the name of the entry, but shortens a long name such as an SSH key.
func (e Entry) String() string {
	name := e.Name
	if r := []rune(name); len(r) > 60 {
		name = string(r[:57]) + "..."
	}
	return e.List + " " + name
}

// WholeEntries returns the items of all lists that patches replace as a whole, each with its node. An item that differs
// in anything is another entry, because a patch does not merge into it.
func WholeEntries(content *yaml.Node, lists []List) map[Entry]*yaml.Node {
	w := wholeLists{merged: map[string]List{}, found: map[Entry]*yaml.Node{}}
	for _, l := range lists {
		w.merged[l.Path] = l
	}
	w.walk(content, "", Entry{})
	return w.found
}

type wholeLists struct {
	merged map[string]List
	found  map[Entry]*yaml.Node
}

// walk collects the entries below a mapping. The parameter holder is the item of a merged list that has the mapping.
func (w wholeLists) walk(n *yaml.Node, path string, holder Entry) {
	if n == nil || n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		at, v := n.Content[i].Value, n.Content[i+1]
		if path != "" {
			at = path + "." + at
		}
		list, merged := w.merged[at]
		switch {
		case v.Kind == yaml.MappingNode:
			w.walk(v, at, holder)
		case v.Kind != yaml.SequenceNode:
		case merged:
			for _, item := range v.Content {
				if name, ok := list.nameOf(item); ok && list.Key != "" {
					w.walk(item, at, Entry{List: at, Name: parentNames(holder) + name})
				}
			}
		default:
			for i, item := range v.Content {
				w.found[Entry{
					at, parentNames(holder) + wholeName(item, i), fingerprint(item), holder.List, holder.Name,
				}] = item
			}
		}
	}
}

func parentNames(holder Entry) string {
	if holder.Name == "" {
		return ""
	}
	return holder.Name + "/"
}

// wholeName returns how messages name an item without a merge key: never its contents, which may be a secret.
func wholeName(n *yaml.Node, index int) string {
	if n.Kind == yaml.ScalarNode {
		return canonical(n)
	}
	for _, key := range []string{"label", "name", "path", "local", "url", "number"} {
		if name := Scalar(n, key); name != "" {
			return name
		}
	}
	return "item " + strconv.Itoa(index+1)
}

// fingerprint returns a text that is the same for two nodes with the same content, whatever the order of keys.
func fingerprint(n *yaml.Node) string {
	switch n.Kind {
	case yaml.ScalarNode:
		return strconv.Quote(canonical(n))
	case yaml.MappingNode:
		var fields []string
		for i := 0; i+1 < len(n.Content); i += 2 {
			fields = append(fields, strconv.Quote(n.Content[i].Value)+":"+fingerprint(n.Content[i+1]))
		}
		slices.Sort(fields)
		return "{" + strings.Join(fields, ",") + "}"
	default:
		var items []string
		for _, c := range n.Content {
			items = append(items, fingerprint(c))
		}
		return "[" + strings.Join(items, ",") + "]"
	}
}

// Entries returns all entries of the lists, each with its node. For an item of a list of mappings, the node is the
// mapping.
func Entries(content *yaml.Node, lists []List) map[Entry]*yaml.Node {
	out := map[Entry]*yaml.Node{}
	for _, l := range lists {
		for _, i := range itemsOf(content, "", strings.Split(l.Path, ".")) {
			if name, ok := l.nameOf(i.node); ok {
				out[Entry{List: l.Path, Name: i.parents + name}] = i.node
			}
		}
	}
	return out
}

// item is an item of a list, with the names of the items that contain it.
type item struct {
	parents string
	node    *yaml.Node
}

// itemsOf returns the items of the list below a chain of keys. Items of lists on the way to it must have names.
func itemsOf(n *yaml.Node, parents string, keys []string) []item {
	_, v := Field(n, keys[0])
	switch {
	case v == nil:
		return nil
	case v.Kind != yaml.SequenceNode && len(keys) > 1:
		return itemsOf(v, parents, keys[1:])
	case v.Kind != yaml.SequenceNode:
		return nil
	}
	var out []item
	for _, c := range v.Content {
		if len(keys) > 1 {
			out = append(out, itemsOf(c, parents+Scalar(c, "name")+"/", keys[1:])...)
			continue
		}
		out = append(out, item{parents, c})
	}
	return out
}

// nameOf returns the name of an item: the value of its merge key, or the item itself in a list of scalars. nameOf
// returns false for an item without a name.
func (l List) nameOf(n *yaml.Node) (string, bool) {
	if l.Key == "" {
		return canonical(n), n.Kind == yaml.ScalarNode
	}
	_, key := Field(n, l.Key)
	if key == nil {
		return "", false
	}
	return key.Value, true
}

// SortEntries sorts entries by list, then by name.
func SortEntries(es []Entry) {
	slices.SortFunc(es, func(x, y Entry) int {
		return cmp.Or(cmp.Compare(x.List, y.List), cmp.Compare(x.Name, y.Name))
	})
}
