package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sources are the Go files of the programs, by path, without tests.
type sources map[string]*ast.File

// product reads the sources of the programs.
func product(t *testing.T) sources {
	t.Helper()
	rooms := []string{".", "api", "cmd", "internal", "mcd", "mcs", "reconcile", "source", "transpile"}
	out := sources{}
	err := fs.WalkDir(root, ".", func(p string, e fs.DirEntry, err error) error {
		room, _, _ := strings.Cut(p, "/")
		switch {
		case err != nil:
			return err
		case e.IsDir() && (!slices.Contains(rooms, room) || path.Base(p) == "testdata" || strings.HasSuffix(p, "test")):
			return fs.SkipDir
		case e.IsDir() || path.Ext(p) != ".go" || strings.HasSuffix(p, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(root, p)
		if err != nil {
			return err
		}
		out[p], err = parser.ParseFile(token.NewFileSet(), p, text, parser.SkipObjectResolution|parser.ParseComments)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 500 {
		t.Fatalf("only %d files: are the sources read rightly?", len(out))
	}
	return out
}

// camelCase matches the names of conditions, reasons and events.
var camelCase = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)

// constants calls a function with each constant of a package that is in camel case, and with the name of its type.
func (s sources) constants(dir string, each func(name, typeName, value string)) {
	for file, parsed := range s {
		if path.Dir(file) != dir {
			continue
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Names) != len(spec.Values) {
				return true
			}
			typeName := ""
			switch of := spec.Type.(type) {
			case *ast.Ident:
				typeName = of.Name
			case *ast.SelectorExpr:
				typeName = of.Sel.Name
			}
			for i, name := range spec.Names {
				if value := literal(spec.Values[i]); camelCase.MatchString(value) {
					each(name.Name, typeName, value)
				}
			}
			return true
		})
	}
}

// literal returns the text of a literal; empty for everything else.
func literal(x ast.Expr) string {
	of, ok := x.(*ast.BasicLit)
	if !ok || of.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(of.Value)
	if err != nil {
		return ""
	}
	return text
}

// reasons are the condition types, the reasons of conditions and events, and the causes of waiting nodes, each with
// the place in the sources.
func (s sources) reasons() map[string]string {
	out := map[string]string{}
	s.constants("api/v1alpha1", func(name, _, value string) {
		if strings.HasPrefix(name, "Reason") || strings.HasSuffix(name, "Condition") {
			out[value] = "api/v1alpha1." + name
		}
	})
	s.constants("reconcile/status", func(name, typeName, value string) {
		if typeName == "MachineConfigPoolConditionType" {
			out[value] = "reconcile/status." + name
		}
	})
	s.constants("reconcile/rollout/poolstate", func(name, typeName, value string) {
		if typeName == "Cause" {
			out[value] = "reconcile/rollout/poolstate." + name
		}
	})
	s.constants("mcd/report", func(name, typeName, value string) {
		if typeName == "EventReason" {
			out[value] = "mcd/report." + name
		}
	})
	for file, parsed := range s {
		if !strings.HasPrefix(file, "reconcile/") {
			continue
		}
		add := func(name ast.Expr, value ast.Expr) {
			if strings.EqualFold(lastName(name), "reason") && camelCase.MatchString(literal(value)) {
				out[literal(value)] = file
			}
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				add(n.Key, n.Value)
			case *ast.AssignStmt:
				for i := range min(len(n.Lhs), len(n.Rhs)) {
					add(n.Lhs[i], n.Rhs[i])
				}
			}
			return true
		})
	}
	return out
}

// lastName returns the name of a variable or of a field.
func lastName(x ast.Expr) string {
	switch of := x.(type) {
	case *ast.Ident:
		return of.Name
	case *ast.SelectorExpr:
		return of.Sel.Name
	}
	return ""
}

// texts are all texts of the programs.
func (s sources) texts() map[string]bool {
	out := map[string]bool{}
	for _, parsed := range s {
		ast.Inspect(parsed, func(n ast.Node) bool {
			if of, ok := n.(*ast.BasicLit); ok {
				out[literal(of)] = true
			}
			return true
		})
	}
	return out
}

// titles are the first columns of the tables whose names the programs must have.
var titles = []string{"Type", "Event", "Reason", "Kind", "Reason of `Ready`", "Reason of `RenderDegraded`"}

// conditionsPages compares the pages of conditions and events with the sources, and returns what is wrong.
func conditionsPages(pages string, reasons map[string]string, texts map[string]bool) []string {
	var wrong []string
	named := map[string]bool{}
	for _, m := range span.FindAllStringSubmatch(pages, -1) {
		named[m[1]] = true
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		if !named[reason] {
			wrong = append(wrong, reason+" of "+reasons[reason]+" is not on the pages")
		}
	}
	isTable := false
	for row := range strings.Lines(pages) {
		cells := strings.Split(row, "|")
		if len(cells) < 4 {
			isTable = false
			continue
		}
		switch first := strings.TrimSpace(cells[1]); {
		case slices.Contains(titles, first):
			isTable = true
		case isTable:
			for _, cell := range cells[1:3] {
				for _, m := range span.FindAllStringSubmatch(cell, -1) {
					if camelCase.MatchString(m[1]) && !texts[m[1]] && m[1] != "True" && m[1] != "False" {
						wrong = append(wrong, m[1]+" is on the pages, and no program has this text")
					}
				}
			}
		}
	}
	return wrong
}

// TestTheConditionsAreThoseOfThePrograms compares the condition types, reasons and events of the programs with
// docs/conditions.md and docs/events.md, in both directions.
func TestTheConditionsAreThoseOfThePrograms(t *testing.T) {
	all := product(t)
	reasons, texts := all.reasons(), all.texts()
	original := originalTypes(t)
	for _, constant := range original.constants {
		texts[constant] = true // Bunsen uses the constants of the original.
	}
	if len(reasons) < 120 {
		t.Errorf("only %d reasons: are the sources read rightly?", len(reasons))
	}
	var pages string
	for _, file := range []string{"docs/conditions.md", "docs/events.md"} {
		text, err := fs.ReadFile(root, file)
		if err != nil {
			t.Fatal(err)
		}
		pages += string(text) + "\n"
	}
	for _, wrong := range conditionsPages(pages, reasons, texts) {
		t.Errorf("docs/conditions.md, docs/events.md: %s", wrong)
	}
	// Both directions find something if the pages are wrong.
	for change, want := range map[[2]string]string{
		{"`OwnershipConflict`", "`Ownership`"}: "OwnershipConflict of api/v1alpha1.ReasonConflict is not on the pages",
		{"`DrainBlocked`", "`DrainHindered`"}:  "DrainHindered is on the pages, and no program has this text",
	} {
		if !strings.Contains(pages, change[0]) {
			t.Errorf("the pages do not have %s", change[0])
		}
		got := conditionsPages(strings.ReplaceAll(pages, change[0], change[1]), reasons, texts)
		if !slices.Contains(got, want) {
			t.Errorf("after changing %s to %s: %q, want %q", change[0], change[1], got, want)
		}
	}
}
