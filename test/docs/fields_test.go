package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// originalAPI is the module with the API that Bunsen shares with the original.
const originalAPI = "github.com/openshift/api"

// original has the types of the original's API of machine configs.
type original struct {
	// kinds are the types that have a list.
	kinds []string
	// structs are all structs by name.
	structs map[string]*ast.StructType
	// constants are the texts of constants.
	constants []string
}

// originalTypes reads the sources of the module of originalAPI that go.mod names.
func originalTypes(t *testing.T) original {
	t.Helper()
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", originalAPI)
	list.Dir = "../.."
	dir, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v", list.Args, err)
	}
	out := original{structs: map[string]*ast.StructType{}}
	for _, pkg := range []string{"machineconfiguration/v1", "operator/v1"} {
		files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), pkg, "types*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no types: %v", pkg, err)
		}
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			out.add(parsed, pkg == "machineconfiguration/v1")
		}
	}
	out.kinds = slices.DeleteFunc(out.kinds, func(kind string) bool { return out.structs[kind] == nil })
	slices.Sort(out.kinds)
	return out
}

// add adds the types of a file. Of the other packages than that of machine configs, only MachineConfiguration is a kind
// of the original.
func (o *original) add(file *ast.File, machineConfigs bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			if of, ok := n.Type.(*ast.StructType); ok {
				o.structs[n.Name.Name] = of
			}
			if kind, ok := strings.CutSuffix(n.Name.Name, "List"); ok && (machineConfigs ||
				kind == "MachineConfiguration") {
				o.kinds = append(o.kinds, kind)
			}
		case *ast.BasicLit:
			if text := literal(n); text != "" {
				o.constants = append(o.constants, text)
			}
		}
		return true
	})
}

// names are the names of fields and the texts in the packages of the programs that import the original's API. Two
// fields of one name cannot be told apart: the types would say which one is meant, and would take minutes.
func (s sources) names() map[string]bool {
	imports := map[string]bool{}
	for file, parsed := range s {
		for _, i := range parsed.Imports {
			dir := path.Dir(file)
			imports[dir] = imports[dir] || strings.HasPrefix(i.Path.Value, `"`+originalAPI+"/")
		}
	}
	used := map[string]bool{}
	for file, parsed := range s {
		if !imports[path.Dir(file)] {
			continue
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				used[n.Sel.Name] = true
			case *ast.KeyValueExpr:
				used[lastName(n.Key)] = true
			case *ast.BasicLit:
				used[literal(n)] = true
			}
			return true
		})
	}
	return used
}

// ignored returns the paths of the fields of a type that are not used, without the fields below them.
func (o original) ignored(used map[string]bool, typeName, at string) []string {
	var out []string
	for _, f := range o.structs[typeName].Fields.List {
		tag, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			continue
		}
		name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		to := strings.Trim(at+"."+name, ".")
		below := element(f.Type)
		switch {
		case len(f.Names) == 1 && !used[f.Names[0].Name]:
			out = append(out, to)
		case o.structs[below] != nil && !slices.Contains(strings.Split(at, "."), name):
			out = append(out, o.ignored(used, below, to)...)
		}
	}
	return out
}

// element returns the name of the type in pointers, lists and maps; empty for a type of another package.
func element(t ast.Expr) string {
	switch of := t.(type) {
	case *ast.StarExpr:
		return element(of.X)
	case *ast.ArrayType:
		return element(of.Elt)
	case *ast.MapType:
		return element(of.Value)
	case *ast.Ident:
		return of.Name
	}
	return ""
}

// ignoredOf matches a row of the table of kinds in docs/differences.md.
var ignoredOf = regexp.MustCompile(`(?m)^\| ([A-Z][A-Za-z]+) \| (yes|no) \| (.*) \|$`)

// differencesPage compares the table of kinds in docs/differences.md with the original's API, and returns what is
// wrong.
func differencesPage(page string, o original, used map[string]bool) []string {
	var wrong []string
	rows := map[string][]string{}
	for _, m := range ignoredOf.FindAllStringSubmatch(page, -1) {
		rows[m[1]] = m[2:]
		if !slices.Contains(o.kinds, m[1]) {
			wrong = append(wrong, m[1]+" is no kind of the original")
		}
	}
	for _, kind := range o.kinds {
		row := rows[kind]
		var want []string
		if used[kind] {
			want = o.ignored(used, kind, "")
		}
		answer := map[bool]string{true: "yes", false: "no"}[used[kind]]
		if row == nil {
			wrong = append(wrong, fmt.Sprintf("%s has no row: %s, and ignored are %q", kind, answer, want))
			continue
		}
		if row[0] != answer {
			wrong = append(wrong, fmt.Sprintf("%s: the page says %s, and the programs say %s", kind, row[0], answer))
		}
		var got []string
		for _, m := range span.FindAllStringSubmatch(row[1], -1) {
			got = append(got, m[1])
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			wrong = append(wrong, fmt.Sprintf("%s: the page says that %q are ignored, and the programs ignore %q", kind,
				got, want))
		}
	}
	return wrong
}

// TestTheDifferencesNameWhatIsIgnored: docs/differences.md says which kinds and fields of the original's API Bunsen
// ignores.
func TestTheDifferencesNameWhatIsIgnored(t *testing.T) {
	o, used := originalTypes(t), product(t).names()
	if len(o.kinds) < 10 || len(used) < 1000 {
		t.Fatalf("%d kinds and %d names: are the sources read rightly?", len(o.kinds), len(used))
	}
	text, err := fs.ReadFile(root, "docs/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, wrong := range differencesPage(page, o, used) {
		t.Errorf("docs/differences.md: %s", wrong)
	}
	// A row that is wrong, and a row that is missing, are found.
	for change, want := range map[[2]string]string{
		{"`spec.osImageStream`, ", ""}:                        "MachineConfigPool: the page says",
		{"| KubeletConfig | yes |", "| K | yes |"}:            "KubeletConfig has no row",
		{"| OSImageStream | no |", "| OSImageStream | yes |"}: "OSImageStream: the page says yes",
	} {
		if !strings.Contains(page, change[0]) {
			t.Errorf("the page does not have %q", change[0])
		}
		got := differencesPage(strings.ReplaceAll(page, change[0], change[1]), o, used)
		if !slices.ContainsFunc(got, func(w string) bool { return strings.HasPrefix(w, want) }) {
			t.Errorf("after changing %q to %q: %q, want %q", change[0], change[1], got, want)
		}
	}
}
