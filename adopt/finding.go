package adopt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
)

// Position is a place in an input.
type Position struct {
	// File is the input's name as the caller gave it.
	File string
	// Line counts from 1; 0 means the whole file.
	Line int
}

// String returns `file:line`, on one line whatever the file is called.
func (p Position) String() string {
	if p.Line == 0 {
		return safetext.OneLine(p.File)
	}
	return fmt.Sprintf("%s:%d", safetext.OneLine(p.File), p.Line)
}

// Finding is one thing that a person should know about an import.
type Finding struct {
	// Warning marks what needs a look before the repository is used; the rest is for information.
	Warning bool
	// Rule is a stable name in kebab-case, such as `encoding`, `secret`, `unsupported`.
	Rule string
	// Message says what was done and what to do, in one line. It never holds contents of files.
	Message string
	// Object is kind and name, such as `MachineConfig 10-worker-chrony`; empty where the finding is about the whole.
	Object string
	// At is where the object begins.
	At Position
	// Path is the file of the repository that the finding is about, or "".
	Path string
}

// String returns `file:line: warning: object: message [rule]`, leaving out what is not known.
func (f Finding) String() string {
	var b strings.Builder
	if f.At.File != "" {
		b.WriteString(f.At.String() + ": ")
	}
	if f.Warning {
		b.WriteString("warning: ")
	} else {
		b.WriteString("note: ")
	}
	if f.Object != "" {
		b.WriteString(safetext.OneLine(f.Object) + ": ")
	}
	fmt.Fprintf(&b, "%s [%s]", safetext.OneLine(f.Message), f.Rule)
	return b.String()
}

func sortFindings(fs []Finding) {
	slices.SortStableFunc(fs, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.At.File, b.At.File), cmp.Compare(a.At.Line, b.At.Line))
	})
}

// few joins names for a message: all of them, or the first ones and how many more there are.
func few(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
