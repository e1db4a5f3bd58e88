package terminal

import (
	"fmt"
	"strings"
)

// Labels is a text whose lines have labels in front. Labels prints a label once, and not again for the next line with
// the same label.
type Labels struct {
	b    strings.Builder
	last string
}

// Add adds a line to the text. For an empty text, Add adds no line. A line without a label belongs to the label before
// it.
func (b *Labels) Add(label, text string) {
	const wide = 11
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

// Gap adds an empty line.
func (b *Labels) Gap() { b.b.WriteString("\n") }

// String returns the whole text, without empty lines at its end.
func (b *Labels) String() string { return strings.TrimRight(b.b.String(), "\n") + "\n" }
