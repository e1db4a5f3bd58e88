package machineconfig

import (
	"strings"
	"unicode"
)

// SplitKargs takes entries of kernelArguments apart into single arguments: at blanks, but not within double quotes,
// which stay. Single quotes quote nothing, as on the kernel's command line.
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
