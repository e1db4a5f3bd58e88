package secret

import (
	"strings"

	"github.com/bunsen-os/bunsen/internal/policy/secret/classify"
	"github.com/bunsen-os/bunsen/internal/policy/secret/syntax"
)

// urlPasswords masks the passwords in URLs: https://user:x@host, also if the password contains a slash.
func urlPasswords(l line) {
	for at := 0; ; {
		start := authorityStart(l.s, at)
		if start < 0 {
			return
		}
		at = syntax.WordEnd(l.s, start, " \t\"'<>`")
		maskUserinfo(l, start, at)
	}
}

// authorityStart returns the end of the next scheme of a URL; -1 if there is none.
func authorityStart(s string, from int) int {
	start := -1
	for _, scheme := range []string{"://", "iscsi:"} {
		if n := strings.Index(s[from:], scheme); n >= 0 && (start < 0 || from+n+len(scheme) < start) {
			start = from + n + len(scheme)
		}
	}
	return start
}

// maskUserinfo masks the password in the part of a URL after ://, which contains no blank.
func maskUserinfo(l line, start, end int) {
	if n := strings.Index(l.s[start:end], "://"); n >= 0 {
		maskUserinfo(l, start+n+3, end) // The rest may be a list of URLs.
		end = start + n
		if c := strings.LastIndexByte(l.s[start:end], ','); c >= 0 {
			end = start + c
		}
	}
	authority := authorityOf(l.s[start:end])
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		return
	}
	userinfo := authority[:at]
	colon := strings.IndexByte(userinfo, ':')
	if colon >= 0 && strings.HasPrefix(authority, "${") && strings.Index(authority, "}") > colon {
		colon = strings.Index(userinfo, "}:")
		if colon >= 0 {
			colon++
		}
	}
	switch {
	case colon >= 0 && isURLPassword(userinfo[colon+1:]):
		l.mask(start+colon+1, start+at)
	case colon < 0 && classify.IsRandom(userinfo) && !classify.IsHex(userinfo):
		l.mask(start, start+at) // The user is a token.
	}
}

// authorityOf returns the part of a URL that can contain a password: the host with the user. A password can contain a
// slash, so authorityOf returns the whole rest of the URL, unless the part before the slash is a host.
func authorityOf(rest string) string {
	n := strings.IndexAny(rest, "/?#")
	if n < 0 {
		return rest
	}
	host := rest[:n]
	port := host[strings.LastIndexByte(host, ':')+1:]
	if strings.Contains(host, "@") || !strings.Contains(host, ":") || strings.Trim(port, "0123456789") == "" ||
		strings.ContainsAny(host, "[]$") {
		return host
	}
	return rest
}

func isURLPassword(v string) bool {
	isVariable := classify.IsReference(v, true) && (strings.ContainsAny(v, "$<{*%") || strings.ToUpper(v) == v)
	return !classify.IsMark(v) && !isVariable
}

// authorizations masks the credentials of HTTP headers, and those after Bearer and Basic anywhere.
func authorizations(l line) {
	for _, header := range []string{
		"authorization", "api-key", "apikey", "private-token", "auth-token",
		"vault-token",
	} {
		for at := range occurrences(l.lower(), header) {
			maskHeader(l, at+len(header))
		}
	}
	for _, scheme := range []string{"bearer", "basic", "token "} {
		for at := range occurrences(l.lower(), scheme) {
			if at == 0 || !classify.IsWordByte(l.s[at-1]) && l.s[at-1] != '-' {
				maskCredential(l, scheme, at+len(scheme))
			}
		}
	}
}

// occurrences yields the offsets of a word in a text.
func occurrences(s, word string) func(func(int) bool) {
	return func(yield func(int) bool) {
		for at := 0; ; at += len(word) {
			n := strings.Index(s[at:], word)
			if n < 0 || !yield(at+n) {
				return
			}
			at += n
		}
	}
}

// maskCredential masks the credential after the name of a scheme, which ends at an offset.
func maskCredential(l line, scheme string, at int) {
	from, end := credentialAt(l.s, at)
	v := l.s[from:end]
	isSecret := classify.IsRandom(v)
	if scheme == "basic" {
		isSecret = classify.IsLogin(v)
	}
	if isSecret && (from > at || scheme == "token ") && !classify.IsReference(v, true) {
		l.mask(from, end)
	}
}

// credentialAt returns the bounds of the credential after blanks and %20.
func credentialAt(s string, from int) (int, int) {
	for from < len(s) && (syntax.IsBlank(s[from]) || strings.HasPrefix(s[from:], "%20")) {
		if s[from] == '%' {
			from += 2
		}
		from++
	}
	end := from
	for end < len(s) && (classify.IsWordByte(s[end]) || strings.IndexByte("+/=.~-:!*$^&%@", s[end]) >= 0) {
		end++
	}
	return from, end
}

// schemes are the names of authentication schemes, which precede the credential in a header.
var schemes = classify.WordSet("bearer basic token digest apikey negotiate ntlm key splunk genie-key bot client-id")

// maskHeader masks the value of a header whose name ends at an offset.
func maskHeader(l line, at int) {
	s, from := l.s, at
	for from < len(s) && strings.IndexByte("\\\"' \t:=,", s[from]) >= 0 {
		from++
	}
	if from == at || from >= len(s) {
		return
	}
	start, end := credentialAt(s, from)
	v := s[start:end]
	isSecret := len(v) > 7 && strings.ContainsAny(v, "0123456789") && !strings.Contains(v, "::")
	if schemes[classify.LowerASCII(strings.TrimRight(v, ":="))] {
		start, end = credentialAt(s, end)
		v, isSecret = s[start:end], start < end
	}
	if isSecret && !classify.IsReference(v, true) && !classify.IsName(v) {
		l.mask(start, end)
	}
}

// xmlElements masks the text of XML elements whose name names a secret.
func xmlElements(l line) {
	s := l.s
	for at := range occurrences(s, "<") {
		end := at + 1
		for end < len(s) && (classify.IsWordByte(s[end]) || strings.IndexByte("-.:", s[end]) >= 0) {
			end++
		}
		c := classify.Key(s[at+1 : end])
		if end >= len(s) || s[end] != '>' || c < classify.UnlessName {
			continue
		}
		if stop := strings.Index(s[end:], "</"); stop >= 0 && classify.IsSecret(c, s[end+1:end+stop], false) {
			l.mask(end+1, end+stop)
		}
	}
}
