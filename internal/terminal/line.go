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
	// without colour
	Plain Style = iota
	// of a heading, and of less important text
	Head
	Dim
	// Good is for work that is done, Active for work that has begun, and Bad for work that failed.
	Good
	Active
	Bad
)

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

// Cut returns the line for a terminal of so many columns, with an ellipsis for an end that does not fit. It replaces
// control characters, because texts of nodes and commits may be hostile.
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

// Labelled wraps a text beside a label while there are spare lines; no line for an empty text.
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

// Labels is a text whose lines have labels in front, each once for the lines that share it. What a method adds is
// always one line: the text of a node or a commit can begin no line of its own.
type Labels struct {
	b    strings.Builder
	last string
}

// Add adds a line, unless the text is empty. Without a label, it belongs to the one before.
func (b *Labels) Add(label, text string) {
	const wide = 11
	text = safetext.OneLine(text)
	switch {
	case text == "":
		return
	case label == "" && b.b.Len() == 0:
		b.b.WriteString(text + "\n")
		return
	case label == "" || label == b.last:
		b.b.WriteString(strings.Repeat(" ", wide))
	default:
		fmt.Fprintf(&b.b, "%-*s", wide, label+":")
		b.last = label
	}
	b.b.WriteString(strings.TrimRight(text, " ") + "\n")
}

// Line adds a line that begins in the first column.
func (b *Labels) Line(format string, args ...any) {
	b.b.WriteString(safetext.OneLine(fmt.Sprintf(format, args...)) + "\n")
}

// Text adds a text whose lines are safe: that of a Table or of another Labels.
func (b *Labels) Text(of fmt.Stringer) { b.b.WriteString(of.String()) }

// Gap adds an empty line.
func (b *Labels) Gap() { b.b.WriteString("\n") }

// String returns the whole text, without empty lines at its end. It is empty if nothing was added.
func (b *Labels) String() string {
	if b.b.Len() == 0 {
		return ""
	}
	return strings.TrimRight(b.b.String(), "\n") + "\n"
}
