package secret

import "strings"

// urlPasswords masks the passwords in addresses: https://user:x@host, also where the password has a slash.
func urlPasswords(t *text, i int, rule string) {
	s := t.line(i)
	for at := 0; at < len(s); {
		n := strings.Index(s[at:], "://")
		skip := len("://")
		if m := strings.Index(s[at:], "iscsi:"); m >= 0 && (n < 0 || m < n) {
			n, skip = m, len("iscsi:")
		}
		if n < 0 {
			return
		}
		start := at + n + skip
		end := start
		for end < len(s) && strings.IndexByte(" \t\"'<>`", s[end]) < 0 {
			end++
		}
		maskUserinfo(t, i, s, start, end, rule)
		at = max(start, end)
	}
}

// maskUserinfo masks the password in s[start:end], which follows :// and has no blank.
func maskUserinfo(t *text, i int, s string, start, end int, rule string) {
	if n := strings.Index(s[start:end], "://"); n >= 0 {
		maskUserinfo(t, i, s, start+n+3, end, rule) // a list of addresses
		end = start + n
		if c := strings.LastIndexByte(s[start:end], ','); c >= 0 {
			end = start + c
		}
	}
	authority := s[start:end]
	if n := strings.IndexAny(authority, "/?#"); n >= 0 {
		head := authority[:n]
		port := head[strings.LastIndexByte(head, ':')+1:]
		if strings.Contains(head, "@") || !strings.Contains(head, ":") || strings.Trim(port, "0123456789") == "" || strings.ContainsAny(head, "[]$") {
			authority = head
		}
	}
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		return
	}
	colon := strings.IndexByte(authority[:at], ':')
	if colon >= 0 && strings.HasPrefix(authority, "${") && strings.Index(authority, "}") > colon {
		if colon = strings.Index(authority[:at], "}:"); colon >= 0 {
			colon++
		}
	}
	if colon < 0 {
		if isOpaque(authority[:at]) && !isHex(authority[:at]) {
			t.mask(i, start, start+at, rule) // a token in place of the user
		}
		return
	}
	if password := authority[colon+1 : at]; !isMark(password) && !(isReference(password, true) && (strings.ContainsAny(password, "$<{*%") || strings.ToUpper(password) == password)) {
		t.mask(i, start+colon+1, start+at, rule)
	}
}

// authorizations masks credentials behind the name of a header, and behind Bearer and Basic wherever they stand.
func authorizations(t *text, i int, rule string) {
	s, lower := t.line(i), t.lowerLine(i)
	for _, header := range []string{"authorization", "api-key", "apikey", "private-token", "auth-token", "vault-token"} {
		for at := 0; ; {
			n := strings.Index(lower[at:], header)
			if n < 0 {
				break
			}
			at += n + len(header)
			maskHeader(t, i, s, at, rule)
		}
	}
	for _, scheme := range []string{"bearer", "basic", "token "} {
		for at := 0; ; {
			n := strings.Index(lower[at:], scheme)
			if n < 0 {
				break
			}
			start := at + n
			at += n + len(scheme)
			if start > 0 && (isWordByte(s[start-1]) || s[start-1] == '-') {
				continue
			}
			from, end := credentialAt(s, at)
			v := s[from:end]
			if from > at-1 && (from > at || scheme == "token ") && !isReference(v, true) && (scheme == "basic" && isLogin(v) || scheme != "basic" && isOpaque(v)) {
				t.mask(i, from, end, rule)
			}
		}
	}
}

// credentialAt finds a word of a token behind blanks, %20 and +.
func credentialAt(s string, from int) (int, int) {
	for from < len(s) && (isBlank(s[from]) || strings.HasPrefix(s[from:], "%20")) {
		if s[from] == '%' {
			from += 2
		}
		from++
	}
	end := from
	for end < len(s) && (isWordByte(s[end]) || strings.IndexByte("+/=.~-:!*$^&%@", s[end]) >= 0) {
		end++
	}
	return from, end
}

// schemes stand before the credential in a header.
var schemes = wordSet("bearer basic token digest apikey negotiate ntlm key splunk genie-key bot client-id")

// maskHeader masks the value of a header whose name ends at an offset.
func maskHeader(t *text, i int, s string, at int, rule string) {
	from := at
	for from < len(s) && strings.IndexByte("\\\"' \t:=,", s[from]) >= 0 {
		from++
	}
	if from == at || from >= len(s) {
		return
	}
	start, end := credentialAt(s, from)
	if schemes[lowerASCII(strings.TrimRight(s[start:end], ":="))] {
		if start, end = credentialAt(s, end); start < end && !isReference(s[start:end], true) && !isName(s[start:end]) {
			t.mask(i, start, end, rule)
		}
		return
	}
	v := s[start:end]
	if len(v) > 7 && strings.ContainsAny(v, "0123456789") && !isReference(v, true) && !isName(v) && !strings.Contains(v, "::") {
		t.mask(i, start, end, rule)
	}
}

// xmlElements masks the text of elements and attributes of XML whose name names a secret.
func xmlElements(t *text, i int, rule string) {
	s := t.line(i)
	for at := 0; ; {
		n := strings.IndexByte(s[at:], '<')
		if n < 0 {
			return
		}
		start := at + n + 1
		at = start
		end := start
		for end < len(s) && (isWordByte(s[end]) || strings.IndexByte("-.:", s[end]) >= 0) {
			end++
		}
		if w := weigh(s[start:end]); end < len(s) && s[end] == '>' && (w == wordSecret || w == strongSecret) {
			stop := strings.Index(s[end:], "</")
			if stop < 0 {
				continue // a placeholder
			}
			if isSecretValue(w, s[end+1:end+stop], false) {
				t.mask(i, end+1, end+stop, rule)
			}
		}
	}
}
