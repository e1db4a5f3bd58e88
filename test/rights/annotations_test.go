package rights

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// TestThePoliciesHaveTheTableOfAnnotations compares the lists of the policies with v1alpha1.NodeAnnotations.
func TestThePoliciesHaveTheTableOfAnnotations(t *testing.T) {
	is := map[string][]string{}
	forms := map[string]string{}
	for file, variables := range map[string][]string{
		"nodes-admission.yaml":      {"reports", "registration", "forms"},
		"controller-admission.yaml": {"foreignAnnotations"},
	} {
		raw, err := os.ReadFile(filepath.Join("..", "..", "config", "rbac", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range variables {
			_, text, _ := strings.Cut(string(raw), "- name: "+name+"\n")
			text, _, _ = strings.Cut(text, "\n    - name:")
			for _, m := range regexp.MustCompile(`'([a-z.-]+/[A-Za-z-]+)'(: '(.*)')?`).FindAllStringSubmatch(text, -1) {
				is[name] = append(is[name], m[1])
				if m[2] != "" {
					forms[m[1]] = m[3]
				}
			}
			slices.Sort(is[name])
			is[name] = slices.Compact(is[name])
		}
	}
	want, shapes := map[string][]string{"foreignAnnotations": v1alpha1.ScaleDownAnnotations()}, map[string]string{}
	for _, a := range v1alpha1.NodeAnnotations() {
		add := func(name string, has bool) {
			if has {
				want[name] = append(want[name], a.Key)
			}
		}
		add("reports", a.Writer == v1alpha1.DaemonWriter)
		// currentConfig and desiredConfig also decide whether the first report is over.
		add("registration", a.Registers || a.Writer == v1alpha1.RegistrationWriter || a.Stays)
		add("foreignAnnotations", a.Writer == v1alpha1.ControllerWriter)
		add("forms", a.Form != "")
		if a.Form != "" {
			shapes[a.Key] = a.Form
		}
	}
	for _, keys := range want {
		slices.Sort(keys)
	}
	if diff := cmp.Diff(want, is); diff != "" {
		t.Errorf("config/rbac and api/v1alpha1/nodeannotations.go disagree (-table +policies):\n%s", diff)
	}
	if diff := cmp.Diff(shapes, forms); diff != "" {
		t.Errorf("config/rbac and api/v1alpha1/nodeannotations.go disagree (-table +policies):\n%s", diff)
	}
}

// TestTheDaemonWritesWhatANodeMayWrite finds code of the daemon that writes each annotation that nodes may write, and
// none that writes another one.
func TestTheDaemonWritesWhatANodeMayWrite(t *testing.T) {
	root := filepath.Join("..", "..")
	keys := map[string]string{}
	eachFile(t, filepath.Join(root, "api", "v1alpha1"), func(f *ast.File) { maps.Copy(keys, constants(f)) })
	written := map[string]bool{}
	for _, dir := range []string{"mcd", filepath.Join("cmd", "machine-config-daemon")} {
		eachFile(t, filepath.Join(root, dir), func(f *ast.File) {
			for _, decl := range f.Decls {
				// MissingChanges lists what a Node already says.
				if fn, ok := decl.(*ast.FuncDecl); ok && fn.Name.Name != "MissingChanges" {
					ast.Inspect(fn, func(n ast.Node) bool {
						for _, name := range keysWritten(n) {
							written[keys[name]] = true
						}
						return true
					})
				}
			}
		})
	}
	for _, a := range v1alpha1.NodeAnnotations() {
		may := a.Writer == v1alpha1.DaemonWriter || a.Writer == v1alpha1.RegistrationWriter || a.Registers
		if may != written[a.Key] {
			t.Errorf("a node may write %s: %t; the daemon writes it: %t", a.Key, may, written[a.Key])
		}
	}
}

// keysWritten are the constants of v1alpha1 that are keys of a map that a statement builds or changes.
func keysWritten(n ast.Node) []string {
	var keys []ast.Expr
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		keys = append(keys, n.Key)
	case *ast.AssignStmt:
		for _, left := range n.Lhs {
			if at, ok := left.(*ast.IndexExpr); ok {
				keys = append(keys, at.Index)
			}
		}
	}
	var out []string
	for _, k := range keys {
		if sel, ok := k.(*ast.SelectorExpr); ok {
			if of, ok := sel.X.(*ast.Ident); ok && of.Name == "v1alpha1" {
				out = append(out, sel.Sel.Name)
			}
		}
	}
	return out
}

// constants are the string constants of a file, by name.
func constants(f *ast.File) map[string]string {
	out := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				out[spec.Names[0].Name], _ = strconv.Unquote(lit.Value)
			}
		}
		return true
	})
	return out
}

// eachFile parses the Go files below a directory, except tests.
func eachFile(t *testing.T, dir string, do func(*ast.File)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			do(f)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
