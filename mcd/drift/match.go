package drift

import (
	"strings"
)

// Match reports whether a pattern of a DriftRule matches the name of an item.
//
//	**        alone: every item; as a part of a path: any number of directories, or none
//	*         any characters within one part
//	?         one character
//
// A pattern that starts with / matches paths only, and another pattern matches other items only. Every other character
// matches itself, so every pattern is valid.
func Match(pattern, name string) bool {
	if pattern == "**" {
		return true
	}
	if strings.HasPrefix(pattern, "/") != strings.HasPrefix(name, "/") {
		return false
	}
	return matchNames(strings.Split(pattern, "/"), strings.Split(name, "/"))
}

// matchNames returns to the last ** after a mismatch, as matchWord does with *. The text before that ** has matched
// already, so the time is at most proportional to the product of the lengths of pattern and name.
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
