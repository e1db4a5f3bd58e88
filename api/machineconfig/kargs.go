package machineconfig

import (
	"strings"
	"unicode"
)

// SplitKargs splits entries of kernelArguments into single arguments: at blanks, but not within double quotes, which stay.
// Single quotes quote nothing, as on the kernel's command line. It is the only function that splits kernel arguments:
// review, renderer and daemon use it, so that they agree. Check refuses an entry that leaves a quote open.
func SplitKargs(entries []string) []string {
	args := []string{}
	for _, entry := range entries {
		quoted := false
		args = append(args, strings.FieldsFunc(entry, func(r rune) bool {
			if r == '"' {
				quoted = !quoted
			}
			return !quoted && unicode.IsSpace(r)
		})...)
	}
	return args
}
