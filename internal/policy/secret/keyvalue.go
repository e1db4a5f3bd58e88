package secret

import (
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/internal/policy/secret/classify"
	"github.com/bunsen-os/bunsen/internal/policy/secret/syntax"
)

// assignment is a key that names a secret, and the separator after it.
type assignment struct {
	// start is the offset where the key begins. value is the offset where the separator ends.
	start, value int
	separator    byte
	// spaced is true if a blank precedes the separator.
	spaced bool
	// parameter is true for a parameter of a URL.
	parameter bool
	certainty classify.Certainty
}

// keyValues masks the values of keys that name a secret, in every syntax with = or :.
func keyValues(l line) {
	s, scanned := l.s, 0
	for at := 0; at < len(s); at++ {
		if scanned > 16*len(s)+4096 {
			l.maskRest(at, false) // No real file has such a line, so the rest of it is masked.
			return
		}
		if s[at] != '=' && s[at] != ':' {
			continue
		}
		a, ok := assignmentAt(s, at)
		if !ok || endsQuote(s, at, a.value) {
			continue
		}
		from, end := l.valueOf(a)
		scanned += end - from
		// The text is prose or a comment.
		if end <= from || syntax.IsComment(s) && strings.ContainsAny(s[from:end], " \t") {
			continue
		}
		if l.isSecret(a.certainty, s[from:end]) {
			maskValue(l, from, end, a.certainty)
			at = max(at, end-1)
		}
	}
}

// assignmentAt returns the assignment with the separator at an offset. ok is false if its key does not name a secret.
func assignmentAt(s string, at int) (a assignment, ok bool) {
	key, start := keyBefore(s, at)
	isExpansion := start > 1 && s[start-2:start] == "${"
	if isExpansion && (at+1 >= len(s) || s[at+1] != '-' && s[at+1] != '=') {
		return assignment{}, false // ${TOKEN:?message}
	}
	a = assignment{
		start: start, value: at + 1, separator: s[at], spaced: at > 0 && syntax.IsBlank(s[at-1]),
		certainty: classify.Key(key),
	}
	a.parameter = start > 0 && (s[start-1] == '?' || s[start-1] == '&')
	if a.parameter {
		a.certainty = parameterCertainty(key, a.certainty)
	}
	a.value = len(s) - len(strings.TrimLeft(s[a.value:], "=>:"))
	if isExpansion {
		a.value = at + 2
	}
	return a, key != "" && a.certainty != classify.NotSecret
}

// parameterCertainty returns the certainty of a parameter of a URL.
func parameterCertainty(key string, c classify.Certainty) classify.Certainty {
	isSignature := c == classify.NotSecret && strings.HasSuffix(classify.LowerASCII(key), "signature")
	if isSignature || c == classify.IfRandom {
		return classify.UnlessName
	}
	return c
}

// isSecret reports whether a value is a secret. The strings of a list are checked one by one later.
func (l line) isSecret(c classify.Certainty, v string) bool {
	if classify.IsReference(v, l.t.script) || l.t.translation && !classify.IsRandom(v) {
		return false
	}
	switch {
	case strings.HasPrefix(v, "[") && strings.HasSuffix(v, "]") && strings.ContainsAny(v, `"'`):
		return true
	case v[0] == '[' || v[0] == '{':
		return c == classify.Always && !strings.ContainsAny(v, ":= ]}")
	}
	return classify.IsSecret(c, v, l.t.script)
}

// maskValue masks a value, or each string of a list.
func maskValue(l line, from, end int, c classify.Certainty) {
	s := l.s
	if s[from] != '[' || s[end-1] != ']' {
		l.mask(from, end)
		return
	}
	for at := from + 1; at < end; at++ {
		if !syntax.IsQuote(s[at]) {
			continue
		}
		n := strings.IndexByte(s[at+1:end], s[at])
		if n < 0 {
			return
		}
		if classify.IsSecret(c, s[at+1:at+1+n], l.t.script) {
			l.mask(at+1, at+1+n)
		}
		at += n + 1
	}
}

// keyBefore returns the key before a separator, and the offset where the key begins.
func keyBefore(s string, at int) (key string, start int) {
	end := len(strings.TrimRight(strings.TrimRight(s[:at], " \t\r:+?"), `\"']`))
	start = end
	for start > 0 && end-start < 120 && (classify.IsWordByte(s[start-1]) || strings.IndexByte("-./", s[start-1]) >= 0) {
		start--
	}
	for n := 0; n < 3 && start > 1 && syntax.IsBlank(s[start-1]) && classify.IsWordByte(s[start-2]) &&
		isPartOfKey(s[start:end]); n++ {
		start--
		for start > 0 && end-start < 120 && classify.IsWordByte(s[start-1]) {
			start--
		}
	}
	return s[start:end], start
}

// isPartOfKey reports whether a key is the end of a key of several words: Unseal Key 1.
func isPartOfKey(key string) bool {
	first, _, _ := strings.Cut(key, " ")
	return strings.Trim(first, "0123456789") == "" || classify.LowerASCII(first) == "key"
}

// endsQuote reports whether the next quote ends a string that contains the separator.
func endsQuote(s string, at, from int) bool {
	from = syntax.SkipBlanks(s, from)
	return from < len(s) && s[from] == '"' && at < 1000 && strings.Count(s[:at], `"`)%2 == 1 &&
		strings.Count(s[:at], `\"`) == 0
}

