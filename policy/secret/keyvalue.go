package secret

import "strings"

// keyValues masks the values of keys that name a secret, in every syntax with = or :.
func keyValues(t *text, i int, rule string) {
	s, looked := t.line(i), 0
	for at := 0; at < len(s); at++ {
		if looked > 16*len(s)+4096 {
			t.maskRest(i, at, rule, false) // such a line stands in no real file
			return
		}
		if s[at] != '=' && s[at] != ':' {
			continue
		}
		key, start := keyBefore(s, at)
		if start > 1 && s[start-2:start] == "${" && (at+1 >= len(s) || s[at+1] != '-' && s[at+1] != '=') {
			continue // ${TOKEN:?message}
		}
		w := weigh(key)
		if w == notSecret && start > 0 && (s[start-1] == '?' || s[start-1] == '&') && strings.HasSuffix(lowerASCII(key), "signature") {
			w = wordSecret
		}
		if key == "" || w == notSecret {
			continue
		}
		if w == opaqueSecret && start > 0 && (s[start-1] == '?' || s[start-1] == '&') {
			w = wordSecret // a parameter of a URL
		}
		from := at + 1
		for from < len(s) && (s[from] == '=' || s[from] == '>' || s[from] == ':') {
			from++
		}
		if start > 1 && s[start-2:start] == "${" {
			from = at + 2
		}
		if endsQuote(s, at, from) {
			continue
		}
		from, end := t.valueAt(s, from, assignment{start: start, sep: s[at], spaced: at > 0 && isBlank(s[at-1])})
		looked += end - from
		if end <= from {
			continue
		}
		if isComment(s) && strings.ContainsAny(s[from:end], " \t") {
			continue // prose
		}
		if isSecretAt(t, w, s, from, end) {
			maskValue(t, i, from, end, w, rule)
			at = max(at, end-1)
		}
	}
}

// isSecretAt decides about a value within a line; lists are decided about by their elements.
func isSecretAt(t *text, w weight, s string, from, end int) bool {
	v := s[from:end]
	if isReference(v, t.script) || t.translation && !isOpaque(v) {
		return false
	}
	if strings.HasPrefix(v, "[") || strings.HasPrefix(v, "{") {
		return strings.HasPrefix(v, "[") && strings.HasSuffix(v, "]") && strings.ContainsAny(v, `"'`) || w == strongSecret && !strings.ContainsAny(v, ":= ]}")
	}
	return isSecretValue(w, v, t.script)
}

// maskValue masks a value, or each string of a list.
func maskValue(t *text, i, from, end int, w weight, rule string) {
	s := t.line(i)
	if s[from] != '[' || s[end-1] != ']' {
		t.mask(i, from, end, rule)
		return
	}
	for at := from + 1; at < end; at++ {
		if q := s[at]; q == '"' || q == '\'' {
			n := strings.IndexByte(s[at+1:end], q)
			if n < 0 {
				return
			}
			if isSecretValue(w, s[at+1:at+1+n], t.script) {
				t.mask(i, at+1, at+1+n, rule)
			}
			at += n + 1
		}
	}
}

// keyBefore returns the key that a separator follows, and where it begins.
func keyBefore(s string, at int) (key string, start int) {
	end := at
	for end > 0 && (isBlank(s[end-1]) || s[end-1] == ':' || s[end-1] == '+' || s[end-1] == '?') {
		end--
	}
	for end > 0 && (s[end-1] == '\\' || s[end-1] == '"' || s[end-1] == '\'' || s[end-1] == ']') {
		end--
	}
	start = end
	for start > 0 && end-start < 120 && (isWordByte(s[start-1]) || strings.IndexByte("-./", s[start-1]) >= 0) {
		start--
	}
	for n := 0; n < 3 && start > 1 && isBlank(s[start-1]) && isWordByte(s[start-2]) && isPartOfKey(s[start:end]); n++ {
		start--
		for start > 0 && end-start < 120 && isWordByte(s[start-1]) {
			start--
		}
	}
	return s[start:end], start
}

