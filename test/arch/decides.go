package arch

import (
	"fmt"
	"go/ast"
	"slices"
)

// decided are the types of package policy in which refusals, effects and actions are said, and nodeChecks the rooms that may
// refuse what only a host can know.
var (
	decided    = []string{"Action", "Change", "Changes", "Costed", "Decision", "Refusal"}
	nodeChecks = []string{"mcd/plan", "mcd/once"}
)

// policyAloneDecides: what the review says and what the daemon does come from one place, so nobody else makes a refusal, an
// effect or an action of his own.
func policyAloneDecides(r Repo) []Violation {
	var vs []Violation
	for _, p := range r.Packages {
		if p.Dir == "policy" || p.Dir == "test" || covers("test/...", p.Dir) {
			continue
		}
		for _, f := range p.production() {
			local := f.local(r.Module + "/policy")
			if local == "" {
				continue
			}
			ast.Inspect(f.Syntax, func(n ast.Node) bool {
				if name := madeOf(n, local); slices.Contains(decided, name) {
					vs = append(vs, Violation{"decides", f.Path, f.where(n), fmt.Sprintf("a policy.%s is made here: package policy alone decides refusals, effects and actions, so that the review shows what nodes do; ask it", name)})
				}
				return true
			})
			f.eachCall(r.Module+"/policy", func(sel *ast.SelectorExpr) {
				if sel.Sel.Name == "OnNode" && !slices.Contains(nodeChecks, p.Dir) {
					vs = append(vs, Violation{"decides", f.Path, f.where(sel), "only mcd/plan and mcd/once know a host: a refusal from configs alone belongs to package policy"})
				}
			})
		}
	}
	return vs
}

// madeOf is the type of a package in a composite literal that has anything in it: of the literal itself, or of its items.
func madeOf(n ast.Node, local string) string {
	lit, ok := n.(*ast.CompositeLit)
	if !ok || len(lit.Elts) == 0 {
		return ""
	}
	of := lit.Type
	if list, ok := of.(*ast.ArrayType); ok {
		of = list.Elt
	}
	sel, ok := of.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if x, ok := sel.X.(*ast.Ident); !ok || x.Name != local {
		return ""
	}
	return sel.Sel.Name
}
