package terminal

import (
	"fmt"
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
)

// Labels is a text whose lines have labels in front. Labels prints a label once, and not again for the next line with
// the same label. What a method adds is always one line, because it may be the text of a node or a commit: none of
// these can begin a line of its own.
type Labels struct {
	b    strings.Builder
	last string
}

// Add adds a line to the text. For an empty text, Add adds no line. A line without a label belongs to the label before
// it.
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
