package terminal

import (
	"fmt"
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
)

// Style is the meaning of a text, and selects its colour.
type Style int

// The values of Style.
const (
	// Plain is the style of text without colour.
	Plain Style = iota
	// Head is the style of a heading, and Dim is the style of less important text.
	Head
	Dim
	// Good is the style for work that is done, Active for work that has begun, and Bad for work that failed.
	Good
	Active
	Bad
)

// colours are the colour codes of the styles for terminals.
var colours = map[Style]string{Head: "1", Dim: "2", Good: "32", Active: "36", Bad: "1;31"}

// Span is a part of a line that has one style.
type Span struct {
	Text  string
	Style Style
}

// Colour returns a text with the colour codes of the style.
func (s Style) Colour(text string) string {
	if code := colours[s]; code != "" && text != "" {
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	return text
}

// Of returns a Span with a text in the style s.
func (s Style) Of(text string) Span { return Span{text, s} }

// Line is one line of a screen.
type Line []Span

// Cut returns the line for a terminal with a number of columns, with or without colours. An ellipsis replaces the end
// of a line that does not fit. Cut replaces control characters, because texts of nodes and commits may be hostile.
func (l Line) Cut(width int, colour bool) string {
	if width <= 0 {
		return ""
	}
	total, room, end := 0, width, ""
	for _, s := range l {
		total += Width(safetext.OneLine(s.Text))
	}
	if total > width {
		room, end = width-1, "…"
	}
	var b strings.Builder
	for _, s := range l {
		whole := safetext.OneLine(s.Text)
		text := Truncate(whole, room)
		room -= Width(text)
		if colour {
			b.WriteString(s.Style.Colour(text))
		} else {
			b.WriteString(text)
		}
		if text != whole {
			break
		}
	}
	return b.String() + end
}

// Truncate returns the beginning of a text, so that it fits into a number of columns.
func Truncate(text string, room int) string {
	for i, r := range text {
		if room -= columns(r); room < 0 {
			return text[:i]
		}
	}
	return text
}

// Size is the size of a terminal, in columns and lines.
type Size struct{ Width, Height int }

// Labelled returns a text beside a label. Labelled wraps the text onto further lines only while there are spare lines.
// For an empty text, Labelled returns no line.
func Labelled(label string, text Span, width int, spare *int) []Line {
	const indent = 11
	if text.Text == "" {
		return nil
	}
	var out []Line
	for _, part := range WrapLines(text.Text, width-indent, spare) {
		out = append(out, Line{{fmt.Sprintf("  %-9s", label), Dim}, {part, text.Style}})
		label = ""
	}
	return out
}
