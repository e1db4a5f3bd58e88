package arch

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Repo is the project as the rules read it: parsed sources without type information.
type Repo struct {
	// Module is the root module's path, e.g. "github.com/bunsen-os/bunsen".
	Module string
	// Packages are the packages of every module, sorted by directory.
	Packages []Package
	// Links has the packages that each guarded binary links, directly or indirectly, by the binary's directory. A
	// guarded binary without an entry is not built yet.
	Links map[string][]Linked
}

// Package is one directory of Go files.
type Package struct {
	// Dir is the slash path below the root, e.g. "source/git"; "." for the root itself.
	Dir string
	// Module is the directory of the module it belongs to; "." for the root module.
	Module string
	// Name is the package clause, without the _test of an external test.
	Name string
	// Files are sorted by path.
	Files []File
}

// File is one parsed Go file.
type File struct {
	// Path is the slash path below the root.
	Path string
	// Test is true for _test.go files; Generated for files marked "DO NOT EDIT".
	Test, Generated bool
	// Source is the file as it was read.
	Source []byte
	// Lines counts all lines of the file, also blank ones and comments.
	Lines int
	// Syntax includes the file's comments. Fset has its positions.
	Syntax *ast.File
	// Fset belongs to Syntax.
	Fset *token.FileSet
}

// Linked is one package in a binary.
type Linked struct {
	// Path is the import path; Module the module's path, empty for the standard library.
	Path, Module string
}

// Violation is one broken rule at one place.
type Violation struct {
	// Rule is the rule's name in exemptions.txt.
	Rule string
	// Subject says what breaks the rule. It has no spaces and no line number, so that an exemption stays valid when the
	// code moves.
	Subject string
	// Where is path:line of the violation.
	Where string
	// Message says what is wrong, why the rule exists, and what to do.
	Message string
}

// String prints the violation as one line of a report.
func (v Violation) String() string {
	return fmt.Sprintf("%s: %s [%s %s]", v.Where, v.Message, v.Rule, v.Subject)
}

// sorted orders violations by file, line and rule, so that reports and goldens are stable.
func sorted(vs []Violation) []Violation {
	slices.SortStableFunc(vs, func(a, b Violation) int {
		fileA, lineA := place(a.Where)
		fileB, lineB := place(b.Where)
		return cmp.Or(cmp.Compare(fileA, fileB), cmp.Compare(lineA, lineB), cmp.Compare(a.Rule, b.Rule),
			cmp.Compare(a.Subject, b.Subject))
	})
	return vs
}

// place splits path:line; a place without a line is on line 0.
func place(where string) (file string, line int) {
	file, number, _ := strings.Cut(where, ":")
	line, _ = strconv.Atoi(number)
	return file, line
}

// where returns path:line of a node.
func (f File) where(n ast.Node) string {
	return fmt.Sprintf("%s:%d", f.Path, f.Fset.Position(n.Pos()).Line)
}

// lines counts the lines from a node's first to its last line.
func (f File) lines(n ast.Node) int {
	return f.Fset.Position(n.End()).Line - f.Fset.Position(n.Pos()).Line + 1
}

// local returns the name that a file uses for an import; "" if the file does not import it.
func (f File) local(importPath string) string {
	for _, spec := range f.Syntax.Imports {
		if unquote(spec) != importPath {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(importPath)
	}
	return ""
}

// production returns the files that ship: no tests, and no generated files.
func (p Package) production() []File {
	return slices.DeleteFunc(slices.Clone(p.Files), func(f File) bool { return f.Test || f.Generated })
}

// where returns the place of a package for violations about the whole package.
func (p Package) where() string {
	if len(p.Files) == 0 {
		return p.Dir
	}
	return p.Files[0].Path + ":1"
}

// inRoot returns the packages of the root module, which the table of rooms covers.
func (r Repo) inRoot() []Package {
	return slices.DeleteFunc(slices.Clone(r.Packages), func(p Package) bool { return p.Module != "." })
}

// ours converts an import path of the root module to its directory.
func (r Repo) ours(importPath string) (dir string, ok bool) {
	if importPath == r.Module {
		return ".", true
	}
	return strings.CutPrefix(importPath, r.Module+"/")
}

func unquote(spec *ast.ImportSpec) string { return strings.Trim(spec.Path.Value, `"`) }
