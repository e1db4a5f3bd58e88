package history

import "github.com/bunsen-os/bunsen/api/textdiff"

// commonLines maps line numbers of a to the numbers of the same lines of b, by the shortest script of edits. Line
// numbers count from 0. Texts that are too different for textdiff.Script have no common lines.
func commonLines(a, b []string) map[int]int {
	edits, _ := textdiff.Script(a, b)
	common := map[int]int{}
	i, j := 0, 0
	for _, e := range edits {
		if e.Sign == ' ' {
			common[i] = j
		}
		if e.Sign != '+' {
			i++
		}
		if e.Sign != '-' {
			j++
		}
	}
	return common
}
