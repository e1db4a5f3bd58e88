package schema_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/internal/schema"
	"github.com/bunsen-os/bunsen/transpile/butane"
)

var update = flag.Bool("update", false, "write butane.txt from the documentation of Butane")

var field = regexp.MustCompile(`^( *)\* \*\*(_?)([a-z0-9_]+)_?\*\* \([a-z ]+\): (.*)$`)

// TestTheDescriptionsAreThoseOfButane compares butane.txt with the documentation of Butane's module.
func TestTheDescriptionsAreThoseOfButane(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/coreos/butane").Output()
	if err != nil {
		t.Fatal(err)
	}
	type group struct {
		path     string
		required bool
		text     string
	}
	groups := map[group][]string{}
	for _, d := range butane.Dialects() {
		short := strings.ReplaceAll(strings.TrimSuffix(d.Version, ".0"), ".", "_")
		raw, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "docs",
			fmt.Sprintf("config-%s-v%s.md", d.Variant, short)))
		if err != nil {
			t.Fatal(err)
		}
		var path []string
		for line := range strings.Lines(string(raw)) {
			m := field.FindStringSubmatch(strings.TrimRight(line, "\n"))
			if m == nil {
				continue
			}
			path = append(path[:len(m[1])/2], strings.TrimSuffix(m[3], "_"))
			text := strings.ReplaceAll(m[4], "relative to the directory specified by the `--files-dir` command-line "+
				"argument", "relative to the directory of the document")
			g := group{strings.Join(path, "."), m[2] == "", text}
			groups[g] = append(groups[g], d.Variant+"-"+d.Version)
		}
	}
	var b strings.Builder
	b.WriteString("# Butane's descriptions of its fields, from its documentation (Apache-2.0, " +
		"github.com/coreos/butane).\n# Written by go test ./internal/schema -update.\n")
	last := ""
	for _, g := range slices.SortedFunc(maps.Keys(groups), func(a, b group) int {
		return strings.Compare(fmt.Sprint(a.path, !a.required, groups[a]), fmt.Sprint(b.path, !b.required, groups[b]))
	}) {
		head := g.path
		if g.required {
			head += " (required)"
		}
		if head != last {
			b.WriteString(head + "\n")
			last = head
		}
		b.WriteString("  " + strings.Join(groups[g], " ") + "\n    " + g.text + "\n")
	}
	if *update {
		if err := os.WriteFile("butane.txt", []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile("butane.txt")
	if err != nil || string(have) != b.String() {
		t.Errorf("butane.txt is not of this version of Butane: run go test ./internal/schema -update (%v)", err)
	}
}

func TestEveryFieldOfButaneHasItsDescription(t *testing.T) {
	for _, d := range butane.Dialects() {
		n := schema.OfDialect(d.Variant, d.Version)
		var walk func(n *schema.Node, at string)
		walk = func(n *schema.Node, at string) {
			if n == nil {
				return
			}
			walk(n.Items, at)
			for key, p := range n.Properties {
				if p.Description == "" {
					t.Errorf("%s %s: %s.%s has no description", d.Variant, d.Version, at, key)
				}
				walk(p, at+"."+key)
			}
		}
		walk(n, "")
	}
}

func TestEverySchemaIsMade(t *testing.T) {
	for _, name := range schema.Names() {
		n, err := schema.Get(name)
		if err != nil {
			t.Error(err)
			continue
		}
		text, err := n.JSON()
		if err != nil || len(text) < 300 {
			t.Errorf("%s: %v, %d bytes", name, err, len(text))
		}
	}
}
