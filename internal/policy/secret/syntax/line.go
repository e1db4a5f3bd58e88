package syntax

import (
	"strings"
)

// Token is one word of a line, without the quotes around it.
type Token struct {
	Start, End int
	S          string
}

// Tokens splits a line at blanks. Quotes keep words together.
func Tokens(s string) (out []Token) {
	for start := SkipBlanks(s, 0); start < len(s); {
		next := tokenEnd(s, start)
		end := next
		for end > start+1 && (s[end-1] == ';' || s[end-1] == ',') {
			end--
		}
		t := Token{start, end, s[start:end]}
		if IsQuote(s[start]) && end-start >= 2 && s[end-1] == s[start] {
			t = Token{start + 1, end - 1, s[start+1 : end-1]}
		}
		out = append(out, t)
		start = SkipBlanks(s, next)
	}
	return out
}

// tokenEnd returns where the word that begins at an offset ends.
func tokenEnd(s string, start int) int {
	i := start
	for ; i < len(s) && !IsBlank(s[i]); i++ {
		if IsQuote(s[i]) && (i == start || s[i-1] == '=') {
			if n := strings.IndexByte(s[i+1:], s[i]); n >= 0 {
				i += n + 1
			}
		}
	}
	return i
}

// WordEnd returns where the word that begins at an offset ends. Each of the stop bytes ends the word.
func WordEnd(s string, from int, stop string) int {
	if n := strings.IndexAny(s[from:], stop); n >= 0 {
		return from + n
	}
	return len(s)
}

// SkipBlanks returns the offset of the next byte that is not a blank.
func SkipBlanks(s string, from int) int {
	for from < len(s) && IsBlank(s[from]) {
		from++
	}
	return from
}

// IsQuote reports whether a byte is a quote.
func IsQuote(c byte) bool { return c == '"' || c == '\'' }

// QuotedValue returns the bounds of a string in quotes that begins at an offset: "x", 'x', \"x\", b"x", `x`.
func QuotedValue(s string, from int, script bool) (start, end int, ok bool) {
	isPrefix := from+1 < len(s) && IsQuote(s[from+1])
	if isPrefix && s[from] == '\\' {
		if n := strings.Index(s[from+2:], s[from:from+2]); n >= 0 {
			return from + 2, from + 2 + n, true
		}
		return from + 2, len(s), true
	}
	if isPrefix && strings.IndexByte("bruf@$", s[from]) >= 0 {
		from++
	}
	if IsQuote(s[from]) || s[from] == '`' && !script {
		return from + 1, QuoteEnd(s, from), true
	}
	return 0, 0, false
}

// QuoteEnd returns where a string in quotes ends.
func QuoteEnd(s string, from int) int {
	for i := from + 1; i < len(s); i++ {
		if s[i] == '\\' && s[from] == '"' {
			i++
			continue
		}
		if s[i] == s[from] {
			return i
		}
	}
	return len(s)
}

// EscapedWordEnd returns where a word ends: at one of the stop bytes or at an escaped quote.
func EscapedWordEnd(s string, from int, stop string) int {
	end := WordEnd(s, from, stop)
	if end > from && end < len(s) && s[end] == '"' && s[end-1] == '\\' {
		return end - 1
	}
	return end
}

// ListEnd returns where a list in brackets ends.
func ListEnd(s string, from int) int {
	if n := strings.LastIndexByte(s, ']'); n > from {
		return n + 1
	}
	return len(s)
}

// LineEnd returns where a value ends that takes the rest of its line, without a comment.
func LineEnd(s string, from int) int {
	end := len(s)
	for _, mark := range []string{" #", "\t#", " ;", " //"} {
		if n := strings.Index(s[from:end], mark); n >= 0 {
			end = from + n
		}
	}
	return from + len(strings.TrimRight(s[from:end], " \t,;\\\"'"))
}

// IsBlank reports whether a byte is a blank or the CR of a line end.
func IsBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// IsComment reports whether a line is a comment.
func IsComment(s string) bool {
	s = strings.TrimLeft(s, " \t")
	return strings.HasPrefix(s, "#") || strings.HasPrefix(s, ";") || strings.HasPrefix(s, "//")
}

// TrimQuotes returns the bounds of a value at the end of a line, without quotes.
func TrimQuotes(s string, from int) (start, end int) {
	end = len(strings.TrimRight(s, " \t,"))
	if end-from >= 2 && IsQuote(s[from]) && s[end-1] == s[from] {
		return from + 1, end - 1
	}
	return from, max(from, end)
}
