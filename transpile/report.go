package transpile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Severity is the severity of a report's entry.
type Severity int

const (
	// Warning: the controller applies the commit despite the entry.
	Warning Severity = iota
	// Fatal: the controller applies nothing of the commit.
	Fatal
)

// String names the severity as compilers do: warning or error.
func (s Severity) String() string {
	if s == Fatal {
		return "error"
	}
	return "warning"
}

// Entry is an error or a warning about one position in the repository.
type Entry struct {
	Severity Severity
	// Rule is a stable name in kebab-case, such as `butane`, `remote-base`, `duplicate-name`.
	Rule string
	// Message says what is wrong and how to fix it, in one line.
	Message string
	// File is the path of the file, relative to the source's path.
	File string
	// Line and Column count from 1. Line and Column are 0 if the entry is about the whole file.
	Line, Column int
}

// String returns `file:line:col: error: message [rule]`, without unknown parts.
func (e Entry) String() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
		if e.Column > 0 {
			fmt.Fprintf(&b, ":%d", e.Column)
		}
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	fmt.Fprintf(&b, "%s: %s [%s]", e.Severity, e.Message, e.Rule)
	return b.String()
}

// Report has all errors and warnings of one tree, ordered by file, line, column.
type Report []Entry

// Fatal reports whether any entry is fatal.
func (r Report) Fatal() bool {
	for _, e := range r {
		if e.Severity == Fatal {
			return true
		}
	}
	return false
}

// String returns the entries as text, each in a line of its own.
func (r Report) String() string {
	lines := make([]string, len(r))
	for i, e := range r {
		lines[i] = e.String()
	}
	return strings.Join(lines, "\n")
}

// report sorts findings by file, line and column and drops repetitions.
func report(findings []origin.Finding) Report {
	sorted := slices.Clone(findings)
	slices.SortStableFunc(sorted, func(a, b origin.Finding) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Message, b.Message))
	})
	var out Report
	for _, f := range slices.Compact(sorted) {
		e := Entry{
			Severity: Fatal, Rule: f.Rule, Message: strings.TrimSpace(safetext.OneLine(f.Message)),
			File: f.At.File, Line: f.At.Line, Column: f.At.Column,
		}
		if f.Warning {
			e.Severity = Warning
		}
		out = append(out, e)
	}
	return out
}
