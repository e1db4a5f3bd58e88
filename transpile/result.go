package transpile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/transpile/cluster"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Result is the result of translating one tree.
type Result struct {
	// Pools are the pools that have a directory, in lexical order. Pools also contains pools without any fragment.
	Pools []string
	// Fragments are the fragments of all pools, ordered by pool, then name; nil if the report is fatal.
	Fragments []Fragment
	// Cluster has the objects of cluster/, ordered by kind, then name; nil if the report is fatal.
	Cluster []ClusterObject
	// Reads maps each pool that has a directory to the files that its fragments were built from, in lexical order and
	// relative to the source's path. The lists contain kustomization files, patches and the files that documents
	// include.
	Reads map[string][]string
	// Report has all errors and warnings.
	Report Report
}

// Fragment is one document of one pool as a MachineConfig, before rendering.
type Fragment struct {
	// Pool is the pool whose directory contains the document.
	Pool string
	// Name is the name of the MachineConfig, such as `10-worker-chrony`.
	Name string
	// MachineConfig is the object to apply. MachineConfig has only a name, the role label, the annotation for secret
	// paths and the spec. The Ignition config in the spec has version 3.5.0, in canonical JSON.
	MachineConfig *mcfgv1.MachineConfig
	// Digest is `sha256:<hex>` of the object's canonical JSON. The digest does not depend on the commit.
	Digest string
	// Contents are the files of the MachineConfig that are in the content store, because they are too large for the
	// object.
	Contents []machineconfig.LargeFile
	// File is the file that declares the document, relative to the source's path. Files other than File may have
	// patched the document.
	File string
	// Documents are the documents of single nodes that the fragment stores, with their origins. Nodes are the positions
	// of the nodes that it is about. Both are empty for other fragments.
	Documents []Fragment
	Nodes     map[string]origin.Pos
	// Node is the node that a document is for; empty for documents of all nodes with facts, and for other fragments.
	Node string
	// Origin maps each value of the fragment to its place in the repository.
	Origin origin.Map
}

// ClusterObject is one object of the repository's `cluster/` directory. The controller applies the object without
// changes.
type ClusterObject = cluster.Object

// ClusterDir is the directory of a repository that contains cluster objects.
const ClusterDir = cluster.Dir

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
