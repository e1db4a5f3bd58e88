package tour_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const example = "# A page\n\n1. An item:\n\n   <!-- tour:\n   before make this\n   until Ready bunsen status\n" +
	"   -->\n   ```sh\n   one \\\n     two # why\n   three\n   ```\n\n" +
	"<!-- tour: output -->\n```\nfour\n```\n"

// Whoever writes a directive gets what doc.go says.
func TestReadingAPage(t *testing.T) {
	p, errs := read("a.md", example)
	if len(errs) > 0 || len(p.blocks) != 2 {
		t.Fatalf("%v, %+v", errs, p)
	}
	first := p.blocks[0]
	if first.line != 9 || len(first.does) != 2 || first.all("before")[0].text != "make this" ||
		first.all("until")[0].line != 7 {
		t.Errorf("%+v", first)
	}
	if got := fmt.Sprint(first.commands()); got != "[{10 one \\\n  two # why []} {12 three []}]" {
		t.Errorf("commands %q", got)
	}
	if fate, err := p.blocks[1].fate(); fate != "output" || err != nil {
		t.Errorf("%q, %v", fate, err)
	}
	console, _ := read("a.md", "```console\n$ one\nshown\n$ two\n```\n")
	if got := fmt.Sprint(console.blocks[0].commands()); got != "[{2 one [shown]} {4 two []}]" {
		t.Errorf("commands of a console %q", got)
	}
}

// A misspelled directive must not let a block pass.
func TestMistakesOfAPage(t *testing.T) {
	for text, want := range map[string]string{
		"<!-- tour: skipp it -->\n```sh\na\n```\n":         `a.md:1: no directive is called "skipp"`,
		"<!-- tour: skip -->\n```sh\na\n```\n":             `a.md:1: what follows "skip"?`,
		"<!-- tour: run often -->\n```sh\na\n```\n":        `a.md:1: nothing follows "run"`,
		"<!-- tour: skip it -->\n\nText.\n```sh\na\n```\n": `a.md:1: no block follows "skip"`,
		"```sh\na\n": `a.md:1: the fence is not closed`,
	} {
		if _, errs := read("a.md", text); !slices.Contains(errs, want) {
			t.Errorf("%q: %q, want %q", text, errs, want)
		}
	}
	for text, want := range map[string]string{
		"```yaml\na: 1\n```\n": `nothing says what a block of "yaml" is`,
		"```\na\n```\n":        `nothing says what a block of "" is`,
		"<!-- tour: skip it -->\n<!-- tour: file a -->\n```\n```\n": "it cannot be skip and file",
	} {
		p, _ := read("a.md", text)
		if _, err := p.blocks[0].fate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// What differs from run to run is no difference; all else is one.
func TestComparing(t *testing.T) {
	for _, c := range []struct {
		shown, came string
		agree       bool
	}{
		{"worker rendered-worker-0123456789ab  3/3  12s", "worker rendered-worker-ffff56789aaa 3/3 4m10s", true},
		{"worker  3/3", "worker  2/3", false},
		{"main@sha1:4f1c2ab1 at 127.0.0.1:16443", "main@sha1:00aaff11 at 127.0.0.1:31001", true},
		{"a\n…\nd", "a\nb\nc\nd\n\n", true},
		{"a\n…\nd", "a\nb\nc", false},
		{"took …", "took long", true},
		{"a", "a\nb", false},
		{"since 2026-11-28T09:09:42Z", "since 2027-01-01 00:00:00 UTC", true},
	} {
		got := differs(strings.Split(c.shown, "\n"), strings.Split(c.came, "\n"))
		if (got == "") != c.agree {
			t.Errorf("%q and %q: %s", c.shown, c.came, got)
		}
	}
}
