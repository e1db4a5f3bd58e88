package safetext_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/bunsen-os/bunsen/api/safetext"
)

func TestALineIsTextAndNoCommand(t *testing.T) {
	for sentence, c := range map[string]struct{ text, want string }{
		"ordinary text stays":                           {"a: ü, 日本, 🙂\t::1", "a: ü, 日本, 🙂\t::1"},
		"a command":                                     {"::error::x", `\u003a:error::x`},
		"a command after blanks":                        {"   ::add-mask::x", `   \u003a:add-mask::x`},
		"an address after blanks is no command":         {"  ::1 localhost", "  ::1 localhost"},
		"a command of the older form, within a line":    {"a ##[add-mask]x", `a #\u0023[add-mask]x`},
		"more number signs than the older form has":     {"####[x]", `###\u0023[x]`},
		"an escape sequence":                            {"\x1b[2J", `\x1b[2J`},
		"a carriage return, which hides what is before": {"a\rb", `a\rb`},
		"a line end":                                    {"a\n::error::b", `a\n::error::b`},
		"zero-width characters":                         {"a\u200b\u200d\ufeff\u2060\u00adb", `a\u200b\u200d\ufeff\u2060\u00adb`},
		"text that is turned around":                    {"a\u202eb\u2066c", `a\u202eb\u2066c`},
		"tags and variation selectors of no letter":     {"a\U000e0041\U000e0101", `a\U000e0041\U000e0101`},
		"letters without a shape":                       {"a\u3164\u115fb", `a\u3164\u115fb`},
		"bytes that are no text":                        {"a\xffb", "a\uFFFDb"},
		"a command that a hidden character begins":      {"\u200b::error::x", `\u200b::error::x`},
		"the style of an emoji":                         {"⚠\ufe0f 1\ufe0f\u20e3", "⚠\ufe0f 1\ufe0f\u20e3"},
		"a variant of a letter":                         {"a\ufe0f\ufe01b", `a\ufe0f\ufe01b`},
		"a Braille pattern without dots":                {"a\u2800b", `a\u2800b`},
		"half a Hangul syllable without a shape":        {"a\uffa0\u1160b", `a\uffa0\u1160b`},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := safetext.Line(c.text); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
	if got, want := safetext.Lines("a\n::error::b\n"), "a\n\\u003a:error::b\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestOneTextInEachForm: all forms agree on which characters are hidden.
func TestOneTextInEachForm(t *testing.T) {
	const hostile = " ::error::a\r\n\tb\u200bc\u00add\U000e0041e\u3164f\u202eg\x1b[2J "
	for form, c := range map[string]struct {
		of   func(string) string
		want string
	}{
		"Visible": {safetext.Visible, ` ::error::a\r\n` + "\t" + `b\u200bc\u00add\U000e0041e\u3164f\u202eg\x1b[2J `},
		"OneLine": {safetext.OneLine, ` ::error::a   b\u200bc\u00add\U000e0041e\u3164f\u202eg\x1b[2J `},
		"Strip":   {safetext.Strip, `::error::abcdefg[2J`},
		"Quote":   {safetext.Quote, `" ::error::a\r\n\tb\u200bc\u00add\U000e0041e\u3164f\u202eg\x1b[2J "`},
		"Lines":   {safetext.Lines, ` \u003a:error::a\r` + "\n\t" + `b\u200bc\u00add\U000e0041e\u3164f\u202eg\x1b[2J `},
	} {
		t.Run(form, func(t *testing.T) {
			if got := c.of(hostile); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if plain := "a: ü, 日本, 🙂"; strings.Trim(c.of(plain), `"`) != plain {
				t.Errorf("ordinary text becomes %q", c.of(plain))
			}
		})
	}
	var out strings.Builder
	if n, err := fmt.Fprint(safetext.NewWriter(&out), "warning\n::error::x\n"); n != 19 || err != nil ||
		out.String() != "warning\n\\u003a:error::x\n" {
		t.Errorf("written: %d, %v, %q", n, err, out.String())
	}
}

// FuzzLines: whatever the text, a log shows it and nothing acts on it. What is safe stays as it is.
func FuzzLines(f *testing.F) {
	for _, text := range []string{
		"::error::a", " \t::set-output name=a::b", "##[group]a", "#\u200b#[a]", "##\xff[",
		"\u202e", "\U000e0041", "a\r\n::b", "\u0085::a::", "\u00a0::a::", "::::",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := safetext.Lines(text)
		if strings.Count(got, "\n") != strings.Count(text, "\n") {
			t.Errorf("%q has other line ends: %q", text, got)
		}
		if again := safetext.Lines(got); again != got {
			t.Errorf("%q is safe and becomes %q", got, again)
		}
		for line := range strings.Lines(got) {
			start := strings.TrimLeftFunc(line, unicode.IsSpace)
			if strings.HasPrefix(line, "::") || strings.HasPrefix(start, "::") && strings.Contains(start[2:], "::") ||
				strings.Contains(line, "##[") {
				t.Errorf("%q has a command: %q", text, line)
			}
			for _, r := range strings.TrimSuffix(line, "\n") {
				if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Cs, unicode.Zl, unicode.Zp) && r != '\t' {
					t.Errorf("%q has %U", text, r)
				}
			}
		}
		for _, form := range []string{safetext.OneLine(text), safetext.Strip(text), safetext.Quote(text)} {
			if strings.Contains(safetext.Visible(form), `\u`) && !strings.Contains(form, `\u`) ||
				safetext.HasControl(form) {
				t.Errorf("%q hides something as %q", text, form)
			}
		}
	})
}
