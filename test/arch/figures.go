package arch

import (
	"cmp"
	"fmt"
	"go/ast"
	"io"
	"maps"
	"slices"
	"strings"
)

// Figures prints what the sources measure, for people: nothing fails by these numbers. The medians are those of product
// files and functions.
func Figures(w io.Writer, r Repo) {
	f := measured(r)
	row := func(name string, format string, args ...any) {
		fmt.Fprintf(w, "%-28s "+format+"\n", append([]any{name}, args...)...)
	}
	row("packages", "%d, %d of them ship", len(r.Packages), f.packages)
	row("files", "%d, with tests %d; a file has %d lines in the median", len(f.files), f.allFiles, median(f.files))
	row("lines", "%d, with tests %d; %d %% are in rooms free of I/O", sum(f.files), f.allLines,
		100*f.freeLines/max(1, sum(f.files)))
	row("functions", "%d; a function has %d lines in the median, the longest %d", len(f.functions),
		median(f.functions), slices.Max(append(f.functions, 0)))
	row("packages with one importer", "%d", f.oneImporter)
	row("methods in disguise", "%d functions take a struct of their package first, by pointer", len(f.disguised))
	fmt.Fprintln(w, "\nlongest packages")
	largest(w, f.packageLines)
	fmt.Fprintln(w, "\nlongest files")
	largest(w, f.fileLines)
	fmt.Fprintln(w, "\ntypes with most methods")
	largest(w, f.methods)
	fmt.Fprintln(w, "\nlongest lines, in columns")
	largest(w, f.lines)
}

// figures are the numbers of the product, and the names behind them.
type figures struct {
	packages, allFiles, allLines, freeLines, oneImporter int
	files, functions                                     []int
	disguised                                            []string
	packageLines, fileLines, methods, lines              map[string]int
}

func measured(r Repo) figures {
	f := figures{
		packageLines: map[string]int{}, fileLines: map[string]int{}, methods: map[string]int{},
		lines: map[string]int{},
	}
	importers := map[string]int{}
	for _, p := range r.Packages {
		f.addFiles(p)
		if isProduct(p) {
			f.packages++
			for dir := range importedRooms(r, p) {
				importers[dir]++
			}
		}
	}
	for _, n := range importers {
		if n == 1 {
			f.oneImporter++
		}
	}
	eachDecl(r, func(p Package, file File, d ast.Decl) {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || !isProduct(p) {
			return
		}
		f.functions = append(f.functions, file.lines(fn))
		if fn.Recv != nil {
			f.methods[p.Dir+"."+receiver(fn)]++
		} else if p.isDisguised(fn) {
			f.disguised = append(f.disguised, p.Dir+"."+fn.Name.Name)
		}
	})
	return f
}

func (f *figures) addFiles(p Package) {
	for _, file := range p.Files {
		f.allFiles++
		f.allLines += file.Lines
		for i, line := range strings.Split(string(file.Source), "\n") {
			if n := columns(line); n > maxColumns && !file.Generated {
				f.lines[fmt.Sprintf("%s:%d", file.Path, i+1)] = n
			}
		}
	}
	if !isProduct(p) {
		return
	}
	for _, file := range p.production() {
		f.files = append(f.files, file.Lines)
		f.fileLines[file.Path] = file.Lines
		f.packageLines[p.Dir] += file.Lines
		if room, _ := roomOf(Rooms, p.Dir); room.kindOf(file.Path).free() && p.Module == "." {
			f.freeLines += file.Lines
		}
	}
}

// importedRooms returns the packages of the project that a package's product files import.
func importedRooms(r Repo, p Package) map[string]bool {
	dirs := map[string]bool{}
	for _, file := range p.production() {
		for _, spec := range file.Syntax.Imports {
			if dir, ok := r.ours(unquote(spec)); ok {
				dirs[dir] = true
			}
		}
	}
	return dirs
}

// isDisguised reports whether a function is a method in all but its form: its first parameter, beside a context, is a
// pointer to a struct of its own package.
func (p Package) isDisguised(fn *ast.FuncDecl) bool {
	for _, field := range fn.Type.Params.List {
		if sel, ok := field.Type.(*ast.SelectorExpr); ok && sel.Sel.Name == "Context" {
			continue
		}
		pointer, ok := field.Type.(*ast.StarExpr)
		if !ok {
			return false
		}
		name, ok := pointer.X.(*ast.Ident)
		return ok && p.hasStruct(name.Name)
	}
	return false
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

// largest prints the ten largest numbers with their names.
func largest(w io.Writer, numbers map[string]int) {
	names := slices.SortedFunc(maps.Keys(numbers), func(a, b string) int {
		return cmp.Or(cmp.Compare(numbers[b], numbers[a]), cmp.Compare(a, b))
	})
	for _, name := range names[:min(10, len(names))] {
		fmt.Fprintf(w, "%7d  %s\n", numbers[name], name)
	}
}

func median(numbers []int) int {
	if len(numbers) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(numbers))
	return s[len(s)/2]
}

func sum(numbers []int) int {
	n := 0
	for _, x := range numbers {
		n += x
	}
	return n
}

// isProduct reports whether a package ships. Test rooms, benchmarks, examples and tools do not ship.
func isProduct(p Package) bool {
	room, _ := roomOf(Rooms, p.Dir)
	return (p.Module == "." || p.Module == "standalone") && room.Kind != Test
}
