package origin

import (
	"fmt"
	"strings"
)

// Pos is a place in the repository. The zero value means unknown.
type Pos struct {
	// File is the path in the repository, from the source's path on.
	File string
	// Line and Column count from 1; 0 means unknown.
	Line, Column int
}

// String returns `file:line:col`, leaving out what is unknown.
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

// File is one repository file that took part in an output.
type File struct {
	// Path in the repository.
	Path string `json:"file"`
	// Blob is the sha256 of the file's contents, hex.
	Blob string `json:"blob"`
}

// Map says where an output came from.
type Map struct {
	// Files that took part, in lexical order of their paths.
	Files []File
	// At maps an output path in the fragment's Ignition (`$.storage.files.2.mode`) to its place. What a MachineConfig
	// says beside its Ignition has its path in the spec (`spec.kernelArguments.0`). Each leaf that stands on a line of its
	// own has an entry; what was read from a local file has that file, its first line or the key's.
	At map[string]Pos
}

// Find returns the place of the output path, or of its nearest parent that has one.
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
