package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/callgraph/rta"
	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/ssa/ssautil"
)

// function is one function or method of the project. The name begins with the directory of the package:
// mcs/join.Token.Format.
type function struct {
	name string
	at   token.Position
}

// unreachable returns the functions of a module that the programs of a pattern cannot reach, and the number of
// functions that these programs link.
func unreachable(ctx context.Context, dir, pattern string) ([]function, int, error) {
	own, err := linked(ctx, dir, pattern)
	if err != nil {
		return nil, 0, err
	}
	program, initial := ssautil.Packages(own, ssa.InstantiateGenerics)
	program.Build()
	reached := reach(roots(initial), isOwn(own))
	var dead []function
	count := 0
	for _, p := range own {
		for object, at := range declared(p) {
			count++
			if !reached[object] {
				dead = append(dead, function{nameOf(object, p.Module.Path), p.Fset.Position(at)})
			}
		}
	}
	slices.SortFunc(dead, func(a, b function) int { return cmp.Compare(a.name, b.name) })
	return dead, count, nil
}

// declared returns the functions and methods of a package with their positions. declared leaves out generated files,
// entry points, and empty unexported methods, because an empty unexported method only marks a type as one of an
// interface.
func declared(p *packages.Package) map[*types.Func]token.Pos {
	out := map[*types.Func]token.Pos{}
	for _, file := range p.Syntax {
		if ast.IsGenerated(file) {
			continue
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Name.Name == "_" {
				continue
			}
			isEntry := f.Recv == nil && (f.Name.Name == "init" || f.Name.Name == "main")
			isMarker := f.Recv != nil && !f.Name.IsExported() && f.Body != nil && len(f.Body.List) == 0
			if !isEntry && !isMarker {
				out[p.TypesInfo.Defs[f.Name].(*types.Func)] = f.Pos()
			}
		}
	}
	return out
}

// linked loads the packages of the module that programs link, with their syntax.
func linked(ctx context.Context, dir, pattern string) ([]*packages.Package, error) {
	config := &packages.Config{
		Context: ctx, Dir: dir,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedModule,
	}
	graph, err := packages.Load(config, pattern)
	if err != nil {
		return nil, fmt.Errorf("listing packages: %w", err)
	}
	paths := map[string]bool{}
	mains := slices.DeleteFunc(graph, func(p *packages.Package) bool { return p.Name != "main" })
	packages.Visit(mains, func(p *packages.Package) bool {
		if p.Module != nil && p.Module.Main {
			paths[p.PkgPath] = true
		}
		return true
	}, nil)
	if len(paths) == 0 {
		return nil, errors.New("there is no program")
	}
	config.Mode = packages.LoadSyntax | packages.NeedModule
	// If any package imports reflect, the analysis needs all types of package reflect. A direct import provides these
	// types.
	config.Overlay = map[string][]byte{filepath.Join(filepath.Dir(mains[0].GoFiles[0]), "import_reflect.go"): []byte(
		"package main\n\nimport _ \"reflect\"\n")}
	own, err := packages.Load(config, slices.Sorted(maps.Keys(paths))...)
	if err != nil {
		return nil, fmt.Errorf("loading packages: %w", err)
	}
	for _, p := range own {
		for _, e := range p.Errors {
			return nil, fmt.Errorf("loading package %q: %w", p.PkgPath, e)
		}
	}
	return own, nil
}

// roots returns the functions that run without a caller in the project.
func roots(initial []*ssa.Package) []*ssa.Function {
	var out []*ssa.Function
	for _, p := range initial {
		out = append(out, p.Func("init"))
		if p.Pkg.Name() == "main" {
			out = append(out, p.Func("main"))
		}
	}
	return out
}

func isOwn(own []*packages.Package) func(types.Type) bool {
	paths := map[string]bool{}
	for _, p := range own {
		paths[p.PkgPath] = true
	}
	return func(t types.Type) bool {
		if pointer, ok := types.Unalias(t).(*types.Pointer); ok {
			t = pointer.Elem()
		}
		named, ok := types.Unalias(t).(*types.Named)
		return ok && named.Obj().Pkg() != nil && paths[named.Obj().Pkg().Path()]
	}
}

// reach returns the declared functions that the roots reach. Rapid type analysis finds the calls in the project, but
// not calls by libraries. So each function that is used as a value becomes a root, and each exported method of a type
// argument becomes a root. The analysis itself makes a root of each exported method of a type whose values become
// interface values.
func reach(roots []*ssa.Function, own func(types.Type) bool) map[*types.Func]bool {
	known := map[*ssa.Function]bool{}
	for {
		result := rta.Analyze(roots, false)
		found := slices.Collect(maps.Keys(result.Reachable))
		before := len(roots)
		for len(found) > 0 {
			f := found[len(found)-1]
			found = found[:len(found)-1]
			if known[f] {
				continue
			}
			known[f] = true
			used := values(f, own)
			roots, found = append(roots, used...), append(found, used...)
		}
		if len(roots) == before {
			return declarations(known)
		}
	}
}

func declarations(functions map[*ssa.Function]bool) map[*types.Func]bool {
	out := map[*types.Func]bool{}
	for f := range functions {
		if object, ok := origin(f).Object().(*types.Func); ok {
			out[object] = true
		}
	}
	return out
}

// origin returns the declaration of an instance of a generic function.
func origin(f *ssa.Function) *ssa.Function {
	if generic := f.Origin(); generic != nil {
		return generic
	}
	return f
}

// values returns the functions that a function calls or passes on, and the methods of type arguments.
func values(f *ssa.Function, own func(types.Type) bool) []*ssa.Function {
	var out []*ssa.Function
	for _, block := range f.Blocks {
		for _, instruction := range block.Instrs {
			for _, operand := range instruction.Operands(nil) {
				g, ok := (*operand).(*ssa.Function)
				if !ok {
					continue
				}
				out = append(out, g)
				for _, t := range g.TypeArgs() {
					if own(t) {
						out = append(out, exportedMethods(f.Prog, t)...)
					}
				}
			}
		}
	}
	return out
}

func exportedMethods(program *ssa.Program, t types.Type) []*ssa.Function {
	var out []*ssa.Function
	for selection := range program.MethodSets.MethodSet(t).Methods() {
		if selection.Obj().Exported() {
			out = append(out, program.MethodValue(selection))
		}
	}
	return out
}

// nameOf returns the name of a function with the directory of its package.
func nameOf(f *types.Func, module string) string {
	_, project, _ := strings.Cut(module, "github.com/bunsen-os/bunsen")
	dir := strings.TrimPrefix(strings.TrimPrefix(f.Pkg().Path(), module), "/")
	dir = strings.TrimPrefix(project+"/"+dir, "/")
	receiver := f.Signature().Recv()
	if receiver == nil {
		return strings.TrimSuffix(dir, "/") + "." + f.Name()
	}
	t := receiver.Type()
	if pointer, ok := t.(*types.Pointer); ok {
		t = pointer.Elem()
	}
	return strings.TrimSuffix(dir, "/") + "." + t.(*types.Named).Obj().Name() + "." + f.Name()
}
