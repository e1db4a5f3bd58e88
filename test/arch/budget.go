package arch

import (
	"fmt"
	"go/ast"
)

// The size limits. They keep a file short enough to read in one session, and a type simple enough to explain in one
// sentence.
const (
	maxFileLines        = 400
	maxFuncLines        = 60
	maxStructFields     = 12
	maxInterfaceMethods = 6
	maxTypeMethods      = 15
	minFreePercent      = 55
)

// filesAreShort reports long files, because a file should answer one question.
func filesAreShort(r Repo) []Violation {
	var vs []Violation
	for _, p := range r.Packages {
		for _, f := range p.production() {
			if f.Lines > maxFileLines {
				vs = append(vs, Violation{
					"file-lines", f.Path, f.Path + ":1",
					fmt.Sprintf("%d lines, at most %d: split it by the questions it answers", f.Lines, maxFileLines),
				})
			}
		}
	}
	return vs
}

// functionsAreShort reports functions that do not fit on a screen.
func functionsAreShort(r Repo) []Violation {
	var vs []Violation
	eachDecl(r, func(p Package, f File, d ast.Decl) {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			return
		}
		if n := f.lines(fn); n > maxFuncLines {
			vs = append(vs, Violation{
				"func-lines", p.Dir + "." + funcName(fn), f.where(fn),
				fmt.Sprintf("%s has %d lines, at most %d: name its parts and call them", funcName(fn), n,
					maxFuncLines),
			})
		}
	})
	return vs
}

// structsAreSmall reports structs with many fields, because they usually combine several concepts.
func structsAreSmall(r Repo) []Violation {
	var vs []Violation
	eachTypeIn(r, func(p Package, f File, name string, t ast.Expr) {
		if s, ok := t.(*ast.StructType); ok && s.Fields.NumFields() > maxStructFields {
			vs = append(vs, Violation{
				"struct-fields", p.Dir + "." + name, f.where(s),
				fmt.Sprintf("a struct in %s has %d fields, at most %d: group the ones that belong together", name,
					s.Fields.NumFields(), maxStructFields),
			})
		}
	})
	return vs
}

// interfacesAreSmall reports large interfaces, because a consumer should declare only the methods that it needs.
func interfacesAreSmall(r Repo) []Violation {
	var vs []Violation
	eachTypeIn(r, func(p Package, f File, name string, t ast.Expr) {
		if i, ok := t.(*ast.InterfaceType); ok {
			if n := methods(p, i, 0); n > maxInterfaceMethods {
				vs = append(vs, Violation{
					"interface-methods", p.Dir + "." + name, f.where(i),
					fmt.Sprintf("an interface in %s has %d methods, at most %d: split it by who calls what", name, n,
						maxInterfaceMethods),
				})
			}
		}
	})
	return vs
}

// methods counts an interface's methods, also those of embedded interfaces of the same package.
func methods(p Package, i *ast.InterfaceType, depth int) int {
	n := 0
	for _, m := range i.Methods.List {
		embedded, isName := m.Type.(*ast.Ident)
		switch inner := p.interfaceNamed(embedded); {
		case len(m.Names) > 0:
			n += len(m.Names)
		case isName && inner != nil && depth < 8:
			n += methods(p, inner, depth+1)
		default:
			n++
		}
	}
	return n
}

func (p Package) interfaceNamed(name *ast.Ident) *ast.InterfaceType {
	if name == nil {
		return nil
	}
	for _, f := range p.Files {
		for _, d := range f.Syntax.Decls {
			for _, t := range typeSpecs(d) {
				if i, ok := t.Type.(*ast.InterfaceType); ok && t.Name.Name == name.Name {
					return i
				}
			}
		}
	}
	return nil
}

// typesDoOneThing reports types with many methods, because they do many things. The methods of a type's wrappers count
// as its own.
func typesDoOneThing(r Repo) []Violation {
	type owner struct{ dir, name string }
	wrapped := map[owner]string{}
	eachDecl(r, func(p Package, _ File, d ast.Decl) {
		for _, t := range typeSpecs(d) {
			if name := p.wrappedType(t); name != "" {
				wrapped[owner{p.Dir, t.Name.Name}] = name
			}
		}
	})
	count := map[owner]int{}
	var vs []Violation
	eachDecl(r, func(p Package, f File, d ast.Decl) {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Recv == nil {
			return
		}
		key := owner{p.Dir, receiver(fn)}
		for depth := 0; wrapped[key] != "" && depth < 8; depth++ {
			key.name = wrapped[key]
		}
		count[key]++
		if count[key] == maxTypeMethods+1 {
			vs = append(vs, Violation{
				"type-methods", p.Dir + "." + key.name, f.where(fn),
				fmt.Sprintf("%s is method number %d of %s, at most %d: give the type fewer jobs", fn.Name.Name,
					maxTypeMethods+1, key.name, maxTypeMethods),
			})
		}
	})
	return vs
}

// wrappedType returns the name of the struct that a type wraps: its only field is that struct of the same package, or a
// pointer to it. It is empty for other types.
func (p Package) wrappedType(t *ast.TypeSpec) string {
	s, ok := t.Type.(*ast.StructType)
	if !ok || s.Fields.NumFields() != 1 {
		return ""
	}
	field := s.Fields.List[0].Type
	if pointer, ok := field.(*ast.StarExpr); ok {
		field = pointer.X
	}
	if name, ok := field.(*ast.Ident); ok && name.Name != t.Name.Name && p.hasStruct(name.Name) {
		return name.Name
	}
	return ""
}

// hasStruct reports whether the package declares a struct of that name.
func (p Package) hasStruct(name string) bool {
	for _, f := range p.production() {
		for _, d := range f.Syntax.Decls {
			for _, t := range typeSpecs(d) {
				if _, ok := t.Type.(*ast.StructType); ok && t.Name.Name == name {
					return true
				}
			}
		}
	}
	return false
}

// mostLinesAreFree requires that most of the program can be tested without I/O.
func mostLinesAreFree(r Repo) []Violation {
	free, all := Lines(r)
	if all == 0 || free*100 >= all*minFreePercent {
		return nil
	}
	return []Violation{{
		"free-lines", "all", "go.mod:1",
		fmt.Sprintf("%d of %d production lines (%d %%) are in rooms free of I/O, at least %d %%: move decisions out "+
			"of shells", free, all, free*100/all, minFreePercent),
	}}
}

// Lines counts the production lines of every module, and those of them in rooms
// free of I/O. Test rooms and tools count for neither.
func Lines(r Repo) (free, all int) {
	for _, p := range r.Packages {
		room, _ := roomOf(Rooms, p.Dir)
		if p.Module == "." && room.Kind == Test || p.Module == "tools" {
			continue
		}
		for _, f := range p.production() {
			all += f.Lines
			if p.Module == "." && room.Kind.free() {
				free += f.Lines
			}
		}
	}
	return free, all
}
