package terminal

import (
	"strings"
	"unicode"
)

// WrapLines splits a text into lines. Each line after the first uses a spare line. When the spare lines are used up,
// the last line has the rest of the text.
func WrapLines(text string, width int, spare *int) []string {
	parts := Wrap(text, max(width, 1))
	if most := 1 + max(0, *spare); len(parts) > most {
		parts = append(parts[:most-1:most-1], strings.Join(parts[most-1:], " "))
	}
	*spare -= len(parts) - 1
	return parts
}

// Width returns how many columns of a terminal a text needs. If terminals differ, Width returns the larger number, so
// that a text that was cut to a width is never wider than it.
func Width(text string) int {
	n := 0
	for _, r := range text {
		n += columns(r)
	}
	return n
}

// columns returns the width of one character.
func columns(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r < 0x1100, r >= 0x1e00 && r < 0x2300, r >= 0x2500 && r < 0x2600, r == unicode.ReplacementChar:
		return 1
	}
	return 2
}

// Wrap splits a text between words into lines of at most width columns. A longer word is not split.
func Wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && Width(line)+1+Width(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
