package arch

import (
	"fmt"
	"go/ast"
	"go/scanner"
	"go/token"
	"strings"
	"unicode/utf8"
)

// maxColumns is how long a line may be: two files stand side by side on a screen. A tab is tabColumns wide.
const (
	maxColumns = 120
	tabColumns = 4
)

// linesFitTheScreen reports long lines. Generated files, rows of tables, raw strings and texts that no space divides
// are excepted.
func linesFitTheScreen(r Repo) []Violation {
	var vs []Violation
	for _, p := range r.Packages {
		for _, f := range p.Files {
			if f.Generated {
				continue
			}
			whole := f.undividedLines()
			for i, line := range strings.Split(string(f.Source), "\n") {
				if n := columns(line); n > maxColumns && !whole[i+1] {
					vs = append(vs, Violation{
						"line-length", f.Path, fmt.Sprintf("%s:%d", f.Path, i+1),
						fmt.Sprintf("a line has %d columns, at most %d: break it after a comma or an operator",
							n, maxColumns),
					})
				}
			}
		}
	}
	return vs
}

// columns returns the width of a line on a screen.
func columns(line string) int {
	return utf8.RuneCountInString(line) + strings.Count(line, "\t")*(tabColumns-1)
}

// undividedLines returns the lines of a file that nobody can divide, or that read better whole: rows of tables, and
// lines whose last column that fits is in a text without a space before it.
func (f File) undividedLines() map[int]bool {
	whole := f.tableRows()
	var s scanner.Scanner
	fset := token.NewFileSet()
	file := fset.AddFile(f.Path, -1, len(f.Source))
	s.Init(file, f.Source, nil, scanner.ScanComments)
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return whole
		}
		at := file.Position(pos)
		switch before := columns(string(f.Source[at.Offset-at.Column+1 : at.Offset])); {
		case tok == token.STRING && text[0] == '`':
			for i := range strings.Count(text, "\n") + 1 {
				whole[at.Line+i] = true
			}
		case tok == token.STRING && isUndivided(text, before):
			whole[at.Line] = true
		case tok == token.COMMENT && (isMarker(text) || isUndivided(strings.TrimPrefix(text, "// "), before+3)):
			whole[at.Line] = true
		}
	}
}

// isMarker reports whether a comment is for a program, which reads it as one line.
func isMarker(comment string) bool {
	return strings.HasPrefix(comment, "// +") || strings.HasPrefix(comment, "//  ") ||
		strings.HasPrefix(comment, "//\t") || !strings.HasPrefix(comment, "// ")
}

// isUndivided reports whether a text that begins in a column goes beyond the last one, and has no space before that.
func isUndivided(text string, begin int) bool {
	fits := maxColumns - begin
	return utf8.RuneCountInString(text) > fits && (fits < 1 || !strings.Contains(string([]rune(text)[1:fits]), " "))
}

// tableRows returns the lines that begin with an element of a slice or a map and end with it.
func (f File) tableRows() map[int]bool {
	rows := map[int]bool{}
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		table, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		switch table.Type.(type) {
		case *ast.ArrayType, *ast.MapType:
			for _, row := range table.Elts {
				line, end := f.Fset.Position(row.Pos()), f.Fset.Position(row.End())
				if line.Line == end.Line && f.isAlone(line, end) {
					rows[line.Line] = true
				}
			}
		}
		return true
	})
	return rows
}

// isAlone reports whether a line has nothing beside the element between two positions, but for a comma and a comment.
func (f File) isAlone(begin, end token.Position) bool {
	before := string(f.Source[begin.Offset-begin.Column+1 : begin.Offset])
	after, _, _ := strings.Cut(string(f.Source[end.Offset:]), "\n")
	after = strings.TrimSpace(strings.TrimPrefix(after, ","))
	return strings.TrimSpace(before) == "" && (after == "" || strings.HasPrefix(after, "//"))
}
