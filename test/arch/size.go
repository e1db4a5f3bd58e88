package arch

import (
	"fmt"
	"go/ast"
	"go/token"
)

// The limits for packages, and for functions in addition to their length.
const (
	maxPackageLines = 2000
	maxComplexity   = 15
	maxParameters   = 4
)

// isProduct reports whether a package ships. Test rooms, benchmarks, examples and tools do not ship.
func isProduct(p Package) bool {
	room, _ := roomOf(Rooms, p.Dir)
	return (p.Module == "." || p.Module == "standalone") && room.Kind != Test
}

// packagesAreSmall reports packages that a newcomer cannot read in an hour.
func packagesAreSmall(r Repo) []Violation {
	var vs []Violation
	for _, p := range r.Packages {
		if !isProduct(p) {
			continue
		}
		lines := 0
		for _, f := range p.production() {
			lines += f.Lines
		}
		if lines > maxPackageLines {
			vs = append(vs, Violation{
				"package-lines", p.Dir, p.where(),
				fmt.Sprintf("package %s has %d lines, at most %d: split it by what its parts are for", p.Name, lines,
					maxPackageLines),
			})
		}
	}
	return vs
}

// functionsAreSimple reports functions with too many paths to remember.
func functionsAreSimple(r Repo) []Violation {
	var vs []Violation
	eachDecl(r, func(p Package, f File, d ast.Decl) {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil || !isProduct(p) {
			return
		}
		if n := complexity(fn); n > maxComplexity {
			vs = append(vs, Violation{
				"complexity", p.Dir + "." + funcName(fn), f.where(fn),
				fmt.Sprintf("%s has a cyclomatic complexity of %d, at most %d: give its cases names or a table",
					funcName(fn), n, maxComplexity),
			})
		}
	})
	return vs
}

// complexity returns the cyclomatic complexity of a function: one, and one for each branch, loop, case, && and ||, also
// in function literals.
func complexity(fn *ast.FuncDecl) int {
	n := 1
	ast.Inspect(fn.Body, func(node ast.Node) bool {
		switch x := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if x.List != nil {
				n++
			}
		case *ast.CommClause:
			if x.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if x.Op == token.LAND || x.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

// functionsTakeFewParameters reports functions with too many parameters. A context does not count, because it is always
// the first parameter.
func functionsTakeFewParameters(r Repo) []Violation {
	var vs []Violation
	eachDecl(r, func(p Package, f File, d ast.Decl) {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || !isProduct(p) {
			return
		}
		n := 0
		for _, field := range fn.Type.Params.List {
			if !isContext(f, field.Type) {
				n += max(1, len(field.Names))
			}
		}
		if n > maxParameters {
			vs = append(vs, Violation{
				"parameters", p.Dir + "." + funcName(fn), f.where(fn),
				fmt.Sprintf("%s takes %d parameters, at most %d beside a context: group the ones that belong together",
					funcName(fn), n, maxParameters),
			})
		}
	})
	return vs
}

// isContext reports whether a type is context.Context.
func isContext(f File, t ast.Expr) bool {
	sel, ok := t.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != "Context" {
		return false
	}
	name, ok := sel.X.(*ast.Ident)
	return ok && name.Name == f.local("context")
}
