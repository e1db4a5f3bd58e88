package terminal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/safetext"
)

// Dash returns a text, or "-" for "", for a table cell.
func Dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Table has columns as wide as their widest cells, and no line ends in blanks. A row is always one line: a text of a
// node or a commit neither begins another line nor widens the table without limit.
type Table struct {
	// Head is in capitals.
	Head []string
	Rows [][]string
}

// maxCell is in characters.
const maxCell = 1000

const gap = 3

// String returns the table as text. It returns "" if the table has no rows.
func (t Table) String() string {
	if len(t.Rows) == 0 {
		return ""
	}
	t = t.shown()
	width := t.widths()
	var b strings.Builder
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", width[i]-Width(cell)+gap))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// shown returns the table with cells of one line and limited length.
func (t Table) shown() Table {
	rows := make([][]string, len(t.Rows))
	for r, row := range t.Rows {
		rows[r] = make([]string, len(row))
		for i, cell := range row {
			rows[r][i] = safetext.Short(cell, maxCell)
		}
	}
	t.Rows = rows
	return t
}

// Without removes a column if every cell of it has the value of the parameter empty.
func (t Table) Without(head, empty string) Table {
	i := slices.Index(t.Head, head)
	for _, row := range t.Rows {
		if row[i] != empty {
			return t
		}
	}
	t.Head = slices.Delete(slices.Clone(t.Head), i, i+1)
	for r, row := range t.Rows {
		t.Rows[r] = slices.Delete(row, i, i+1)
	}
	return t
}

// Age returns a text that says how long ago t was: 40s, 5m, 3h, 2d. It returns "-" for the zero time.
func Age(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	switch d := max(now.Sub(t), 0); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}
