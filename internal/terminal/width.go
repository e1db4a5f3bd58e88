package terminal

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// WrapLines splits a text into lines, each of which after the first uses a spare one. The last line has the rest of the
// text.
func WrapLines(text string, width int, spare *int) []string {
	parts := Wrap(text, max(width, 1))
	if most := 1 + max(0, *spare); len(parts) > most {
		parts = append(parts[:most-1:most-1], strings.Join(parts[most-1:], " "))
	}
	*spare -= len(parts) - 1
	return parts
}

// Width returns how many columns of a terminal a text needs. Where terminals differ, it is the larger number, so that a
// text that was cut to a width is never wider.
func Width(text string) int {
	n := 0
	for _, r := range text {
		n += columns(r)
	}
	return n
}

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

// narrowest is how many columns the last column of a table needs to be wrapped beside the others.
const narrowest = 24

var (
	// the first line of a Table, and one of its cells
	heading     = regexp.MustCompile(`^[A-Z][A-Z-]*( [A-Z()-]+)*( {3,}[A-Z][A-Z-]*( [A-Z()-]+)*)+$`)
	headingCell = regexp.MustCompile(`[A-Z][A-Z-]*( [A-Z()-]+)*`)
	// of a line of Labels, with the blanks behind it
	label = regexp.MustCompile(`^[A-Z][A-Za-z ]{0,16}:\s+`)
)

// Fit lays a text out for a terminal with so many columns. Tables lose the columns that say nothing and then have their
// last column wrapped; other lines are wrapped under the text behind their label. Commands stay whole, so that they can
// be copied.
func Fit(text string, width int) string {
	var b strings.Builder
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	command := false // the lines belong to a label whose text is a command
	for i := 0; i < len(lines); i++ {
		if heading.MatchString(lines[i]) {
			end := i + 1
			for end < len(lines) && lines[end] != "" && !label.MatchString(lines[end]) && !isWarning(lines[end]) {
				end++
			}
			b.WriteString(fitTable(lines[i:end], width))
			i = end - 1
			continue
		}
		at := label.FindString(lines[i])
		blanks := len(lines[i]) - len(strings.TrimLeft(lines[i], " "))
		if blanks == 0 {
			command = strings.HasPrefix(at, "To do:") || strings.HasPrefix(at, "Undo:")
		}
		indent := max(blanks, len(at))
		if command || Width(lines[i]) <= width || width-indent < narrowest {
			b.WriteString(lines[i] + "\n")
			continue
		}
		first := lines[i][:indent]
		for _, part := range Wrap(lines[i][indent:], width-indent) {
			b.WriteString(first + part + "\n")
			first = strings.Repeat(" ", indent)
		}
	}
	return b.String()
}

func isWarning(line string) bool { return strings.HasPrefix(line, "WARNING:") }

func fitTable(lines []string, width int) string {
	t := parseTable(lines)
	if t.Head == nil || t.width() <= width {
		return strings.Join(lines, "\n") + "\n"
	}
	for i := len(t.Head) - 1; i >= 0 && t.width() > width; i-- {
		empty := func(row []string) bool { return row[i] == "0" || row[i] == "-" || row[i] == "" }
		if len(t.Head) > 2 && !slices.ContainsFunc(t.Rows, func(row []string) bool { return !empty(row) }) {
			t.Head = slices.Delete(t.Head, i, i+1)
			for r := range t.Rows {
				t.Rows[r] = slices.Delete(t.Rows[r], i, i+1)
			}
		}
	}
	last := len(t.Head) - 1
	begin := 0
	for _, w := range t.widths()[:last] {
		begin += w + gap
	}
	var b strings.Builder
	if width-begin >= narrowest { // The last column is wrapped beside the others.
		b.WriteString(t.lines(width-begin, begin))
		return b.String()
	}
	// It is below each row, behind two blanks.
	left := Table{Head: t.Head[:last]}
	for _, row := range t.Rows {
		left.Rows = append(left.Rows, row[:last])
	}
	for i, line := range strings.Split(strings.TrimSuffix(left.String(), "\n"), "\n") {
		cell := t.Head[last]
		if i > 0 {
			cell = t.Rows[i-1][last]
		}
		b.WriteString(line + "\n")
		if cell == "" {
			continue
		}
		for _, part := range Wrap(cell, max(width-2, narrowest)) {
			b.WriteString("  " + part + "\n")
		}
	}
	return b.String()
}

// parseTable reads the lines of Table.String; Head is nil for others.
func parseTable(lines []string) (t Table) {
	starts := headingCell.FindAllStringIndex(lines[0], -1)
	for _, line := range lines {
		var row []string
		for i, at := range starts {
			end := len(line)
			if i+1 < len(starts) {
				end = byteAt(line, starts[i+1][0])
			}
			from := byteAt(line, at[0])
			if from > 0 && from < len(line) && line[from-1] != ' ' {
				return Table{}
			}
			row = append(row, strings.TrimSpace(line[min(from, end):end]))
		}
		if t.Head == nil {
			t.Head = row
		} else {
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// byteAt returns the index of the byte at a column, at most the length.
func byteAt(line string, column int) int {
	n := 0
	for i, r := range line {
		if n >= column {
			return i
		}
		n += columns(r)
	}
	return len(line)
}

func (t Table) widths() []int {
	width := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		for i, cell := range row {
			width[i] = max(width[i], Width(cell))
		}
	}
	return width
}

func (t Table) width() int {
	sum := 0
	for _, w := range t.widths() {
		sum += w + gap
	}
	return sum - gap
}

// lines wraps the last column, which begins at a column, within room.
func (t Table) lines(room, begin int) string {
	var b strings.Builder
	last := len(t.Head) - 1
	width := t.widths()
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		var line strings.Builder
		for i, cell := range row[:last] {
			line.WriteString(cell + strings.Repeat(" ", width[i]-Width(cell)+gap))
		}
		for i, part := range Wrap(row[last], room) {
			if i > 0 {
				line.WriteString(strings.Repeat(" ", begin))
			}
			b.WriteString(strings.TrimRight(line.String()+part, " ") + "\n")
			line.Reset()
		}
	}
	return b.String()
}

// Paragraphs wraps a text: each paragraph anew, and each indented line under itself, behind its first column.
func Paragraphs(text string, width int) string {
	var out, paragraph []string
	first, indent := "", 0 // of the lines of an item
	end := func() {
		if len(paragraph) > 0 {
			for i, part := range Wrap(strings.Join(paragraph, " "), max(width-indent, narrowest)) {
				if i > 0 {
					first = strings.Repeat(" ", indent)
				}
				out = append(out, first+part)
			}
		}
		paragraph, first, indent = nil, "", 0
	}
	for _, line := range strings.Split(strings.TrimRight(text, " \n"), "\n") {
		blanks := len(line) - len(strings.TrimLeft(line, " "))
		switch {
		case line == "":
			end()
			out = append(out, "")
		case blanks == 0 && indent == 0, blanks > 0 && blanks == indent && first != strings.Repeat(" ", indent):
			paragraph = append(paragraph, strings.TrimLeft(line, " ")) // a further line of the paragraph or the item
		default:
			end()
			if indent = blanks; indent > 0 {
				if at := column.FindStringIndex(line); at != nil {
					indent = at[1]
				}
			}
			first, paragraph = line[:indent], []string{line[indent:]}
		}
	}
	end()
	return strings.Join(out, "\n")
}

// column: indented words and the blanks behind them
var column = regexp.MustCompile(`^ +\S+( \S+)* {2,}`)
