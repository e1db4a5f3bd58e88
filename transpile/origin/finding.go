package origin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Finding is an error or a warning about one position in the repository. The steps of a translation return findings,
// and the last step turns them into the report.
type Finding struct {
	// Warning is true if the controller applies the commit despite the finding. If Warning is false, the controller
	// applies nothing of the commit.
	Warning bool
	// Rule is a stable name in kebab-case.
	Rule string
	// Message says what is wrong and how to fix it, in one line.
	Message string
	// At is the position; the zero value means the whole tree.
	At Pos
}

// Errorf returns a finding that is an error.
func Errorf(at Pos, rule, format string, args ...any) Finding {
	return Finding{Rule: rule, Message: fmt.Sprintf(format, args...), At: at}
}

// Warningf returns a finding that is a warning.
func Warningf(at Pos, rule, format string, args ...any) Finding {
	return Finding{Warning: true, Rule: rule, Message: fmt.Sprintf(format, args...), At: at}
}

// Findings collects findings.
type Findings struct{ List []Finding }

// Add adds findings.
func (f *Findings) Add(more ...Finding) { f.List = append(f.List, more...) }

// Errorf adds an error.
func (f *Findings) Errorf(at Pos, rule, format string, args ...any) {
	f.Add(Errorf(at, rule, format, args...))
}

// Warnf adds a warning.
func (f *Findings) Warnf(at Pos, rule, format string, args ...any) {
	f.Add(Warningf(at, rule, format, args...))
}

// HasErrors reports whether any finding is an error.
func (f *Findings) HasErrors() bool { return Fatal(f.List) }

// Fatal reports whether any finding is an error.
func Fatal(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return !f.Warning })
}

// Compare orders positions by file, line and column.
func (p Pos) Compare(q Pos) int {
	return cmp.Or(cmp.Compare(p.File, q.File), cmp.Compare(p.Line, q.Line), cmp.Compare(p.Column, q.Column))
}

// Through composes two steps: step maps output paths to input paths, and m maps input paths to positions. An input path
// that is not in m has the position of its nearest parent. Through leaves out paths that have no parent in m.
func (m Map) Through(step map[string]string) Map {
	out := Map{Files: m.Files, At: make(map[string]Pos, len(step))}
	for to, from := range step {
		if p, ok := m.Find(from); ok {
			out.At[to] = p
		}
	}
	return out
}

// Pos is a place in the repository. The zero value means unknown.
type Pos struct {
	// File is the path in the repository, relative to the source's path.
	File string
	// Line and Column count from 1; 0 means unknown.
	Line, Column int
}

// String returns `file:line:col`, without unknown parts.
func (p Pos) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	default:
		return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	}
}

// File is one file of the repository from which an output was built.
type File struct {
	// Path is the path of the file in the repository.
	Path string `json:"file"`
	// Blob is the sha256 of the file's contents, hex.
	Blob string `json:"blob"`
}

// Map records where each part of an output comes from.
type Map struct {
	// Files are the files that the output was built from, in lexical order of their paths.
	Files []File
	// At maps an output path in the fragment's Ignition (`$.storage.files.2.mode`) to its position. A field of a
	// MachineConfig outside its Ignition has its path in the spec (`spec.kernelArguments.0`). Each scalar that has its
	// own line has an entry. A value from a local file has the position of that file, or of the key in that file.
	At map[string]Pos
}

// Find returns the position of the output path. If the path has no position, Find returns the position of its nearest
// parent.
func (m Map) Find(path string) (Pos, bool) {
	for {
		if p, ok := m.At[path]; ok {
			return p, true
		}
		i := strings.LastIndexByte(path, '.')
		if i < 0 {
			return Pos{}, false
		}
		path = path[:i]
	}
}
