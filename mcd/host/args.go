package host

import (
	"slices"
	"strings"
)

// SplitArgs splits kernel arguments at blanks outside double quotes, as the kernel does. Quotes stay.
func SplitArgs(words string) []string {
	quoted := false
	return strings.FieldsFunc(words, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return !quoted && (r == ' ' || r == '\t' || r == '\n')
	})
}

// JoinArgs is the inverse of SplitArgs.
func JoinArgs(args []string) string { return strings.Join(args, " ") }

// EditKargs is what Stage does to a list of kernel arguments: every argument of before and after is taken out, after is
// put at the end, all others stay where they are. Doing it twice is doing it once.
func EditKargs(all, before, after string) string {
	managed := append(SplitArgs(before), SplitArgs(after)...)
	kept := slices.DeleteFunc(SplitArgs(all), func(a string) bool { return slices.Contains(managed, a) })
	return JoinArgs(append(kept, SplitArgs(after)...))
}
