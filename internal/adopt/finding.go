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

// String returns `file:line` on one line, also if the file's name contains line breaks.
func (p Position) String() string {
	if p.Line == 0 {
		return safetext.OneLine(p.File)
	}
	return fmt.Sprintf("%s:%d", safetext.OneLine(p.File), p.Line)
}

// Finding is one result of an import that a user should read.
type Finding struct {
	// Warning marks a finding that a user should check before using the repository. Findings that are no warnings are
	// for information.
	Warning bool
	// Rule is a stable name in kebab-case, such as `encoding`, `secret`, `unsupported`.
	Rule string
	// Message says what Import did and what the user should do, in one line. It never contains contents of files.
	Message string
	// Object is kind and name, such as `MachineConfig 10-worker-chrony`; empty if the finding is about the whole
	// import.
	Object string
	// At is where the object begins.
	At Position
	// Path is the file of the repository that the finding is about, or "".
	Path string
}

// String returns `file:line: warning: object: message [rule]` without its unknown parts.
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

// SortFindings sorts findings by their positions.
func SortFindings(fs []Finding) {
	slices.SortStableFunc(fs, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.At.File, b.At.File), cmp.Compare(a.At.Line, b.At.Line))
	})
}

// FirstNames joins names for a message: all names, or the first ones and the number of the others.
func FirstNames(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
