package arch

import (
	"fmt"
	"go/ast"
	"go/doc"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

// TestTheArchitecturePageListsTheRooms: a newcomer finds the place of each package on one page, in the words of its own
// doc.go.
func TestTheArchitecturePageListsTheRooms(t *testing.T) {
	file := filepath.Join(root, "ARCHITECTURE.md")
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	repo, err := Load(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "from the first sentences of doc.go. -->\n", "\n<!-- End of the rooms. -->\n"
	before, rest, ok := strings.Cut(string(page), begin)
	listed, after, hasEnd := strings.Cut(rest, end)
	if !ok || !hasEnd {
		t.Fatal("ARCHITECTURE.md has no place for the rooms")
	}
	want := roomTables(repo)
	if *update {
		if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("ARCHITECTURE.md, -want +got (-update rewrites):\n%s", diff)
	}
}

// floors are the headings of the page, from the ground up, with the directories below each of them. A package is on the
// first floor that covers it.
var floors = []struct {
	title string
	dirs  []string
}{
	{"The ground: words of all processes", []string{
		"api/...", "internal/disruption", "internal/distribution", "internal/download", "internal/membership",
		"internal/schedule", "internal/secretmask", "internal/sops/...",
	}},
	{"From git to fragments", []string{"source/...", "transpile/..."}},
	{"The controller", []string{"reconcile/..."}},
	{"The server", []string{"mcs/...", "internal/fromgit"}},
	{"The daemon", []string{"mcd/..."}},
	{"For people", []string{"internal/...", "config", "examples"}},
	{"Commands", []string{"cmd/...", "standalone"}},
	{"Tests, measurements and tools", []string{"test/...", "bench/...", "tools/..."}},
}

// roomTables returns a table of the packages of each floor.
func roomTables(r Repo) string {
	var b strings.Builder
	for at, floor := range floors {
		fmt.Fprintf(&b, "\n### %s\n\n| Package | Kind | Purpose |\n|---|---|---|\n", floor.title)
		for _, p := range r.Packages {
			on := slices.IndexFunc(floors, func(f struct {
				title string
				dirs  []string
			},
			) bool {
				return coversAny(f.dirs, p.Dir)
			})
			if text := purposeOf(p); on == at && text != "" {
				kind := "–" // of another module
				if room, ok := roomOf(Rooms, p.Dir); ok && p.Module == "." {
					kind = string(room.Kind)
				}
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", p.Dir, strings.ReplaceAll(kind, "*", `\*`), text)
			}
		}
	}
	return b.String()
}

// purposeOf returns the first sentence of a package's comment without its subject; empty without a comment.
func purposeOf(p Package) string {
	for _, f := range p.Files {
		if f.Syntax.Doc == nil {
			continue
		}
		text := new(doc.Package).Synopsis(f.Syntax.Doc.Text())
		for _, subject := range []string{"Package ", "Command "} {
			if rest, ok := strings.CutPrefix(text, subject); ok {
				_, text, _ = strings.Cut(rest, " ")
			}
		}
		return strings.ReplaceAll(strings.TrimSuffix(text, "."), "|", `\|`)
	}
	return ""
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