// isPartOfKey reports whether a key is only the end of one of several words: Unseal Key 1.
func isPartOfKey(key string) bool {
	first, _, _ := strings.Cut(key, " ")
	return strings.Trim(first, "0123456789") == "" || lowerASCII(first) == "key"
}

// endsQuote reports whether a quote that begins at or behind an offset ends a text which the separator is in.
func endsQuote(s string, at, from int) bool {
	for from < len(s) && isBlank(s[from]) {
		from++
	}
	return from < len(s) && s[from] == '"' && at < 1000 && strings.Count(s[:at], `"`)%2 == 1 && strings.Count(s[:at], `\"`) == 0
}

// assignment is how a value follows its key.
type assignment struct {
	start  int
	sep    byte
	spaced bool
}

// valueAt finds a value that begins at or behind an offset.
func (t *text) valueAt(s string, from int, a assignment) (int, int) {
	blank := from < len(s) && isBlank(s[from])
	for from < len(s) && isBlank(s[from]) {
		from++
	}
	if from >= len(s) {
		return from, from
	}
	if s[from] == '\\' && from+1 < len(s) && (s[from+1] == '"' || s[from+1] == '\'') {
		end := strings.Index(s[from+2:], s[from:from+2])
		if end < 0 {
			return from + 2, len(s)
		}
		return from + 2, from + 2 + end
	}
	if from+1 < len(s) && strings.IndexByte("bruf@$", s[from]) >= 0 && (s[from+1] == '"' || s[from+1] == '\'') {
		from++
	}
	if q := s[from]; q == '"' || q == '\'' || q == '`' && !t.script {
		return from + 1, quoteEnd(s, from)
	}
	return from, t.bareEnd(s, from, a, blank)
}

