package machineconfig

import (
	"strings"
	"unicode"
)

// SplitKargs splits entries of kernelArguments into single arguments, at blanks outside double quotes. The quotes stay
// in the arguments. Single quotes have no effect, as on the kernel's command line. All code that splits kernel
// arguments uses SplitKargs. Check refuses an entry with an open quote.
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
