package terminal_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bunsen-os/bunsen/internal/terminal"
)

// TestWidths: how many columns texts take, and what is left of them.
func TestWidths(t *testing.T) {
	for _, tc := range []struct {
		sentence, text string
		width          int
		want           string
	}{
		{"what fits stays", "abc", 3, "abc"},
		{"what does not is cut, and shows it", "abcd", 3, "ab…"},
		{"one column is an ellipsis", "abcd", 1, "…"},
		{"no column is nothing", "abcd", 0, ""},
		{"an ideograph takes two columns", "節点節点", 5, "節点…"},
		{"and is not cut in half", "節点節点", 4, "節…"},
		{"what stands above a letter takes none", "e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"},
		{"what commands a terminal is not sent to it", "\x1b[2Jx", 9, `\x1b[2Jx`},
		{"nor what turns its text around", "a\u202eb", 9, `a\u202eb`},
		{"a line is one line", "a\nb", 9, "a b"},
	} {
		t.Run(tc.sentence, func(t *testing.T) {
			got := terminal.Line{{Text: tc.text}}.Cut(tc.width, false)
			if got != tc.want {
				t.Errorf("%q cut to %d is %q, want %q", tc.text, tc.width, got, tc.want)
			}
		})
	}
}

var escape = regexp.MustCompile("\x1b\\[[0-9;]*m")

// FuzzCut: whatever the texts are, a line is never wider than asked for, has no more than colours that command a
// terminal, and begins with what it was made of.
func FuzzCut(f *testing.F) {
	f.Add("POOL worker", "節点 e\u0301 \x1b[2J", 7, true)
	f.Add("", "a\nb\t\u202e", 3, false)
	f.Add("ab", "cd", 4, true)
	f.Fuzz(func(t *testing.T, a, b string, width int, colour bool) {
		width = min(width, 500)
		line := terminal.Line{{Text: a, Style: terminal.Head}, {Text: b, Style: terminal.Bad}}
		got := line.Cut(width, colour)
		plain := escape.ReplaceAllString(got, "")
		if w := terminal.Width(plain); w > max(width, 0) {
			t.Errorf("%q is %d columns wide, at most %d may be", plain, w, width)
		}
		if strings.ContainsAny(plain, "\x1b\n\r\x07") || !colour && got != plain {
			t.Errorf("%q commands the terminal", got)
		}
		whole := terminal.Line{{Text: a}, {Text: b}}.Cut(1<<30, false)
		if kept := strings.TrimSuffix(plain, "…"); !strings.HasPrefix(whole, kept) {
			t.Errorf("%q is no beginning of %q", plain, whole)
		}
		if terminal.Width(whole) <= width && plain != whole {
			t.Errorf("%q fits into %d columns, and is cut to %q", whole, width, plain)
		}
		if utf8.ValidString(a+b) && !utf8.ValidString(got) {
			t.Errorf("%q is no text any more", got)
		}
	})
}

// TestWrapping breaks between words only.
func TestWrapping(t *testing.T) {
	for text, want := range map[string]string{
		"a bc def": "a bc|def", "": "", "unbreakable a": "unbreakable|a",
		" a  b\nc ": "a b|c",
	} {
		if got := strings.Join(terminal.Wrap(text, 4), "|"); got != want {
			t.Errorf("%q is broken into %q, want %q", text, got, want)
		}
	}
}
