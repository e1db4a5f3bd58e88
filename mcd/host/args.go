package host

import (
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// SplitArgs splits kernel arguments as machineconfig.SplitKargs does.
func SplitArgs(words string) []string { return machineconfig.SplitKargs([]string{words}) }

// JoinArgs is the inverse of SplitArgs.
func JoinArgs(args []string) string { return strings.Join(args, " ") }

// EditKargs changes a list of kernel arguments as Stage does. EditKargs removes every argument of before and after, and
// adds after at the end. Other arguments stay. A second call changes nothing.
func EditKargs(all, before, after string) string {
	managed := append(SplitArgs(before), SplitArgs(after)...)
	kept := slices.DeleteFunc(SplitArgs(all), func(a string) bool { return slices.Contains(managed, a) })
	return JoinArgs(append(kept, SplitArgs(after)...))
}

// OwnArgs returns those of a machine's own kernel arguments that are among the given arguments, in the machine's order.
func OwnArgs(own string, among ...string) []string {
	var all []string
	for _, words := range among {
		all = append(all, SplitArgs(words)...)
	}
	return slices.DeleteFunc(SplitArgs(own), func(a string) bool { return !slices.Contains(all, a) })
}

// MissingArgs returns the arguments that a machine needs after its own arguments to have all of want. If the machine's
// own arguments include all of want, no argument is missing. Otherwise, the first arguments of want that the machine
// has in the same order are not missing.
func MissingArgs(own, want []string) []string {
	count := map[string]int{}
	for _, a := range own {
		count[a]++
	}
	lacks := slices.ContainsFunc(want, func(a string) bool { count[a]--; return count[a] < 0 })
	if !lacks {
		return nil
	}
	for len(want) > 0 {
		at := slices.Index(own, want[0])
		if at < 0 {
			return want
		}
		own, want = own[at+1:], want[1:]
	}
	return nil
}

// AddedArgs returns the arguments that a step adds after the machine's own arguments, which the step cannot remove.
// AddedArgs returns false if After does not begin with those of the machine's own arguments that the step names.
func AddedArgs(own string, step Step) ([]string, bool) {
	fixed, after := OwnArgs(own, step.Before.Word, step.After.Word), SplitArgs(step.After.Word)
	if len(after) < len(fixed) || !slices.Equal(after[:len(fixed)], fixed) {
		return nil, false
	}
	return after[len(fixed):], true
}
