package docs_test

import (
	"fmt"
	"io/fs"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// date and commit match the last run by hand of a target.
	date   = regexp.MustCompile(`^\d{4}-\d\d-\d\d$`)
	commit = regexp.MustCompile(`^[0-9a-f]{8}$`)
	// target matches a span that names a target of the Makefile, and recipe its rule.
	target = regexp.MustCompile(`^make ([a-z ]+[a-z-]+)$`)
	recipe = regexp.MustCompile(`(?m)^([a-z-]+):(.*)\n((?:\t.*\n)*)`)
	// proofPath matches a directory or file of tests.
	proofPath = regexp.MustCompile(`^(test|bench|tools|mcd|mcs|reconcile|internal|source|transpile)/[a-z0-9/.-]+$`)
)

// checkStatus compares docs/status.md with the repository, and returns what is wrong. It asks exists about paths, and
// dated about commits.
func checkStatus(page, makefile string, exists func(string) bool, dated func(string) (string, error)) []string {
	inTest, targets := testedTargets(makefile)
	var wrong []string
	for _, m := range span.FindAllStringSubmatch(page, -1) {
		if proofPath.MatchString(m[1]) && !exists(m[1]) {
			wrong = append(wrong, m[1]+" does not exist")
		}
		if made := target.FindStringSubmatch(m[1]); made != nil {
			for _, name := range strings.Fields(made[1]) {
				if !targets[name] {
					wrong = append(wrong, "the Makefile has no target "+name)
				}
			}
		}
	}
	byHand := map[string]bool{}
	for row := range strings.Lines(page) {
		cells := strings.Split(strings.TrimSpace(row), "|")
		if len(cells) != 6 || strings.HasPrefix(row, "|---") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		first := strings.TrimPrefix(strings.Trim(cells[1], "`"), "make ")
		last := strings.TrimPrefix(strings.Trim(cells[4], "`"), "make ")
		switch {
		case commit.MatchString(cells[4]):
			byHand[first] = true
			if inTest[first] {
				wrong = append(wrong, first+" is a part of make test, and no run by hand")
			}
			if on, err := dated(cells[4]); err != nil || on != cells[3] {
				wrong = append(wrong, fmt.Sprintf("%s: commit %s is of %q, not of %s (%v)", first, cells[4], on,
					cells[3], err))
			}
		case date.MatchString(cells[3]):
			if !proven(cells[2], exists) {
				wrong = append(wrong, cells[1]+": no proof is named")
			}
			if last != "CI" && !byHand[last] {
				wrong = append(wrong, cells[1]+": "+last+" is neither CI nor a target that runs by hand")
			}
		case cells[1] != "Area" && cells[1] != "By hand":
			wrong = append(wrong, "the row of "+cells[1]+" cannot be read")
		}
	}
	for name := range targets {
		if strings.HasPrefix(name, "test-") && !inTest[name] && !byHand[name] {
			wrong = append(wrong, name+" is not a part of make test, and is not said to run by hand")
		}
	}
	slices.Sort(wrong)
	return wrong
}

// proven reports whether a cell names proofs that exist.
func proven(cell string, exists func(string) bool) bool {
	proofs := span.FindAllStringSubmatch(cell, -1)
	return len(proofs) > 0 && !slices.ContainsFunc(proofs, func(m []string) bool {
		return !proofPath.MatchString(m[1]) || !exists(m[1])
	})
}

// testedTargets returns all targets of a Makefile, and those that make verify and make test build or run. The parts of
// test-host are those of make test as root.
func testedTargets(makefile string) (inTest, targets map[string]bool) {
	inTest, targets = map[string]bool{"test-host": true}, map[string]bool{}
	rules := map[string]string{}
	for _, m := range recipe.FindAllStringSubmatch(makefile, -1) {
		needs, _, _ := strings.Cut(m[2], "#")
		rules[m[1]], targets[m[1]] = needs, true
		for line := range strings.Lines(m[3]) {
			if strings.Contains(line, "$(MAKE)") {
				rules[m[1]] += " " + line
			}
		}
	}
	todo := []string{"test", "verify"}
	for len(todo) > 0 {
		first := todo[0]
		todo = todo[1:]
		for _, name := range regexp.MustCompile(`[a-z-]+`).FindAllString(rules[first], -1) {
			if targets[name] && !inTest[name] {
				inTest[name] = true
				todo = append(todo, name)
			}
		}
	}
	return inTest, targets
}

// TestTheStatusNamesWhatExists: each proof that docs/status.md names exists, what it calls run by hand is not a part of
// make test and the reverse, and the commits of runs by hand are of their dates.
func TestTheStatusNamesWhatExists(t *testing.T) {
	page, err := fs.ReadFile(root, "docs/status.md")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := fs.ReadFile(root, "Makefile")
	if err != nil {
		t.Fatal(err)
	}
	exists := func(name string) bool {
		_, err := fs.Stat(root, name)
		return err == nil
	}
	dated := func(of string) (string, error) {
		out, err := exec.Command("git", "-C", "../..", "log", "-1", "--format=%cs", of).Output()
		return strings.TrimSpace(string(out)), err
	}
	if out, err := exec.Command("git", "-C", "../..", "rev-parse", "--is-shallow-repository").Output(); err != nil ||
		strings.TrimSpace(string(out)) != "false" {
		t.Log("the history is not here, so the commits of runs by hand are not checked")
		dated = func(of string) (string, error) {
			return regexp.MustCompile(`(\S+) \| ` + of).FindStringSubmatch(string(page))[1], nil
		}
	}
	check := func(page string) []string { return checkStatus(page, string(makefile), exists, dated) }
	for _, wrong := range check(string(page)) {
		t.Errorf("docs/status.md: %s", wrong)
	}
	inTest, targets := testedTargets(string(makefile))
	if !inTest["test-chart"] || inTest["test-vm"] || len(targets) < 30 {
		t.Errorf("%d targets, in make test %v: is the Makefile read rightly?", len(targets), inTest)
	}
	for change, want := range map[[2]string]string{
		{"`test/forecast`", "`test/forecasts`"}:             "test/forecasts does not exist",
		{"| `make test-vm` | A", "| `make test-vmm` | A"}:   "the Makefile has no target test-vmm",
		{"| `make test-vm` | A", "| `make test-chart` | A"}: "test-chart is a part of make test, and no run by hand",
		{"2026-11-24 | CI |", "2026-11-24 | nobody |"}:      "Console: nobody is neither CI nor a target that runs by hand",
	} {
		if !strings.Contains(string(page), change[0]) {
			t.Errorf("the page does not have %q", change[0])
		}
		if got := check(strings.ReplaceAll(string(page), change[0], change[1])); !slices.Contains(got, want) {
			t.Errorf("after changing %q to %q: %q, want %q", change[0], change[1], got, want)
		}
	}
}
