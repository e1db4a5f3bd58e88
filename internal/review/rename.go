package review

import (
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/internal/disruption"
)

// Renames finds pairs of a removed and an added item that differ only in their names. Both items have the same content,
// mode and owner. Renames maps the index of the removed item to the index of the added item. If several added items
// match, Renames prefers an item with the same last element of its path, and then the first item by path.
func Renames(changes []disruption.Costed, pairs []ContentPair) map[int]int {
	type key struct {
		kind           disruption.ChangeKind
		attrs, content string
	}
	keyOf := func(i int, v view, content string) key {
		return key{changes[i].Kind, strings.Join(v.attrs, "\n"), content}
	}
	removed := map[key][]int{}
	for i, c := range changes {
		if text, ok := contents(pairs[i].from); ok && c.Verb == disruption.Removed {
			k := keyOf(i, pairs[i].from, text)
			removed[k] = append(removed[k], i)
		}
	}
	if len(removed) == 0 {
		return nil
	}
	addedOf, done := map[int]int{}, map[int]bool{}
	for _, sameBase := range []bool{true, false} {
		for i, c := range changes {
			text, ok := contents(pairs[i].to)
			if !ok || c.Verb != disruption.Added || done[i] {
				continue
			}
			k := keyOf(i, pairs[i].to, text)
			n := slices.IndexFunc(removed[k], func(r int) bool {
				return !sameBase || path.Base(changes[r].Name) == path.Base(c.Name)
			})
			if n < 0 {
				continue
			}
			addedOf[removed[k][n]], done[i] = i, true
			removed[k] = slices.Delete(removed[k], n, n+1)
		}
	}
	return addedOf
}

// contents returns the text of an item that has exactly one text, such as a unit without drop-ins.
func contents(v view) (string, bool) {
	if len(v.parts) != 1 || v.parts[0].name != contentsPart || len(v.parts[0].content) == 0 {
		return "", false
	}
	return string(v.parts[0].content), true
}
