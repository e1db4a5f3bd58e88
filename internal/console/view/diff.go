package view

import (
	"html/template"
	"slices"
	"strings"
)

const (
	// of a line, in bytes
	longestLine = 2000
	// of differences
	mostLines = 5000
)

// diffRow is a line before and the line after that replaces it, which stand side by side where there is room; or a line
// that stays, or a remark. Others are empty.
type diffRow struct{ Before, After, Same, Remark template.HTML }

// blank is an empty line, as HTML.
const blank template.HTML = "&nbsp;"

// diffRows pairs the lines of a unified difference, and says how many lines there are beyond the most.
func diffRows(lines []string, most int, l *language) (rows []diffRow, more int) {
	if len(lines) > most {
		lines, more = lines[:most], len(lines)-most
	}
	var gone, come []template.HTML
	flush := func() {
		for i := range max(len(gone), len(come)) {
			var row diffRow
			if i < len(gone) {
				row.Before = gone[i]
			}
			if i < len(come) {
				row.After = come[i]
			}
			rows = append(rows, row)
		}
		gone, come = nil, nil
	}
	code := func(text string) template.HTML {
		if text == "" {
			return blank
		}
		return l.colour(text)
	}
	for _, text := range lines {
		text = cutLine(text)
		switch {
		case strings.HasPrefix(text, "@@"):
			flush()
			isGap := func(r diffRow) bool { return r.Before != "" || r.Same != "" }
			if slices.ContainsFunc(rows, isGap) { // Of a new file, all lines are there.
				rows = append(rows, diffRow{Remark: "⋯"})
			}
		case strings.HasPrefix(text, "#"), strings.HasPrefix(text, "---"), strings.HasPrefix(text, "+++"):
			flush()
			rows = append(rows, diffRow{Remark: (*language)(nil).colour(text)})
		case strings.HasPrefix(text, "+"):
			come = append(come, code(text[1:]))
		case strings.HasPrefix(text, "-"):
			if len(come) > 0 {
				flush()
			}
			gone = append(gone, code(text[1:]))
		default:
			flush()
			rows = append(rows, diffRow{Same: code(strings.TrimPrefix(text, " "))})
		}
	}
	flush()
	return rows, more
}

// hasSides reports whether a difference has lines before and lines after, so that it gains from two columns.
func hasSides(rows []diffRow) bool {
	before, after := false, false
	for _, r := range rows {
		before, after = before || r.Before != "", after || r.After != ""
	}
	return before && after
}
