package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
)

// proseFields are the fields with texts for people.
var proseFields = []string{"Message", "Note", "Problem", "Reason", "Why"}

// searches are the functions of package strings that search in a text. patterns are the methods of a regexp that do the
// same.
var (
	searches = []string{
		"Contains", "ContainsAny", "Count", "Cut", "CutPrefix", "CutSuffix", "EqualFold", "HasPrefix",
		"HasSuffix", "Index", "IndexByte", "LastIndex", "LastIndexByte", "Split", "SplitN", "SplitSeq",
	}
	patterns = []string{
		"FindAllString", "FindAllStringSubmatch", "FindString", "FindStringIndex", "FindStringSubmatch",
		"FindStringSubmatchIndex", "MatchString",
	}
)

// factsAreNoProse reports decisions that depend on the words of a message. Such a decision fails after a change of the
// words. A typed error, a reason constant or a field of a record is stable.
func factsAreNoProse(r Repo) []Violation {
	var vs []Violation
	for _, p := range r.Packages {
		if p.Dir == "test" || covers("test/...", p.Dir) || covers("bench/...", p.Dir) {
			continue
		}
		for _, f := range p.production() {
			for _, d := range f.Syntax.Decls {
				prose := proseOf(d)
				ast.Inspect(d, func(n ast.Node) bool {
					call, ok := n.(*ast.CallExpr)
					if !ok {
						return true
					}
					if name := f.search(call); name != "" && prose.has(call.Args[0]) && !cutsLines(call) {
						vs = append(vs, Violation{
							"facts", f.Path, f.where(call),
							fmt.Sprintf("%s looks into a text for people: decide by a typed error, a reason that is "+
								"a word, or a field of a record", name),
						})
					}
					return true
				})
			}
		}
	}
	return vs
}

// search returns the name of the function with which a call searches in a text; "" for any other call.
func (f File) search(call *ast.CallExpr) string {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return ""
	}
	if x, ok := sel.X.(*ast.Ident); ok && x.Name == f.local("strings") && slices.Contains(searches, sel.Sel.Name) {
		return "strings." + sel.Sel.Name
	}
	if slices.Contains(patterns, sel.Sel.Name) {
		return sel.Sel.Name + " of a regexp"
	}
	return ""
}

// cutsLines reports whether a call only searches for line ends. This is layout and no decision.
func cutsLines(call *ast.CallExpr) bool {
	if len(call.Args) < 2 {
		return false
	}
	lit, ok := call.Args[1].(*ast.BasicLit)
	return ok && (lit.Value == `"\n"` || lit.Value == `'\n'`)
}

// proseNames are the variables of a declaration that contain a text for people.
type proseNames map[string]bool

// proseOf returns the variables to which a declaration assigns a text for people.
func proseOf(d ast.Decl) proseNames {
	names := proseNames{}
	ast.Inspect(d, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == len(a.Rhs) &&
			(a.Tok == token.DEFINE || a.Tok == token.ASSIGN) {
			for i, to := range a.Lhs {
				if name, ok := to.(*ast.Ident); ok && names.has(a.Rhs[i]) {
					names[name.Name] = true
				}
			}
		}
		return true
	})
	return names
}

// has reports whether an expression is a text for people. Such an expression is a field of proseFields, an error's
// text, or a variable with one of these. A call that changes only the form of one is also such an expression.
func (names proseNames) has(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.ParenExpr:
		return names.has(x.X)
	case *ast.Ident:
		return names[x.Name]
	case *ast.SelectorExpr:
		return slices.Contains(proseFields, x.Sel.Name)
	case *ast.CallExpr:
		sel, ok := x.Fun.(*ast.SelectorExpr)
		switch {
		case !ok:
			return false
		case len(x.Args) == 0:
			return sel.Sel.Name == "Error"
		}
		pkg, ok := sel.X.(*ast.Ident)
		return ok && pkg.Name == "strings" && slices.Contains([]string{
			"ToLower", "TrimPrefix", "TrimSpace",
			"TrimSuffix",
		}, sel.Sel.Name) && names.has(x.Args[0])
	}
	return false
}
