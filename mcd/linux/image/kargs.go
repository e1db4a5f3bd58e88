package image

import (
	"slices"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// kargsChange returns the smallest edit of the argument list all. After the edit, those arguments in all that before or
// after names are exactly after, in order. The edit keeps the longest prefix of after that all already has. The
// arguments del are removed, then add is appended. Each word of del removes its first occurrence, as in ostree.
// Arguments in neither before nor after stay.
func kargsChange(all, before, after string) (del, add []string) {
	want := host.SplitArgs(after)
	managed := append(host.SplitArgs(before), want...)
	is := slices.DeleteFunc(host.SplitArgs(all), func(a string) bool { return !slices.Contains(managed, a) })
	for n := len(want); ; n-- {
		if gone, kept := lastOf(is, want[:n]); slices.Equal(kept, want[:n]) {
			return gone, want[n:]
		}
	}
}

// lastOf splits the kernel arguments of a machine. For each argument, lastOf keeps as many of the last occurrences as
// wanted contains.
func lastOf(list, wanted []string) (gone, kept []string) {
	spare := map[string]int{}
	for _, word := range list {
		spare[word]++
	}
	for _, word := range wanted {
		spare[word]--
	}
	for _, word := range list {
		if spare[word]--; spare[word] >= 0 {
			gone = append(gone, word)
		} else {
			kept = append(kept, word)
		}
	}
	return gone, kept
}

// editKargs returns the list of arguments after the smallest edit.
func editKargs(all, before, after string) string {
	del, add := kargsChange(all, before, after)
	list := host.SplitArgs(all)
	for _, word := range del {
		at := slices.Index(list, word)
		list = slices.Delete(list, at, at+1)
	}
	return host.JoinArgs(append(list, add...))
}
