package linux

import (
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// kargsChange is the smallest edit that makes the arguments of before and after, among all, be those of after in order:
// the longest beginning of after that is there already stays where it is; del goes, then add is put at the end. Each word
// of del takes out its first occurrence, as ostree does. What neither before nor after names is not touched.
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

// lastOf parts a list: of each word, as many of its last occurrences are kept as the wanted words have of it.
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

// editKargs is the list of arguments after the smallest edit.
func editKargs(all, before, after string) string {
	del, add := kargsChange(all, before, after)
	list := host.SplitArgs(all)
	for _, word := range del {
		at := slices.Index(list, word)
		list = slices.Delete(list, at, at+1)
	}
	return host.JoinArgs(append(list, add...))
}

// ownKargs leaves out what belongs to the boot loader and differs from boot to boot.
func ownKargs(line string) string {
	return host.JoinArgs(slices.DeleteFunc(host.SplitArgs(line), func(a string) bool {
		return strings.HasPrefix(a, "ostree=") || strings.HasPrefix(a, "BOOT_IMAGE=") || strings.HasPrefix(a, "initrd=")
	}))
}
