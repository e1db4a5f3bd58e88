package drift

import (
	"strings"
)

// Match tells whether a pattern of a DriftRule is about a thing of this name. `**` alone is about everything. A pattern that
// begins with / is about paths: in each name of the path, * stands for any characters and ? for one; ** as a whole name
// stands for any number of names, none included. Other patterns are matched name by name in the same way with what is no
// path. All other characters stand for themselves: no pattern is malformed.
func Match(pattern, name string) bool {
	if pattern == "**" {
		return true
	}
	if strings.HasPrefix(pattern, "/") != strings.HasPrefix(name, "/") {
		return false
	}
	return matchNames(strings.Split(pattern, "/"), strings.Split(name, "/"))
}

// matchNames keeps the last ** to come back to, as matchWord does with *: what comes before it is settled then, so that no
// pattern takes longer than the product of both lengths.
func matchNames(pattern, names []string) bool {
	p, n, star, from := 0, 0, -1, 0
	for n < len(names) {
		switch {
		case p < len(pattern) && pattern[p] == "**":
			star, from = p, n
			p++
		case p < len(pattern) && matchWord([]rune(pattern[p]), []rune(names[n])):
			p, n = p+1, n+1
		case star >= 0:
			from++
			p, n = star+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == "**" {
		p++
	}
	return p == len(pattern)
}

func matchWord(pattern, word []rune) bool {
	p, w, star, from := 0, 0, -1, 0
	for w < len(word) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, w
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == word[w]):
			p, w = p+1, w+1
		case star >= 0:
			from++
			p, w = star+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
