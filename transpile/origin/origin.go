package origin

import (
	"fmt"
	"strings"
)

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
