package inspect

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Table is rows under headings. Columns are as wide as their widest cell; no line ends in blanks.
type Table struct {
	// Head are the headings, in capitals.
	Head []string
	// Rows hold one cell for each heading.
	Rows [][]string
}

// String prints the table, or nothing where it has no rows.
func (t Table) String() string {
	if len(t.Rows) == 0 {
		return ""
	}
	width := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)+3))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// without drops a column in which every cell is empty, as said.
func (t Table) without(head, empty string) Table {
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

// Age writes how long ago t was: 40s, 5m, 3h, 2d; "-" for the zero time.
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

// ShortRendered cuts the hash of a rendered config's name to five digits, as tables show it.
func ShortRendered(name string) string {
	i := strings.LastIndexByte(name, '-')
	if i < 0 || len(name)-i-1 <= 5 {
		return name
	}
	return name[:i+6]
}

// longName is the end of a rendered config's name, and longHash a revision's hash.
var (
	longName = regexp.MustCompile(`(rendered-[a-z0-9.-]+-[0-9a-f]{5})[0-9a-f]{27}\b`)
	longHash = regexp.MustCompile(`(sha1:[0-9a-f]{8})[0-9a-f]{32}\b`)
)

// brief shortens the names and revisions in a text as the columns beside it do, and keeps its first line.
func brief(text string) string { return firstLine(shorten(text)) }

// shorten shortens the names and revisions in a text.
func shorten(text string) string {
	return longHash.ReplaceAllString(longName.ReplaceAllString(text, "$1"), "$1")
}
