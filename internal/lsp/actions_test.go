package lsp

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/transpile"
)

func TestACorrectionIsWhatTheMessageAdvises(t *testing.T) {
	const hash = "sha512-abc123"
	for _, c := range []struct {
		sentence, text string
		line, column   int
		message, want  string
	}{
		{
			"a hash in a block", "contents:\n  local: big\n  verification:\n    hash: sha512-old # of old\n", 2, 3,
			`verification hash does not match "big": a machine would refuse to boot; write ` + hash + `, or remove it`,
			"contents:\n  local: big\n  verification:\n    hash: " + hash + " # of old\n",
		},
		{
			"a hash in braces", "contents: {local: big, verification: {hash: \"sha512-old\"}}\n", 1, 12,
			`verification hash does not match "big": a machine would refuse to boot; write ` + hash + `, or remove it`,
			"contents: {local: big, verification: {hash: " + hash + "}}\n",
		},
		{
			"a mode that is there", "files:\n  - path: /a\n    mode: 0600\n", 3, 5,
			"a shell ignores /a (its mode is 0600): write `mode: 0755`",
			"files:\n  - path: /a\n    mode: 0755\n",
		},
		{
			"a mode that is missing", "files:\n  - path: /a\n    user: {name: x}\n", 2, 5,
			"a shell ignores /a (without a mode it is 0644): write `mode: 0755`",
			"files:\n  - path: /a\n    mode: 0755\n    user: {name: x}\n",
		},
		{
			"a name in a quoted text", "files:\n  - path: \"/etc/a d/x\"\n", 2, 5,
			"systemd ignores /etc/a d/x, because it reads only names that end in .conf: write /etc/a.d/x.conf",
			"files:\n  - path: /etc/a.d/x.conf\n",
		},
		{
			"a section of a unit", "contents: |\n  [Servce]\n", 2, 3,
			"systemd does not know the section [Servce]: did you mean [Service]?",
			"contents: |\n  [Service]\n",
		},
		{
			"a word behind characters of several bytes", "ä: é\nö: ü contets: 1\n", 2, 6,
			`knows no key "contets" here; did you mean "contents"?`,
			"ä: é\nö: ü contents: 1\n",
		},
		{
			"a value in single quotes with one in it", "- path: 'it''s'\n  mode: '0''6' # x\n", 1, 3,
			"write `mode: 0755`",
			"- path: 'it''s'\n  mode: 0755 # x\n",
		},
		{
			"a value in double quotes with one in it", "{path: a, mode: \"0\\\"6\", user: b}\n", 1, 2,
			"write `mode: 0755`",
			"{path: a, mode: 0755, user: b}\n",
		},
		{"a value with a tag", "path: a\nmode: !!str \"06\"\n", 1, 1, "write `mode: 0755`", ""},
		{"a value with an anchor", "path: a\nmode: &m 06\nx: *m\n", 1, 1, "write `mode: 0755`", ""},
		{"a quoted value of two lines", "path: a\nmode: \"0\n  6\"\n", 1, 1, "write `mode: 0755`", ""},
		{"a plain value of two lines", "path: a\nmode: 0\n\n  6\n", 1, 1, "write `mode: 0755`", ""},
		{"nothing that is known", "a: b\n", 1, 1, "write it in lowercase letters", ""},
		{"a value that has several lines", "mode: |\n  a\n", 1, 1, "write `mode: 0755`", ""},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			for _, wide := range []bool{true, false} {
				d := newDocument("a.bu", c.text, wide)
				got := ""
				for _, fix := range corrections(d, transpile.Entry{
					File: "a.bu", Line: c.line, Column: c.column, Message: c.message,
				}) {
					for _, e := range fix.edits {
						got = d.apply(e.Range, e.NewText)
					}
				}
				if got != c.want {
					t.Errorf("%q becomes %q, want %q", c.text, got, c.want)
				}
			}
		})
	}
}

func TestACommandNamesNoForeignText(t *testing.T) {
	const message = "run `bunsen hash FILE`, which downloads it"
	for file, want := range map[string]string{
		"pools/a/10-a.bu": "bunsen hash pools/a/10-a.bu", "a; rm -rf x.bu": "bunsen hash FILE",
		"-x.bu": "bunsen hash FILE", "a b.bu": "bunsen hash FILE",
	} {
		all := corrections(newDocument(file, "a: b\n", true), transpile.Entry{File: file, Line: 1, Message: message})
		if len(all) != 1 || all[0].command != want {
			t.Errorf("%s: %v, want %s", file, all, want)
		}
	}
	for message, want := range map[string]string{
		"run `bunsen secret encrypt a; rm -rf x`":                   "",
		"run `bunsen secret encrypt a`":                             "bunsen secret encrypt a",
		"run `bunsen secret encrypt b`":                             "",
		"run `sops encrypt -i a`":                                   "sops encrypt -i a",
		"run `sops decrypt -i a`":                                   "",
		"run `bunsen secret rotate a --remove age1x,age1y`, and":    "bunsen secret rotate a --remove age1x,age1y",
		"no pool `bunsen push a`":                                   "",
		"no pool `bunsen secret decrypt a`":                         "",
		"no file `bunsen hash a --out b`":                           "",
		"unknown key `bunsen hash a` in `bunsen secret keygen a`":   "bunsen hash a",
		"unknown key `bunsen hash FILE && sh` and `bunsen hash -x`": "",
	} {
		got := ""
		for _, c := range corrections(newDocument("a", "b: c\n", true), transpile.Entry{
			File: "a", Line: 1, Message: message,
		}) {
			got += c.command
		}
		if got != want {
			t.Errorf("%s: %q, want %q", message, got, want)
		}
	}
}

func TestAnAcceptedValueKeepsTheComment(t *testing.T) {
	for text, want := range map[string]string{
		"variant: fc|os # the best":   "variant: X # the best",
		"variant: |":                  "variant: X",
		"variant: | # which":          "variant: X # which",
		"variant: |# which":           "variant: X# which",
		"variant: \"f|c # s\"  # one": "variant: X  # one",
		"variant: fc|#os":             "variant: X",
	} {
		before, after, _ := strings.Cut(text, "|")
		d := newDocument("a.bu", before+after+"\n", false)
		_, where := (*snapshot)(nil).completeAt(d, position{0, len(before)})
		if got := d.apply(where, "X"); got != want+"\n" {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
