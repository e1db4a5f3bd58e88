package logtext

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible replaces the characters of a text that do not show as themselves by their codes: control characters with line ends,
// zero-width and bidirectional characters, and tags. Tabs stay. Bytes that are no UTF-8 become U+FFFD.
func Visible(text string) string {
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	if !strings.ContainsFunc(text, isInvisible) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isInvisible(r) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Line returns a text as one line of a log: visible, and no workflow command. A runner takes `::name::` at the beginning of a
// line, also after blanks, and `##[name]` anywhere in it.
func Line(text string) string {
	text = strings.ReplaceAll(Visible(text), "##[", `#\u0023[`)
	rest := strings.TrimLeftFunc(text, unicode.IsSpace)
	if strings.HasPrefix(text, "::") || strings.HasPrefix(rest, "::") && strings.Contains(rest[1:], "::") {
		text = text[:len(text)-len(rest)] + `\u003a` + rest[1:]
	}
	return text
}

// Lines returns a text of several lines with each of them as Line returns it.
func Lines(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = Line(l)
	}
	return strings.Join(lines, "\n")
}

// isInvisible reports whether a character does not show as itself.
func isInvisible(r rune) bool {
	if r >= ' ' && r < 0x7f || r == '\t' {
		return false // nearly all there is
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point) || r >= 0xE0000 && r < 0xE1000
}
