package arch

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// nameless are package names without a meaning. Such a package attracts unrelated code.
var nameless = []string{"util", "utils", "common", "helper", "helpers", "pkg", "misc", "shared", "lib"}

// packagesAreNamed requires that a package's name is the noun that it produces or accesses.
func packagesAreNamed(r Repo) []Violation {
	var vs []Violation
	for _, p := range r.Packages {
		for _, name := range append(strings.Split(p.Dir, "/"), p.Name) {
			if slices.Contains(nameless, name) {
				vs = append(vs, Violation{"package-name", p.Dir, p.where(), fmt.Sprintf("a folder or package named "+
					"%q belongs to nobody: put the code beside its one user, or name the noun it produces", name)})
				break
			}
		}
	}
	return vs
}

// nothingRunsBeforeMain reports init functions. Code constructs values at the place of their use.
func nothingRunsBeforeMain(r Repo) []Violation {
	var vs []Violation
	for _, p := range r.Packages {
		for _, f := range p.Files {
			for _, d := range f.Syntax.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && !f.Generated && fn.Recv == nil && fn.Name.Name == "init" {
					vs = append(vs, Violation{"init", f.Path, f.where(fn), "an init function runs unseen and in an " +
						"order nobody reads: construct the value in cmd, or make a table of it"})
				}
			}
		}
	}
	return vs
}

// testsDoNotSleep reports sleeps in tests, which make them slow or unreliable. Inside testing/synctest the clock is
// simulated, so sleeps are allowed.
func testsDoNotSleep(r Repo) []Violation {
	var vs []Violation
	for _, p := range r.Packages {
		for _, f := range p.Files {
			if !f.Test || f.local("testing/synctest") != "" {
				continue
			}
			f.eachCall("time", func(sel *ast.SelectorExpr) {
				if sel.Sel.Name == "Sleep" {
					vs = append(vs, Violation{"sleep", f.Path, f.where(sel), "a test sleeps: wait for the event, or " +
						"use testing/synctest"})
				}
			})
		}
	}
	return vs
}

// thereIsOneLogger reports uses of the standard package log, which has no levels and no keys.
func thereIsOneLogger(r Repo) []Violation {
	var vs []Violation
	for _, p := range r.Packages {
		for _, f := range p.production() {
			for _, spec := range f.Syntax.Imports {
				if unquote(spec) == "log" {
					vs = append(vs, Violation{"log", f.Path, f.where(spec), "package log has no levels and no keys: " +
						"log/slog is the one logger, and only shells log"})
				}
			}
		}
	}
	return vs
}
