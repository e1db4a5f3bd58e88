package overlay

import (
	"cmp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// checkLists finds items of keyed lists that stand twice and, in a patch, items without their key: kustomize would
// drop the one silently, and empty the whole list for the other.
func (t text) checkLists(root *yaml.Node, lists []list, patch bool) []origin.Finding {
	var out []origin.Finding
	for _, l := range lists {
		if l.key == "" {
			continue
		}
		for _, n := range reach(root, strings.Split(l.path, ".")) {
			if n.Kind == yaml.SequenceNode {
				out = append(out, t.checkList(n, l, patch)...)
			}
		}
	}
	return out
}

func (t text) checkList(n *yaml.Node, l list, patch bool) []origin.Finding {
	var out []origin.Finding
	seen := map[string]*yaml.Node{}
	for _, item := range n.Content {
		_, key := field(item, l.key)
		_, directive := field(item, "$patch")
		switch {
		case key == nil && directive != nil && len(item.Content) == 2: // it speaks of the whole list
		case key == nil && patch:
			out = append(out, fatal(t.pos(item), "patch-key", "an item of %s in a patch needs its `%s`, which says what it patches; without one kustomize would empty the whole list", l.path, l.key))
		case key == nil:
		case seen[key.Value] != nil && l.mergeKey() == l.key:
			out = append(out, fatal(t.pos(key), "duplicate-item", "%s %q stands twice in %s: in line %d and in line %d; keep one", l.key, key.Value, l.path, seen[key.Value].Line+t.offset, key.Line+t.offset))
		default:
			seen[key.Value] = key
		}
	}
	return out
}

// checkPaths finds a path that two kinds of one document claim: a file, a directory, a link.
func (t text) checkPaths(root *yaml.Node) []origin.Finding {
	var out []origin.Finding
	seen := map[string]list{}
	lines := map[string]int{}
	for _, l := range butaneLists[:3] {
		for _, key := range reach(root, strings.Split(l.path+".path", ".")) {
			if other, twice := seen[key.Value]; twice && other != l {
				out = append(out, fatal(t.pos(key), "duplicate-item", "path %q stands in %s in line %d and in %s in line %d; keep one", key.Value, other.path, lines[key.Value], l.path, key.Line+t.offset))
			}
			seen[key.Value], lines[key.Value] = l, key.Line+t.offset
		}
	}
	return out
}

// directives are what `$patch` may say.
var directives = []string{"delete", "replace", "merge"}

// checkDirectives finds directives that kustomize does not know: it would leave some of them in the document.
func (t text) checkDirectives(n *yaml.Node) []origin.Finding {
	var out []origin.Finding
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			switch v := n.Content[i+1]; {
			case !strings.HasPrefix(c.Value, "$"):
			case c.Value != "$patch":
				out = append(out, fatal(t.pos(c), "patch", "kustomize knows no directive %s; it has $patch: delete, replace and merge", c.Value))
			case v.Kind != yaml.ScalarNode || !slices.Contains(directives, v.Value):
				out = append(out, fatal(t.pos(v), "patch", "$patch is one of %s", strings.Join(directives, ", ")))
			}
			continue
		}
		out = append(out, t.checkDirectives(c)...)
	}
	return out
}

// reach returns what stands below a chain of keys, through every item of lists on the way.
func reach(n *yaml.Node, keys []string) []*yaml.Node {
	if n == nil {
		return nil
	}
	if len(keys) == 0 {
		return []*yaml.Node{n}
	}
	if n.Kind == yaml.SequenceNode {
		var out []*yaml.Node
		for _, c := range n.Content {
			out = append(out, reach(c, keys)...)
		}
		return out
	}
	_, v := field(n, keys[0])
	return reach(v, keys[1:])
}

// hideKeys gives the items of lists that may repeat their key one that tells them apart, and revealKeys takes it away.
func hideKeys(content *yaml.Node, lists []list) {
	for _, l := range lists {
		if l.mergeKey() == l.key {
			continue
		}
		for _, n := range reach(content, strings.Split(l.path, ".")) {
			seen := map[string]int{}
			for _, item := range n.Content {
				if _, key := field(item, l.key); key != nil {
					seen[key.Value]++
					set(item, hiddenKey, str(strings.Repeat("+", seen[key.Value])+key.Value))
				}
			}
		}
	}
}

func revealKeys(content *yaml.Node, lists []list) {
	for _, l := range lists {
		if l.mergeKey() == l.key {
			continue
		}
		for _, n := range reach(content, strings.Split(l.path, ".")) {
			for _, item := range n.Content {
				remove(item, hiddenKey)
			}
		}
	}
}

// repeated returns a key that stands twice in such a list of the document, and in the patch as well: nobody can tell
// which of the two the patch means.
func repeated(content, patch *yaml.Node, lists []list) (key string, found bool) {
	for _, l := range lists {
		if l.mergeKey() == l.key {
			continue
		}
		words := strings.Split(l.path+"."+l.key, ".")
		count := map[string]int{}
		for _, k := range reach(content, words) {
			count[k.Value]++
		}
		for _, k := range reach(patch, words) {
			if count[k.Value] > 1 {
				return k.Value, true
			}
		}
	}
	return "", false
}

// entry is one item of a list that patches merge into. Items within items have both names: `a.service/10-x.conf`.
type entry struct{ list, name string }

// within is the item that the entry is within: the unit of a drop-in, the user of a key.
func (e entry) within() (entry, bool) {
	if !strings.Contains(e.list, "units.") && !strings.Contains(e.list, "users.") {
		return entry{}, false
	}
	holder, _, _ := strings.Cut(e.name, "/")
	return entry{e.list[:strings.LastIndexByte(e.list, '.')], holder}, true
}

// short is the word for the entry that people write: its own name, or, of what has a long one, that of its holder.
func (e entry) short() string {
	holder, within := e.within()
	switch {
	case !within:
		return e.name
	case strings.HasSuffix(e.list, "dropins"):
		return strings.TrimPrefix(e.name, holder.name+"/")
	default:
		return holder.name
	}
}

// String names the entry without repeating what may be long, such as a key.
func (e entry) String() string {
	name := e.name
	if r := []rune(name); len(r) > 60 {
		name = string(r[:57]) + "..."
	}
	return e.list + " " + name
}

// entries lists all of them, each with its item. An item of a list of mappings is the mapping.
func entries(content *yaml.Node, lists []list) map[entry]*yaml.Node {
	out := map[entry]*yaml.Node{}
	for _, l := range lists {
		collect(content, l, "", strings.Split(l.path, "."), out)
	}
	return out
}

func collect(n *yaml.Node, l list, parent string, words []string, out map[entry]*yaml.Node) {
	_, v := field(n, words[0])
	if v == nil {
		return
	}
	if v.Kind != yaml.SequenceNode {
		if len(words) > 1 {
			collect(v, l, parent, words[1:], out)
		}
		return
	}
	for _, item := range v.Content {
		switch {
		case len(words) > 1: // an item of the list above, which all have a name
			collect(item, l, parent+scalarAt(item, "name")+"/", words[1:], out)
		case l.key == "" && item.Kind == yaml.ScalarNode:
			out[entry{l.path, parent + fingerprint(item)}] = item
		case l.key != "":
			if _, key := field(item, l.key); key != nil {
				out[entry{l.path, parent + key.Value}] = item
			}
		}
	}
}

func sortEntries(es []entry) {
	slices.SortFunc(es, func(x, y entry) int { return cmp.Or(cmp.Compare(x.list, y.list), cmp.Compare(x.name, y.name)) })
}
