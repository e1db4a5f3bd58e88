package arch

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// nameless are package names that say nothing about what is inside, so everything ends up inside.
var nameless = []string{"util", "utils", "common", "helper", "helpers", "pkg", "misc", "shared", "lib"}

// packagesAreNamed: a package is named after the noun it produces or the thing it touches.
func packagesAreNamed(r Repo) []Violation {
	var vs []Violation
	for _, p := range r.Packages {
		for _, name := range append(strings.Split(p.Dir, "/"), p.Name) {
			if slices.Contains(nameless, name) {
				vs = append(vs, Violation{"package-name", p.Dir, p.where(), fmt.Sprintf("a folder or package named %q belongs to nobody: put the code beside its one user, or name the noun it produces", name)})
				break
			}
		}
	}
	return vs
}

// nothingRunsBeforeMain: no init functions; what must be built is built where it is used.
func nothingRunsBeforeMain(r Repo) []Violation {
	var vs []Violation
	for _, p := range r.Packages {
		for _, f := range p.Files {
			for _, d := range f.Syntax.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && !f.Generated && fn.Recv == nil && fn.Name.Name == "init" {
					vs = append(vs, Violation{"init", f.Path, f.where(fn), "an init function runs unseen and in an order nobody reads: construct the value in cmd, or make a table of it"})
				}
			}
		}
	}
	return vs
}

// testsDoNotSleep: a test that sleeps is slow when right and flaky when not.
// Inside testing/synctest the clock is fake, so sleeping there is fine.
func testsDoNotSleep(r Repo) []Violation {
	var vs []Violation
	for _, p := range r.Packages {
		for _, f := range p.Files {
			if !f.Test || f.local("testing/synctest") != "" {
				continue
			}
			f.eachCall("time", func(sel *ast.SelectorExpr) {
				if sel.Sel.Name == "Sleep" {
					vs = append(vs, Violation{"sleep", f.Path, f.where(sel), "a test sleeps: wait for the event, or use testing/synctest"})
				}
			})
		}
	}
	return vs
}

// thereIsOneLogger: std log has no levels and no keys.
func thereIsOneLogger(r Repo) []Violation {
	var vs []Violation
	for _, p := range r.Packages {
		for _, f := range p.production() {
			for _, spec := range f.Syntax.Imports {
				if unquote(spec) == "log" {
					vs = append(vs, Violation{"log", f.Path, f.where(spec), "package log has no levels and no keys: log/slog is the one logger, and only shells log"})
				}
			}
		}
	}
	return vs
}
