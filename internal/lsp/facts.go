package lsp

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

var fact = regexp.MustCompile(`\$\{node\.([A-Za-z0-9_-]+)\}`)

// factAt returns the fact whose reference stands at a position, or "".
func factAt(d document, at position) string {
	text, offset := d.line(at.Line), d.offset(at.Line, at.Character)
	for _, m := range fact.FindAllStringSubmatchIndex(text, -1) {
		if offset >= m[0] && offset < m[1] {
			return text[m[2]:m[3]]
		}
	}
	return ""
}

// tables returns the rows of the tables of nodes that a document can use: that of its pool, or for a base all.
func (s *snapshot) tables(file string) (out []kinds.FactRow) {
	for _, f := range s.files("pools") {
		if path.Base(f) != kinds.NodeFactsFile || !strings.HasPrefix(file, path.Dir(f)+"/") &&
			strings.HasPrefix(file, "pools/") {
			continue
		}
		if rows, ok, _ := kinds.ReadNodeFacts(f, []byte(s.text(f))); ok {
			out = append(out, rows...)
		}
	}
	return out
}

// maxValues is how many values of a fact a hover lists.
const maxValues = 10

// factText lists the values of a fact.
func (s *snapshot) factText(file, name string) string {
	var b strings.Builder
	count := 0
	for _, row := range s.tables(file) {
		for _, c := range row.Cells {
			if c.Fact != name {
				continue
			}
			if count++; count <= maxValues {
				fmt.Fprintf(&b, "\n- %s on node %s", code(c.Value), code(row.Node))
			}
		}
	}
	switch {
	case name == "name":
		return "the name of the node"
	case count == 0:
		return "fact " + code(name) + ": no table of nodes has it"
	case count > maxValues:
		fmt.Fprintf(&b, "\n- and on %d more", count-maxValues)
	}
	return "fact " + code(name) + "\n" + b.String()
}

// factPlaces returns where the tables of nodes have a fact.
func (s *snapshot) factPlaces(file, name string) (out []origin.Pos) {
	for _, row := range s.tables(file) {
		for _, c := range row.Cells {
			if c.Fact == name {
				out = appendNew(out, c.At)
			}
		}
	}
	return out
}
