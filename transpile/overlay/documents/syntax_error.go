package documents

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// maxSought is the largest text in which syntax searches for the invalid line. For a larger text, syntax uses the line
// that the parser names.
const maxSought = 1 << 20

var yamlLine = regexp.MustCompile(`line (\d+): `)

// syntax turns an error of the YAML library into a finding. The library names the line where the construct begins, or
// the line before the mistake. So syntax searches for the invalid line: it is the last line of the shortest beginning
// of the text that does not parse.
func (t YAMLText) syntax(err error) origin.Finding {
	at := origin.Pos{File: t.File, Line: t.Offset + 1} // The library names no line if the error is in the first line.
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlLine.FindStringSubmatch(msg); m != nil {
		line, _ := strconv.Atoi(m[1])
		at.Line = line + t.Offset
		msg = strings.Replace(msg, m[0], "", 1)
	}
	lines := bytes.SplitAfter(t.yaml(), []byte("\n"))
	n, hint := 0, ""
	if path.Ext(t.File) != IgnitionExt {
		n = broken(lines)
	}
	if n > 0 {
		at.Line = n + t.Offset
		depth := indentation(lines[n-1])
		if tab := bytes.IndexByte(lines[n-1][:depth], '\t'); tab >= 0 {
			depth, hint = tab, "the line is indented by a tab: use spaces"
		} else {
			hint = misplaced(lines, n, t.Offset)
		}
		if !t.Inline {
			at.Column = depth + 1
		}
	}
	return origin.Errorf(at, "yaml", "not valid YAML: %s", cmp.Or(hint, explained(msg)))
}

// explained says how to fix what the parser rejected.
func explained(msg string) string {
	for _, m := range []struct{ words, instead string }{
		{
			"mapping values are not allowed",
			"a second `: ` is in this line, or the line above has a value already: put the value in quotation " +
				"marks, or check the indentation",
		},
		{"found incompatible YAML document", "documents here are YAML 1.2: remove the line that begins with %YAML"},
		{"unexpected end of stream", "a quotation mark that opens here is not closed"},
		{"expected ',' or ']'", "a [ is not closed, or a comma is missing"},
		{"expected ',' or '}'", "a { is not closed, or a comma is missing"},
		{"could not find expected ':'", "the line has no `: ` after its key"},
		{"cannot start any token", "a value cannot begin with this character: put the value in quotation marks"},
	} {
		if strings.Contains(msg, m.words) {
			return m.instead
		}
	}
	return msg
}

// broken returns the number of the line that makes the text invalid, or 0 if it cannot find this line. broken does a
// binary search, and parses a part of the text in each step.
func broken(lines [][]byte) int {
	size := 0
	ends := make([]int, len(lines))
	for i, l := range lines {
		size += len(l)
		ends[i] = size
	}
	if size > maxSought {
		return 0
	}
	src := bytes.Join(lines, nil)
	n := sort.Search(len(lines), func(i int) bool { return parses(src[:ends[i]]) != nil }) + 1
	if n > len(lines) || unfinished(parses(src[:ends[n-1]])) {
		return 0
	}
	return n
}

// parses returns the error of a text with any number of documents, or nil.
func parses(src []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(src))
	for {
		var n yaml.Node
		switch err := dec.Decode(&n); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// unfinished reports whether a text could be the beginning of a valid text, because brackets and quotation marks may
// span lines.
func unfinished(err error) bool {
	for _, words := range []string{
		"unexpected end of stream", "expected ',' or ']'", "expected ',' or '}'",
		"expected node content",
	} {
		if strings.Contains(err.Error(), words) {
			return true
		}
	}
	return false
}

// indentation is the number of blanks and tabs that a line begins with.
func indentation(line []byte) int { return len(line) - len(bytes.TrimLeft(line, " \t")) }

// level is a depth of indentation that a line may return to.
type level struct{ indent, line int }

// misplaced returns a message if a line's indentation matches that of no open line above. The message names the nearest
// such line. Otherwise misplaced returns "".
func misplaced(lines [][]byte, n, offset int) string {
	var open []level
	for i, line := range lines[:n-1] {
		trimmed := bytes.TrimSpace(line)
		if len(trimmed) == 0 || trimmed[0] == '#' {
			continue
		}
		depth := indentation(line)
		for len(open) > 0 && open[len(open)-1].indent >= depth {
			open = open[:len(open)-1]
		}
		open = append(open, level{depth, i + 1})
		for rest := line[depth:]; bytes.HasPrefix(rest, []byte("- ")); { // The text after a dash is a level of its own.
			inner := 1 + indentation(rest[1:])
			depth += inner
			rest = rest[inner:]
			open = append(open, level{depth, i + 1})
		}
	}
	depth := indentation(lines[n-1])
	if len(open) == 0 || depth > open[len(open)-1].indent && takesMore(lines[open[len(open)-1].line-1]) {
		return ""
	}
	nearest := level{-1, 0}
	for _, l := range open {
		if l.indent == depth {
			return ""
		}
		if nearest.line == 0 || distance(l.indent, depth) <= distance(nearest.indent, depth) {
			nearest = l
		}
	}
	return fmt.Sprintf("the line is indented by %s, which matches no line above; the nearest is line %d with %s",
		blanks(depth), nearest.line+offset, blanks(nearest.indent))
}

// takesMore reports whether the line after a line may have more indentation.
func takesMore(line []byte) bool {
	line, _, _ = bytes.Cut(line, []byte(" #"))
	line = bytes.TrimSpace(line)
	return bytes.HasSuffix(line, []byte(":")) || bytes.Equal(line, []byte("-"))
}

func distance(a, b int) int { return max(a-b, b-a) }

func blanks(n int) string {
	if n == 1 {
		return "1 space"
	}
	return strconv.Itoa(n) + " spaces"
}