// valueOf returns the bounds of the value of an assignment.
func (l line) valueOf(a assignment) (from, end int) {
	from = syntax.SkipBlanks(l.s, a.value)
	if from >= len(l.s) {
		return from, from
	}
	if start, end, ok := syntax.QuotedValue(l.s, from, l.t.script); ok {
		return start, end
	}
	return from, l.bareEnd(from, a)
}

// declarations are words that can precede the first key of a line.
var declarations = []string{"export ", "set ", "SetEnv ", "setenv ", "local ", "ENV ", "ARG ", "declare ", "readonly "}

// bareEnd returns where a value without quotes ends.
func (l line) bareEnd(from int, a assignment) int {
	s := l.s
	if slices.Contains([]string{"${", "{{", "$("}, s[from:min(from+2, len(s))]) {
		return syntax.WordEnd(s, from, " \t\r\"',")
	}
	isBlankBefore := from > a.value
	switch isFirst := isFirstKey(s[:a.start]); {
	case isFirst && s[from] == '[':
		return syntax.ListEnd(s, from)
	case isFirst && a.separator == ':' && isBlankBefore, isFirst && a.separator == '=' &&
		(a.spaced || isBlankBefore || !l.t.script):
		return syntax.LineEnd(s, from)
	case a.parameter:
		return syntax.EscapedWordEnd(s, from, " \t&#\"'`<>)]}\\")
	case s[a.start] == '-' && a.separator == '=':
		return syntax.EscapedWordEnd(s, from, " \t|)\"'`")
	}
	return syntax.EscapedWordEnd(s, from, " \t,;&|)]}>\"'`")
}

// isFirstKey reports whether the text before a key has no other key: a declaration, a list mark or blanks.
func isFirstKey(head string) bool {
	head = strings.TrimLeft(head, " \t-\"'#;")
	for _, d := range declarations {
		head = strings.TrimPrefix(head, d)
	}
	return strings.TrimSpace(head) == ""
}

// directives masks the value of a line whose first word names a secret: auth_pass hunter2.
func directives(l line) {
	s := l.s
	comment := syntax.IsComment(s)
	if comment {
		s = strings.TrimLeft(s, " \t#;/")
	}
	words := syntax.Tokens(s)
	for n := range words {
		if n > 0 && strings.HasPrefix(words[n].S, "#") {
			words = words[:n]
			break
		}
	}
	c, value := directive(words)
	switch {
	case c < classify.UnlessName:
	case comment && !classify.IsRandom(value.S):
	case c == classify.UnlessName && !isLikelySecret(value.S) && s[value.Start-1] != '"':
	case classify.IsSecret(c, value.S, l.t.script):
		offset := len(l.s) - len(s)
		l.mask(offset+value.Start, offset+value.End)
	}
}

// directive returns the value of a line of two or three words, and how certain it is that the value is a secret.
func directive(words []syntax.Token) (c classify.Certainty, value syntax.Token) {
	if len(words) != 2 && len(words) != 3 || strings.ContainsAny(words[0].S, "=:(){}<>$/") ||
		strings.HasPrefix(words[0].S, "-") || strings.HasPrefix(words[1].S, "<") {
		return classify.NotSecret, syntax.Token{}
	}
	c, value = classify.Key(words[0].S), words[1]
	// Without this condition, the line `cachemgr_passwd x all` would not match.
	if len(words) == 3 && !(c == classify.Always && isLongWithDigit(value.S) && !classify.IsName(value.S)) {
		if !slices.Contains([]string{"enable", "set", "requirepass"}, words[0].S) ||
			strings.ContainsAny(words[1].S, "=:") {
			return classify.NotSecret, syntax.Token{}
		}
		c, value = classify.Key(words[1].S), words[2]
	}
	if isSyntax(value.S) {
		return classify.NotSecret, syntax.Token{}
	}
	return c, value
}

// isSyntax reports whether a word is not a value: it opens a block, assigns, is a key or a module of PAM.
func isSyntax(v string) bool {
	return v == "{" || strings.HasPrefix(v, "=") || strings.HasSuffix(v, ":") || strings.HasSuffix(v, ".so")
}

func isLongWithDigit(v string) bool { return len(v) > 7 && strings.ContainsAny(v, "0123456789") }

// isLikelySecret reports whether a value looks random, or is long and has a digit.
func isLikelySecret(v string) bool {
	return classify.IsRandom(v) || isLongWithDigit(v)
}

// options masks the value of an option that names a secret: --token hunter2.
func options(l line) {
	s := l.s
	for at := strings.Index(s, "-"); at >= 0 && at < len(s); {
		end := at
		for end < len(s) && (classify.IsWordByte(s[end]) || s[end] == '-' || s[end] == '.') {
			end++
		}
		if at == 0 || strings.IndexByte(" \t\"'`([,", s[at-1]) >= 0 {
			maskOption(l, at, end)
		}
		next := strings.Index(s[end:], "-")
		if next < 0 {
			return
		}
		at = end + next
	}
}

// maskOption masks the word after an option.
func maskOption(l line, at, end int) {
	s := l.s
	if end-at < 4 {
		return
	}
	c := classify.Key(s[at:end])
	from := end + len(s[end:]) - len(strings.TrimLeft(s[end:], " \t\"',"))
	if c == classify.NotSecret || from == end || from >= len(s) || s[from] == '-' {
		return
	}
	if syntax.IsQuote(s[from-1]) && from-1 > end {
		end = syntax.QuoteEnd(s, from-1)
	} else {
		end = syntax.WordEnd(s, from, " \t\"',;|)`")
	}
	if classify.IsSecret(c, s[from:end], true) {
		l.mask(from, end)
	}
}
