package arch

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// packagesAreDocumented requires that doc.go says what a package is for.
func packagesAreDocumented(r Repo) []Violation {
	var vs []Violation
	for _, p := range r.Packages {
		add := func(where, format string, args ...any) {
			vs = append(vs, Violation{"package-doc", p.Dir, where, fmt.Sprintf(format, args...)})
		}
		documented := slices.DeleteFunc(slices.Clone(p.Files), func(f File) bool { return f.Syntax.Doc == nil })
		switch {
		case len(documented) == 0:
			add(p.where(), "package %s has no package comment: write doc.go, first what it is for, then In:, "+
				"Out:, Never:", p.Dir)
		case len(documented) > 1:
			add(documented[1].Path+":1", "package %s has %d package comments, also in %s: keep the one in doc.go",
				p.Dir, len(documented), documented[0].Path)
		default:
			for _, problem := range docProblems(p, documented[0]) {
				add(documented[0].Path+":1", "%s", problem)
			}
		}
	}
	return vs
}

// docProblems returns the problems of a package's comment.
func docProblems(p Package, f File) []string {
	var problems []string
	if len(p.production()) > 0 && path.Base(f.Path) != "doc.go" {
		problems = append(problems, "the package comment stands in "+path.Base(f.Path)+": move it to doc.go, where "+
			"readers look")
	}
	text := f.Syntax.Doc.Text()
	want := "Package " + p.Name
	got := firstWords(text, 2)
	if command := p.Name == "main" && strings.HasPrefix(got, "Command "); got != want && !command {
		problems = append(problems, fmt.Sprintf("the package comment begins %q: begin it with %q (a command: "+
			"\"Command name\"), as go doc expects", firstWords(text, 3), want))
	}
	if room, ok := roomOf(Rooms, p.Dir); p.Module == "." && ok && room.Kind != Command && room.Kind != Test {
		for _, word := range []string{"In:", "Out:", "Never:"} {
			if !slices.Contains(strings.Fields(text), word) {
				problems = append(problems, fmt.Sprintf("the package comment lacks %q: say what comes in, what goes "+
					"out and what never happens here", word))
			}
		}
	}
	return problems
}

func firstWords(text string, n int) string {
	words := strings.Fields(text)
	return strings.Join(words[:min(n, len(words))], " ")
}

// exportedIsDocumented requires a comment for each exported symbol, because other packages rely on what it says.
func exportedIsDocumented(r Repo) []Violation {
	var vs []Violation
	eachDecl(r, func(p Package, f File, d ast.Decl) {
		if p.Name == "main" {
			return
		}
		for _, u := range undocumented(d) {
			vs = append(vs, Violation{
				"exported-doc", p.Dir + "." + u.name, f.where(u.at),
				fmt.Sprintf("%s is exported and has no comment: say what it means, its units, its errors", u.name),
			})
		}
	})
	return vs
}

type symbol struct {
	name string
	at   ast.Node
}

// undocumented lists a declaration's exported names without a comment.
func undocumented(d ast.Decl) []symbol {
	var found []symbol
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d))) {
			found = append(found, symbol{funcName(d), d})
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
					found = append(found, symbol{s.Name.Name, s})
				}
				found = append(found, undocumentedMethods(s)...)
			case *ast.ValueSpec:
				if d.Doc == nil && s.Doc == nil && s.Comment == nil && s.Names[0].IsExported() {
					found = append(found, symbol{s.Names[0].Name, s})
				}
			}
		}
	}
	return found
}

// undocumentedMethods lists the methods of an exported interface without a comment.
func undocumentedMethods(s *ast.TypeSpec) []symbol {
	i, ok := s.Type.(*ast.InterfaceType)
	if !ok || !s.Name.IsExported() {
		return nil
	}
	var found []symbol
	for _, m := range i.Methods.List {
		if len(m.Names) > 0 && m.Names[0].IsExported() && m.Doc == nil && m.Comment == nil {
			found = append(found, symbol{s.Name.Name + "." + m.Names[0].Name, m})
		}
	}
	return found
}

// controllersSayWhatTheyTouch requires that a controller's comment lists what it reads and what it writes.
func controllersSayWhatTheyTouch(r Repo) []Violation {
	var vs []Violation
	for _, p := range r.Packages {
		if !covers("reconcile/...", p.Dir) || p.Module != "." {
			continue
		}
		for _, c := range controllers(p) {
			for _, word := range []string{"Reads:", "Writes:"} {
				if !hasLine(c.doc, word) {
					vs = append(vs, Violation{
						"controller-doc", p.Dir + "." + c.name, c.where,
						fmt.Sprintf("controller %s has no line %q in its comment: name the kinds that it "+
							"touches", c.name, word),
					})
				}
			}
		}
	}
	return vs
}

type controller struct{ name, doc, where string }

// controllers returns the types with a method Reconcile.
func controllers(p Package) []controller {
	reconcilers := map[string]bool{}
	for _, f := range p.production() {
		for _, d := range f.Syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && fn.Name.Name == "Reconcile" {
				reconcilers[receiver(fn)] = true
			}
		}
	}
	var found []controller
	for _, f := range p.production() {
		for _, d := range f.Syntax.Decls {
			for _, t := range typeSpecs(d) {
				if reconcilers[t.Name.Name] {
					doc := t.Doc.Text() + d.(*ast.GenDecl).Doc.Text()
					found = append(found, controller{t.Name.Name, doc, f.where(t)})
				}
			}
		}
	}
	return found
}

func hasLine(doc, word string) bool {
	for line := range strings.Lines(doc) {
		if strings.HasPrefix(strings.TrimSpace(line), word) {
			return true
		}
	}
	return false
}
