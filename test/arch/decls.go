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

// eachTypeIn calls f for every struct and interface in production code, under the name of the enclosing declaration.
func eachTypeIn(r Repo, f func(p Package, file File, name string, t ast.Expr)) {
	eachDecl(r, func(p Package, file File, d ast.Decl) {
		name := declName(d)
		ast.Inspect(d, func(n ast.Node) bool {
			switch t := n.(type) {
			case *ast.TypeSpec:
				name = t.Name.Name
			case *ast.StructType:
				f(p, file, name, t)
			case *ast.InterfaceType:
				f(p, file, name, t)
			}
			return true
		})
	})
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

// declName returns the name of a declaration for a report.
func declName(d ast.Decl) string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return funcName(d)
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if v, ok := s.(*ast.ValueSpec); ok {
				return v.Names[0].Name
			}
		}
	}
	return ""
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
