package terminal

import (
	"fmt"
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
)

// Style is the meaning of a text; it decides the colour.
type Style int

// Values of Style.
const (
	// Plain text.
	Plain Style = iota
	// Head is a heading, Dim is less important.
	Head
	Dim
	// Good, Active, Bad: done, under way, failed.
	Good
	Active
	Bad
)

// colours are the colour codes of the styles for terminals.
var colours = map[Style]string{Head: "1", Dim: "2", Good: "32", Active: "36", Bad: "1;31"}

// Span is a piece of a line.
type Span struct {
	Text  string
	Style Style
}

// Of returns a span with the text in this style.
func (s Style) Of(text string) Span { return Span{text, s} }

// Line is one line of a screen.
type Line []Span

// Cut returns the line as a terminal of that width shows it, with or without colours. An ellipsis replaces the part
// that does not fit. Cut replaces control characters, because texts of nodes and commits may be hostile.
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
		code := colours[s.Style]
		if colour && code != "" && text != "" {
			b.WriteString("\x1b[" + code + "m" + text + "\x1b[0m")
		} else {
			b.WriteString(text)
		}
		if text != whole {
			break
		}
	}
	return b.String() + end
}

// Truncate returns the beginning of a text that fits into room columns.
func Truncate(text string, room int) string {
	for i, r := range text {
		if room -= columns(r); room < 0 {
			return text[:i]
		}
	}
	return text
}

// Size of a terminal, in columns and lines.
type Size struct{ Width, Height int }

// Labelled returns a text beside a label. It uses further lines only while there are spare lines, and no line for an
// empty text.
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