// quoteEnd is where a quoted value ends.
func quoteEnd(s string, from int) int {
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

// bareEnd is where a value without quotes ends.
func (t *text) bareEnd(s string, from int, a assignment, blank bool) int {
	if strings.HasPrefix(s[from:], "${") || strings.HasPrefix(s[from:], "{{") || strings.HasPrefix(s[from:], "$(") {
		return referenceEnd(s, from)
	}
	head := strings.TrimLeft(s[:a.start], " \t-\"'#;")
	for _, p := range []string{"export ", "set ", "SetEnv ", "setenv ", "local ", "ENV ", "ARG ", "declare ", "readonly "} {
		head = strings.TrimPrefix(head, p)
	}
	first := strings.TrimSpace(head) == ""
	switch {
	case first && strings.HasPrefix(s[from:], "["):
		return listEnd(s, from)
	case first && a.sep == ':' && blank, first && a.sep == '=' && (a.spaced || blank):
		return lineEnd(s, from)
	case first && a.sep == '=' && !t.script:
		return lineEnd(s, from)
	}
	stop := " \t,;&|)]}>\"'`"
	if a.start > 0 && (s[a.start-1] == '?' || s[a.start-1] == '&') {
		stop = " \t&#\"'`<>)]}\\"
	} else if strings.HasPrefix(s[a.start:], "-") && a.sep == '=' {
		stop = " \t|)\"'`"
	}
	for i := from; i < len(s); i++ {
		if strings.IndexByte(stop, s[i]) >= 0 {
			return i
		}
		if s[i] == '\\' && i+1 < len(s) && s[i+1] == '"' {
			return i
		}
	}
	return len(s)
}

func referenceEnd(s string, from int) int {
	for i := from; i < len(s); i++ {
		if isBlank(s[i]) || s[i] == '"' || s[i] == '\'' || s[i] == ',' {
			return i
		}
	}
	return len(s)
}

func listEnd(s string, from int) int {
	if n := strings.LastIndexByte(s, ']'); n > from {
		return n + 1
	}
	return len(s)
}

// lineEnd is where a value ends that has the rest of its line.
func lineEnd(s string, from int) int {
	end := len(s)
	for _, mark := range []string{" #", "\t#", " ;", " //"} {
		if n := strings.Index(s[from:end], mark); n >= 0 {
			end = from + n
		}
	}
	return from + len(strings.TrimRight(s[from:end], " \t,;\\\"'"))
}

// directives masks the second word of a line whose first word names a secret: auth_pass hunter2.
func directives(t *text, i int, rule string) {
	s := t.line(i)
	if isComment(s) {
		s = strings.TrimLeft(s, " \t#;/")
	}
	offset := len(t.line(i)) - len(s)
	words := tokens(s)
	if n := indexToken(words, "#"); n >= 0 {
		words = words[:n]
	}
	if len(words) != 2 && len(words) != 3 || strings.ContainsAny(words[0].s, "=:(){}<>$/") || strings.HasPrefix(words[1].s, "<") {
		return
	}
	if len(words) == 3 && weigh(words[0].s) == strongSecret && len(words[1].s) > 7 && strings.ContainsAny(words[1].s, "0123456789") && !isName(words[1].s) {
		words = words[:2] // more words follow: cachemgr_passwd x all
	}
	key, value := words[0], words[len(words)-1]
	w := weigh(key.s)
	if len(words) == 3 {
		if w = weigh(words[1].s); words[0].s != "enable" && words[0].s != "set" && words[0].s != "requirepass" || strings.ContainsAny(words[1].s, "=:") {
			return
		}
	}
	if w == opaqueSecret || w == notSecret || strings.HasPrefix(key.s, "-") || strings.HasPrefix(value.s, "=") || strings.HasSuffix(value.s, ":") {
		return
	}
	if w == wordSecret && !isOpaque(value.s) && !(strings.ContainsAny(value.s, "0123456789") && len(value.s) > 7) && s[value.start-1] != '"' {
		return
	}
	if value.s == "{" || value.s == "=" || strings.HasSuffix(value.s, ".so") || offset > 0 && isComment(t.line(i)) && !isOpaque(value.s) {
		return
	}
	if isSecretValue(w, value.s, t.script) {
		t.mask(i, offset+value.start, offset+value.end, rule)
	}
}

func indexToken(words []token, prefix string) int {
	for n, w := range words {
		if strings.HasPrefix(w.s, prefix) && n > 0 {
			return n
		}
	}
	return -1
}

// options masks the value of an option that names a secret: --token hunter2.
func options(t *text, i int, rule string) {
	s := t.line(i)
	for at := strings.Index(s, "-"); at >= 0 && at < len(s); {
		end := at
		for end < len(s) && (isWordByte(s[end]) || s[end] == '-' || s[end] == '.') {
			end++
		}
		if at == 0 || strings.IndexByte(" \t\"'`([,", s[at-1]) >= 0 {
			maskOption(t, i, s, at, end, rule)
		}
		next := strings.Index(s[end:], "-")
		if next < 0 {
			return
		}
		at = end + next
	}
}

// maskOption masks what follows one option, if it has a value of its own.
func maskOption(t *text, i int, s string, at, end int, rule string) {
	if end-at < 4 {
		return
	}
	w := weigh(s[at:end])
	from := end
	for from < len(s) && strings.IndexByte(" \t\"',", s[from]) >= 0 {
		from++
	}
	if w == notSecret || from == end || from >= len(s) || s[from] == '-' {
		return
	}
	if (s[from-1] == '"' || s[from-1] == '\'') && from-1 > end {
		end = quoteEnd(s, from-1)
	} else {
		for end = from; end < len(s) && strings.IndexByte(" \t\"',;|)`", s[end]) < 0; {
			end++
		}
	}
	if isSecretValue(w, s[from:end], true) {
		t.mask(i, from, end, rule)
	}
}
