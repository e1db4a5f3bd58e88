package arch

import (
	"go/ast"
)

// rebootsHere has the one function that requests a reboot, and the check before it.
const rebootsHere, rebootFunc = "mcd/apply", "reboot"

// oneFunctionReboots reports code of the daemon that reaches a Reboot method in another function than the one that
// first asks whether the node is still drained. A Reboot method that hands the request on is no other way, because only
// that function calls it.
func oneFunctionReboots(r Repo) []Violation {
	var vs []Violation
	for _, p := range r.inRoot() {
		if side(p.Dir) != "mcd" && p.Dir != Daemon || roomKind(p.Dir) == Test {
			continue
		}
		for _, f := range p.production() {
			imported := map[string]bool{}
			for _, i := range f.Syntax.Imports {
				imported[f.local(unquote(i))] = true
			}
			for _, decl := range f.Syntax.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if ok && (p.Dir == rebootsHere && fn.Name.Name == rebootFunc || fn.Recv != nil && fn.Name.Name == "Reboot") {
					continue
				}
				for _, sel := range reboots(decl, imported) {
					vs = append(vs, Violation{
						"reboot", f.Path, f.where(sel), "a reboot is requested here: only the function " + rebootFunc +
							" of " + rebootsHere + " may, because it asks whether the node is still drained; return " +
							"what should happen, or call it",
					})
				}
			}
		}
	}
	return vs
}

// reboots returns where a declaration reaches a Reboot method of two parameters: a context, and why. A name of an
// imported package is no method, and a method of one parameter counts reboots.
func reboots(decl ast.Decl, imported map[string]bool) (all []*ast.SelectorExpr) {
	counted := map[*ast.SelectorExpr]bool{}
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && len(n.Args) == 1 {
				counted[sel] = true
			}
		case *ast.SelectorExpr:
			x, isName := n.X.(*ast.Ident)
			if n.Sel.Name == "Reboot" && !counted[n] && !(isName && imported[x.Name]) {
				all = append(all, n)
			}
		}
		return true
	})
	return all
}
