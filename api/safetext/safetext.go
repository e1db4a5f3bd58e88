package safetext

import (
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// emojiStyle is the variation selector that follows many emoji.
const emojiStyle = '\ufe0f'

// IsHidden reports whether a character is not visible as itself: control characters including tabs and line ends,
// zero-width and bidirectional characters, soft hyphens, tags, letters without a shape, and variation selectors.
func IsHidden(r rune) bool {
	if r >= ' ' && r < 0x7f {
		return false // Almost every character ends here.
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point,
		unicode.Variation_Selector) ||
		r >= 0xE0000 && r < 0xE1000 || r == '\u2800' // the Braille pattern without dots
}

// HasHidden reports whether a text contains a hidden character or invalid UTF-8. A name or path with a hidden character
// is invalid in a config.
func HasHidden(text string) bool {
	return !utf8.ValidString(text) || strings.ContainsFunc(text, IsHidden)
}

// HasControl reports whether a text contains a control character or invalid UTF-8.
func HasControl(text string) bool {
	return !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl)
}

// Visible replaces the hidden characters of a text, also line ends, with their codes. Visible keeps tabs, and an
// emoji's variation selector after a symbol. Visible replaces invalid UTF-8 with U+FFFD.
func Visible(text string) string { return replace(text, "\t", code) }

// OneLine is Visible with a blank in place of each tab and line end, for messages.
func OneLine(text string) string {
	return replace(text, "", func(r rune) string {
		if r == '\n' || r == '\t' || r == '\r' {
			return " "
		}
		return code(r)
	})
}

// Short is OneLine with at most the given number of characters. An ellipsis replaces the rest.
func Short(text string, most int) string {
	text = OneLine(text[:min(len(text), most*utf8.UTFMax)])
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// Strip removes the hidden characters of a text. Strip is for a text that Bunsen stores as a label, such as the subject
// of a commit. OneLine is for a text that Bunsen only shows.
func Strip(text string) string {
	return strings.TrimSpace(replace(text, "", func(rune) string { return "" }))
}

// Quote is strconv.Quote with codes also for hidden characters that strconv treats as printable.
func Quote(text string) string { return Visible(strconv.Quote(text)) }

// Line returns a text as one line of a log, with visible characters and without a workflow command. The runner of a CI
// job executes `::name::` at the beginning of a line, also after blanks, and `##[name]` anywhere in a line.
func Line(text string) string {
	text = strings.ReplaceAll(Visible(text), "##[", `#\u0023[`)
	rest := strings.TrimLeftFunc(text, unicode.IsSpace)
	if strings.HasPrefix(text, "::") || strings.HasPrefix(rest, "::") && strings.Contains(rest[1:], "::") {
		text = text[:len(text)-len(rest)] + `\u003a` + rest[1:]
	}
	return text
}

// Lines applies Line to each line of a text.
func Lines(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = Line(l)
	}
	return strings.Join(lines, "\n")
}

// NewWriter returns a writer that applies Lines to each write. Each write begins a line.
func NewWriter(w io.Writer) io.Writer { return writer{w} }

type writer struct{ to io.Writer }

// Write writes the whole text, or fails.
func (w writer) Write(text []byte) (int, error) {
	if _, err := io.WriteString(w.to, Lines(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// replace replaces the hidden characters of a text except those in keep.
func replace(text, keep string, with func(rune) string) string {
	if !HasHidden(text) {
		return text
	}
	var b strings.Builder
	var before rune
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		switch {
		case !IsHidden(r), strings.ContainsRune(keep, r), r == emojiStyle && unicode.In(before, unicode.So, unicode.Sm,
			unicode.Po, unicode.Nd):
			b.WriteRune(r)
		default:
			b.WriteString(with(r))
		}
		before = r
	}
	return b.String()
}

// code returns a character as a Go escape, such as \u202e.
func code(r rune) string { return strings.Trim(strconv.QuoteRuneToASCII(r), "'") }
