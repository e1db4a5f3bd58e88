package arch

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// readsByPath are the calls that read what is on a disk, and not what a commit consists of.
var readsByPath = map[string][]string{
	"os":            {"DirFS", "Open", "OpenInRoot", "OpenRoot", "ReadDir", "ReadFile", "Readlink"},
	"path/filepath": {"Glob", "Walk", "WalkDir"},
}

// treeMakers list what a commit consists of, each with source.Inventory.
var treeMakers = []string{"source/git", "source/oci", "source/repository"}

// commitsAreListedOnce reports code that finds the files of a commit in another way than the renderer. With two ways,
// a review, a check or a command reads a link, an ignored file or a nested repository that the cluster does not, or the
// other way round. It looks at all packages that import packages of source; rule std is for pure packages.
func commitsAreListedOnce(r Repo) []Violation {
	var vs []Violation
	for _, p := range r.inRoot() {
		if roomKind(p.Dir) == Test || covers("source/...", p.Dir) || !importsSource(r, p) {
			continue
		}
		for _, f := range p.production() {
			add := func(n ast.Node, message string) {
				vs = append(vs, Violation{"listing", f.Path, f.where(n), message})
			}
			source := f.local(r.Module + "/source")
			ast.Inspect(f.Syntax, func(n ast.Node) bool {
				lit, ok := n.(*ast.CompositeLit)
				if !ok || len(lit.Elts) == 0 {
					return true
				}
				if sel, ok := lit.Type.(*ast.SelectorExpr); ok && sel.Sel.Name == "Tree" && source != "" &&
					fmt.Sprint(sel.X) == source {
					add(n, "a source.Tree comes from "+strings.Join(treeMakers, ", ")+" alone: get it from them")
				}
				return true
			})
			for library, calls := range readsByPath {
				f.eachCall(library, func(sel *ast.SelectorExpr) {
					if slices.Contains(calls, sel.Sel.Name) {
						add(sel, fmt.Sprintf("%s.%s may read what is in no commit: read the FS of a source.Tree, or "+
							"say in exemptions.txt which other files these are", sel.X, sel.Sel.Name))
					}
				})
			}
		}
	}
	return vs
}

// importsSource reports whether a package has to do with commits.
func importsSource(r Repo, p Package) bool {
	return slices.ContainsFunc(p.production(), func(f File) bool {
		return slices.ContainsFunc(f.Syntax.Imports, func(i *ast.ImportSpec) bool {
			dir, ok := r.ours(unquote(i))
			return ok && covers("source/...", dir)
		})
	})
}
