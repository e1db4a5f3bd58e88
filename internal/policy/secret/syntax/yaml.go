package syntax

import (
	"strings"
)

// YAMLKey splits a line into a key and the text after its colon.
func YAMLKey(s string) (key, rest string, ok bool) {
	s = strings.TrimLeft(s, " \t-")
	key, rest, ok = strings.Cut(s, ":")
	key = strings.Trim(key, `"' `)
	return key, rest, ok && key != "" && len(key) < 120 && !strings.ContainsAny(key, " \t={}") &&
		(rest == "" || IsBlank(rest[0]))
}

// IsBlockStart reports whether the value of a YAML key is on the next lines: |, >-, |2+.
func IsBlockStart(rest string) bool {
	rest = strings.TrimSpace(rest)
	if f := strings.Fields(rest); len(f) == 2 && strings.HasPrefix(f[0], "!") && !strings.Contains(f[0], "vault") {
		rest = f[1] // The first word is a tag.
	}
	return rest != "" && (rest[0] == '|' || rest[0] == '>') && strings.Trim(rest[1:], "+-123456789") == ""
}

// YAMLIndent returns the indentation of a line's key, after the dashes of a list.
func YAMLIndent(s string) int {
	n := Indent(s)
	for strings.HasPrefix(s[n:], "- ") {
		n += 2 + Indent(s[n+2:])
	}
	return n
}

// Indent returns the number of blanks at the beginning of a line.
func Indent(s string) int { return len(s) - len(strings.TrimLeft(s, " \t")) }

// YAMLLineEnd returns where a line ends without its comment.
func YAMLLineEnd(s string, from int) int {
	if n := strings.Index(s[min(from, len(s)):], " #"); n >= 0 && (from >= len(s) || s[from] != '"' &&
		s[from] != '\'') {
		return from + n
	}
	return len(s)
}
