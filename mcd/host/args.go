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

// EditKargs changes a list of kernel arguments as Stage does. It removes every argument of before and after, and adds
// after at the end. Other arguments stay. A second call changes nothing.
func EditKargs(all, before, after string) string {
	managed := append(SplitArgs(before), SplitArgs(after)...)
	kept := slices.DeleteFunc(SplitArgs(all), func(a string) bool { return slices.Contains(managed, a) })
	return JoinArgs(append(kept, SplitArgs(after)...))
}
