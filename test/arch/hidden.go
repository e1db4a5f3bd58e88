package arch

import (
	"fmt"
	"go/ast"
	"slices"
)

// hiddenTables are the tables and functions of package unicode that can define hidden characters.
var hiddenTables = []string{
	"Bidi_Control", "C", "Cc", "IsControl", "IsPrint", "Other_Default_Ignorable_Code_Point",
	"Variation_Selector", "Zl", "Zp",
}

// hiddenTextIsDefinedOnce reports further definitions of hidden characters. With several definitions, an attacker can
// use the characters that the narrowest one misses.
func hiddenTextIsDefinedOnce(r Repo) []Violation {
	var vs []Violation
	for _, p := range r.inRoot() {
		if p.Dir == "api/safetext" {
			continue
		}
		for _, f := range p.production() {
			f.eachCall("unicode", func(sel *ast.SelectorExpr) {
				if slices.Contains(hiddenTables, sel.Sel.Name) {
					vs = append(vs, Violation{
						"hidden-text", f.Path, f.where(sel),
						fmt.Sprintf("unicode.%s defines hidden characters again: use api/safetext, so that every "+
							"output hides nothing in the same way", sel.Sel.Name),
					})
				}
			})
		}
	}
	return vs
}
