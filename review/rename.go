package review

import (
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/policy"
)

// findRenames joins items that were removed with items that were added and are the same but for their names: content,
// mode, owner. Of several, one whose last name stayed comes first, then the first by path.
func findRenames(items []Item, pairs []pair) {
	type key struct{ kind, attrs, content string }
	keyOf := func(kind string, v view, content string) key {
		return key{kind, strings.Join(v.attrs, "\n"), content}
	}
	gone := map[key][]int{}
	for i, it := range items {
		if c, ok := contents(pairs[i].from); ok && it.Change == string(policy.Removed) {
			k := keyOf(it.Kind, pairs[i].from, c)
			gone[k] = append(gone[k], i)
		}
	}
	if len(gone) == 0 {
		return
	}
	join := func(sameBase bool) {
		for i := range items {
			c, ok := contents(pairs[i].to)
			if !ok || items[i].Change != string(policy.Added) || items[i].RenamedFrom != "" {
				continue
			}
			k := keyOf(items[i].Kind, pairs[i].to, c)
			n := slices.IndexFunc(gone[k], func(g int) bool {
				return !sameBase || path.Base(items[g].Path) == path.Base(items[i].Path)
			})
			if n < 0 {
				continue
			}
			old := &items[gone[k][n]]
			items[i].RenamedFrom, old.RenamedTo = old.Path, items[i].Path
			gone[k] = slices.Delete(gone[k], n, n+1)
		}
	}
	join(true)
	join(false)
}

// contents is what an item holds, if it is one text and not an empty one: of a unit with drop-ins nothing is said.
func contents(v view) (string, bool) {
	if len(v.parts) != 1 || v.parts[0].name != contentsPart || len(v.parts[0].content) == 0 {
		return "", false
	}
	return string(v.parts[0].content), true
}
