package origin

import (
	"cmp"
	"slices"
)

// Finding is one thing to say about one place in the repository. Every step of the chain speaks in findings; the
// last one turns them into the report.
type Finding struct {
	// Warning: the commit is applied all the same. Otherwise nothing of it is.
	Warning bool
	// Rule is a stable name in kebab-case.
	Rule string
	// Message says what is wrong and how to mend it, in one line.
	Message string
	// At is the place; the zero value speaks of the whole tree.
	At Pos
}

// Fatal tells whether any finding is more than a warning.
func Fatal(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return !f.Warning })
}

// Compare orders places by file, line, column.
func (p Pos) Compare(q Pos) int {
	return cmp.Or(cmp.Compare(p.File, q.File), cmp.Compare(p.Line, q.Line), cmp.Compare(p.Column, q.Column))
}

// Through composes two steps: step maps an output path to the input path it was made of, m maps input paths to
// places. What m does not know has its nearest parent's place; what not even a parent has is left out.
func (m Map) Through(step map[string]string) Map {
	out := Map{Files: m.Files, At: make(map[string]Pos, len(step))}
	for to, from := range step {
		if p, ok := m.Find(from); ok {
			out.At[to] = p
		}
	}
	return out
}
