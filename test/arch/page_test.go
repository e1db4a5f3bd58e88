package arch

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheArchitecturePageNamesFunctionsThatAreCalled: the functions in the table of arrows exist, and product code of
// other packages calls them.
func TestTheArchitecturePageNamesFunctionsThatAreCalled(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	repo, err := Load(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| Arrow | Function |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	if table == "" {
		t.Fatal("ARCHITECTURE.md has no table of arrows")
	}
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "`")
		if len(cells) != 3 {
			t.Errorf("row %q names %d functions, want one", row, len(cells)/2)
			continue
		}
		dir, base := path.Split(cells[1])
		pkg, function, _ := strings.Cut(base, ".")
		dir += pkg
		if !declares(repo, dir, function) {
			t.Errorf("%s: package %s has no function %s", cells[1], dir, function)
		}
		if !isCalled(repo, function[strings.LastIndex(function, ".")+1:]) {
			t.Errorf("%s: product code does not call it", cells[1])
		}
	}
}

// declares reports whether a package has a function, or a method written Type.Method.
func declares(r Repo, dir, function string) bool {
	found := false
	eachDecl(r, func(p Package, _ File, d ast.Decl) {
		fn, ok := d.(*ast.FuncDecl)
		found = found || ok && p.Dir == dir && funcName(fn) == function
	})
	return found
}

// isCalled reports whether product code calls a function or a method of that name.
func isCalled(r Repo, name string) bool {
	found := false
	eachDecl(r, func(p Package, _ File, d ast.Decl) {
		if !isProduct(p) {
			return
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				switch fn := call.Fun.(type) {
				case *ast.SelectorExpr:
					found = found || fn.Sel.Name == name
				case *ast.Ident:
					found = found || fn.Name == name
				}
			}
			return !found
		})
	})
	return found
}
