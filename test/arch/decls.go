package arch

import (
	"go/ast"
	"go/token"
)

// eachDecl calls f for every top-level declaration of production code in every module.
func eachDecl(r Repo, f func(Package, File, ast.Decl)) {
	for _, p := range r.Packages {
		for _, file := range p.production() {
			for _, d := range file.Syntax.Decls {
				f(p, file, d)
			}
		}
	}
}

// typeSpecs lists the types of a declaration; nil if it declares none.
func typeSpecs(d ast.Decl) []*ast.TypeSpec {
	gen, ok := d.(*ast.GenDecl)
	if !ok || gen.Tok != token.TYPE {
		return nil
	}
	var specs []*ast.TypeSpec
	for _, s := range gen.Specs {
		specs = append(specs, s.(*ast.TypeSpec))
	}
	return specs
}

// funcName returns Name, or Type.Name for a method.
func funcName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	return receiver(fn) + "." + fn.Name.Name
}

// receiver returns the name of a method's type, without pointer and type parameters.
func receiver(fn *ast.FuncDecl) string {
	t := fn.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.ParenExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
