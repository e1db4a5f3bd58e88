package view

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

const (
	// longestLine is the maximum number of bytes of a line that a page shows.
	longestLine = 2000
	// mostLines is the maximum number of lines of differences that a page shows.
	mostLines = 5000
)

// diffLine is one line of a difference. Class is add, del, meta or same; the text begins with the sign, so that a user
// who sees no colours also understands it.
type diffLine struct{ Class, Text string }

// diffLines returns the first lines of a difference, and how many more there are.
func diffLines(lines []string, most int) (out []diffLine, more int) {
	for i, l := range lines {
		if i >= most {
			return out, len(lines) - i
		}
		class := "same"
		switch {
		case strings.HasPrefix(l, "@@"), strings.HasPrefix(l, "#"), strings.HasPrefix(l, "---"),
			strings.HasPrefix(l, "+++"):
			class = "meta"
		case strings.HasPrefix(l, "+"):
			class = "add"
		case strings.HasPrefix(l, "-"):
			class = "del"
		}
		out = append(out, diffLine{class, cutLine(l)})
	}
	return out, 0
}

// cutLine shortens a long line, and adds a note that the line is shortened.
func cutLine(text string) string {
	if len(text) <= longestLine {
		return text
	}
	at := longestLine
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return text[:at] + fmt.Sprintf("… (%d more bytes in this line)", len(text)-at)
}

// The paths of pages. Names are escaped.

func poolPath(pool string) string { return "/pool/" + url.PathEscape(pool) }

func nodePath(node string) string { return "/node/" + url.PathEscape(node) }

// commitPath returns the path of the page of a rendered config in its pool. It returns "" if the config or the pool is
// unknown.
func commitPath(pool, config string) string {
	if pool == "" || config == "" {
		return ""
	}
	return poolPath(pool) + "/commit/" + url.PathEscape(config)
}

func comparePath(from, to string) string {
	return "/compare?" + url.Values{"from": {from}, "to": {to}}.Encode()
}
