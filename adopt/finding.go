package adopt

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
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
		return oneLine(p.File)
	}
	return fmt.Sprintf("%s:%d", oneLine(p.File), p.Line)
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
		b.WriteString(oneLine(f.Object) + ": ")
	}
	fmt.Fprintf(&b, "%s [%s]", oneLine(f.Message), f.Rule)
	return b.String()
}

func sortFindings(fs []Finding) {
	slices.SortStableFunc(fs, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.At.File, b.At.File), cmp.Compare(a.At.Line, b.At.Line))
	})
}

// oneLine keeps text from an input on its line, and what a terminal would obey out of it.
func oneLine(text string) string {
	if !strings.ContainsFunc(text, hidden) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case !hidden(r):
			b.WriteRune(r)
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteByte(' ')
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// hidden tells of what a terminal does not show as itself.
func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' || r == '\ufeff' || r == unicode.ReplacementChar
}

// few joins names for a message: all of them, or the first ones and how many more there are.
func few(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
