package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

// TestSentencesThatBreakARule checks each rule with a sentence that breaks it, and with one that does not.
func TestSentencesThatBreakARule(t *testing.T) {
	long := strings.Repeat("word ", 26)
	for name, c := range map[string]struct{ file, text, want string }{
		"a sentence of 26 words":                 {"a.md", long + "\n", "a.md:1: length: 26 words"},
		"two short sentences":                    {"a.md", strings.Repeat("word ", 15) + "end.\n" + strings.Repeat("Word ", 15) + "\n", ""},
		"a table's cell may have 30 words":       {"a.md", "| " + long + "| b |\n", ""},
		"a cell may list things":                 {"a.md", "| " + strings.Repeat("word ", 20) + "; " + strings.Repeat("word ", 20) + "|\n", ""},
		"a page's name begins a sentence":        {"a.md", "| " + strings.Repeat("word ", 20) + "end. [b.md](b.md) " + strings.Repeat("word ", 20) + "|\n", ""},
		"a part that a test writes":              {"a.md", "<!-- begin x -->\nEdit it by hand.\n<!-- end x -->\n", ""},
		"an item ends the sentence before it":    {"a.md", strings.Repeat("- nine words are in this item of the list\n", 4), ""},
		"code counts as one word":                {"a.md", "| Run `" + strings.Repeat(long, 2) + "` now.|\n", ""},
		"fenced code is not read":                {"a.md", "```\nsomebody\n```\n", ""},
		"a banned word":                          {"a.md", "Edit it\nby hand.\n", `a.md:1: word: "by hand", write manually`},
		"a banned word in code":                  {"a.md", "Run `somebody`.\n", ""},
		"a passive without an actor":             {"a.md", "The node is told a config.\n", `passive: "is told", say who does it`},
		"a passive with an actor":                {"a.md", "The question is asked by the daemon.\n", ""},
		"a line of 101 columns":                  {"a.md", strings.Repeat("a ", 50) + "a\n", "width: 101 columns"},
		"a message of Go code":                   {"a.go", "package a\nvar a = \"the node goes on \" + b + \" with it\"\n", `a.go:2: word: "goes on"`},
		"a text that is no sentence":             {"a.go", "package a\nvar a = `somebody:[a-z] {2,}`\n", ""},
		"a tag of a field":                       {"a.go", "package a\ntype a struct {\n\tB string `json:\"somebody who goes on here\"`\n}\n", ""},
		"an indented line of help is an example": {"a.go", "package a\nvar a = `Print what is there.\n\n  bunsen somebody does it here`\n", ""},
		"tests are not read":                     {"a_test.go", "package a\nvar a = \"somebody does it here now\"\n", ""},
		"a comment of config":                    {"config/a.yaml", "# It is for somebody here.\na: 1\n", `config/a.yaml:2: word: "somebody"`},
		"an alert":                               {"config/a.yaml", "a:\n  summary: \"Edit the file by hand\"\n", `config/a.yaml:2: word: "by hand"`},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := checkTree(fstest.MapFS{c.file: {Data: []byte(c.text)}})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range found {
				got = append(got, o.String())
			}
			if all := strings.Join(got, "\n"); c.want == "" && all != "" || !strings.Contains(all, c.want) {
				t.Errorf("found %q, want %q", all, c.want)
			}
		})
	}
}

// TestTheBaseline checks that more offences than the baseline allows fail, and that fewer do not.
func TestTheBaseline(t *testing.T) {
	page := []offence{{"a.md", 1, "one"}, {"a.md", 2, "two"}}
	code := []offence{{"a.go", 1, "one"}, {"a.go", 2, "two"}}
	for name, c := range map[string]struct {
		found   []offence
		allowed string
		ok      bool
		says    string
	}{
		"as many":               {page, "2 a.md\n", true, ""},
		"fewer":                 {page, "2 a.md\n1 b.md\n", true, "-update"},
		"more":                  {page, "1 a.md\n5 b.md\n", false, "a.md:1: one"},
		"a page that is not in": {page, "5 b.go\n", false, "a.md:2: two"},
		"code that moved":       {code, "2 b.go\n", true, "-update"},
		"code that is new":      {code, "1 b.go\n", false, "a.go:1: one"},
		"code that grew":        {code, "1 a.go\n5 b.go\n", false, "a.go:1: one"},
	} {
		t.Run(name, func(t *testing.T) {
			allowed, err := parseBaseline(c.allowed)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			if ok := report(&out, c.found, counts(c.found), allowed); ok != c.ok ||
				!strings.Contains(out.String(), c.says) {
				t.Errorf("%v, %q", ok, out.String())
			}
		})
	}
}
