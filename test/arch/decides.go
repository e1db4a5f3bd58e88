package arch

import (
	"fmt"
	"go/ast"
	"slices"
)

// decided are the types of package disruption for refusals, effects and actions. nodeChecks are the packages that may
// refuse a config for facts that only a host has.
var (
	decided    = []string{"Action", "Change", "Changes", "Costed", "Decision", "Refusal"}
	nodeChecks = []string{"mcd/plan", "mcd/once"}
)

// policyAloneDecides reports code outside of package disruption that creates a refusal, an effect or an action. The
// review and the daemon must agree, so both use the results of package disruption.
func policyAloneDecides(r Repo) []Violation {
	var vs []Violation
	for _, p := range r.Packages {
		if p.Dir == "internal/disruption" || p.Dir == "test" || covers("test/...", p.Dir) {
			continue
		}
		for _, f := range p.production() {
			local := f.local(r.Module + "/internal/disruption")
			if local == "" {
				continue
			}
			ast.Inspect(f.Syntax, func(n ast.Node) bool {
				if name := madeOf(n, local); slices.Contains(decided, name) {
					vs = append(vs, Violation{"decides", f.Path, f.where(n), fmt.Sprintf("a disruption.%s is made "+
						"here: package disruption alone decides refusals, effects and actions, so that the review "+
						"shows what nodes do; ask it", name)})
				}
				return true
			})
			f.eachCall(r.Module+"/internal/disruption", func(sel *ast.SelectorExpr) {
				if sel.Sel.Name == "OnNode" && !slices.Contains(nodeChecks, p.Dir) {
					vs = append(vs, Violation{"decides", f.Path, f.where(sel), "only mcd/plan and " +
						"mcd/once know a host: a refusal from configs alone belongs to package disruption"})
				}
			})
		}
	}
	return vs
}

// madeOf returns the name of a package's type in a composite literal that is not empty: the type of the literal itself,
// or of its items.
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
