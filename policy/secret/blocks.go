package secret

import (
	"strings"
)

// privateKeys masks the bodies of private keys in PEM and of static keys.
func privateKeys(t *text, rule string) {
	lastEnd := strings.LastIndex(t.body, "-----END ")
	for i := 0; i < len(t.lines); i++ {
		s := t.line(i)
		for at := 0; ; {
			n := strings.Index(s[at:], "-----BEGIN ")
			if n < 0 {
				break
			}
			at += n + len("-----BEGIN ")
			head := strings.Index(s[at:], "-----")
			if head < 0 || !isPrivateKeyHead("-----BEGIN "+s[at:at+head]) {
				continue
			}
			begin := at - len("-----BEGIN ")
			at += head + len("-----")
			if end := strings.Index(s[at:], "-----END "); end >= 0 {
				maskInlineKey(t, i, at, at+end, rule)
				at += end
				continue
			}
			if rest := strings.TrimSpace(s[at:]); strings.HasPrefix(s[at:], " ") && isKeyText(rest) {
				t.maskRest(i, at, rule, false)
			} else if rest := strings.TrimLeft(s[at:], `\nr `); strings.HasPrefix(s[at:], `\n`) || len(rest) > 32 && isKeyText(rest) {
				t.mask(i, at+len(s[at:])-len(rest), at+len(strings.TrimRight(s[at:], " \t\\\"',;")), rule)
			}
			i = maskKeyBody(t, i+1, lastEnd, strings.Trim(s, " \t#\"'+-;>|") == strings.Trim(s[begin:at], " \t#\"'+-;>|"), rule) - 1
			break
		}
	}
}

// maskInlineKey masks a body on the line of its BEGIN, with escaped line ends around it.
func maskInlineKey(t *text, i, start, end int, rule string) {
	s := t.line(i)
	for start < end && (isBlank(s[start]) || strings.HasPrefix(s[start:end], `\n`) || strings.HasPrefix(s[start:end], `\r`) || strings.HasPrefix(s[start:end], `\\n`)) {
		start += 1 + strings.Count(s[start:min(start+1, end)], `\`)
		if s[start-1] == '\\' {
			start++
		}
	}
	for {
		trimmed := strings.TrimRight(s[start:max(start, end)], " \t")
		trimmed = strings.TrimSuffix(strings.TrimSuffix(trimmed, `\n`), `\r`)
		trimmed = strings.TrimSuffix(trimmed, `\`)
		if start+len(trimmed) >= end {
			break
		}
		end = start + len(trimmed)
	}
	if start < end {
		t.mask(i, start, end, rule)
	}
}

// maskKeyBody masks the lines until the END of a key and returns the line behind. A key without an END ends where a line does
// not look like a key; one whose BEGIN stands alone on its line has at least one line.
func maskKeyBody(t *text, from, lastEnd int, alone bool, rule string) int {
	ends := from < len(t.lines) && t.lines[from].start <= lastEnd
	continued := false
	for i := from; i < len(t.lines); i++ {
		s := strings.TrimLeft(t.line(i), " \t#\"'+-;>|")
		if strings.Contains(t.line(i), "-----END ") {
			return i + 1
		}
		if s == "" || isMark(s) {
			continue
		}
		if key, _, ok := strings.Cut(s, ": "); ok && !strings.ContainsAny(key, " =+/") {
			if !ends && !strings.Contains(key, "-") && key != "Comment" {
				return i
			}
			continue
		}
		if (!ends || !alone) && (!alone || continued) && !isKeyText(s) {
			return i
		}
		start := len(t.line(i)) - len(s)
		if strings.IndexByte("#\"'", firstByte(strings.TrimLeft(t.line(i), " \t"))) < 0 {
			start = indentOf(t.line(i))
		}
		t.maskRest(i, start, rule, continued)
		continued = true
	}
	return len(t.lines)
}

// isKeyText reports whether a line could be one of a key: letters and digits of base64 without blanks.
func isKeyText(s string) bool {
	s = strings.TrimRight(s, " \t\\\"',;n")
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\\") == ""
}

func firstByte(s string) byte {
	if s == "" {
		return 0
	}
	return s[0]
}

// yamlBlocks masks values that stand below their key: blocks of YAML, and a value on the next line.
func yamlBlocks(t *text, rule string) {
	for i := 0; i+1 < len(t.lines); i++ {
		key, rest, ok := yamlKey(t.line(i))
		if !ok {
			continue
		}
		w := weigh(key)
		if w == notSecret {
			continue
		}
		rest = strings.TrimSpace(rest)
		if n := strings.Index(rest, " #"); n >= 0 {
			rest = rest[:n]
		}
		switch {
		case isBlockStart(rest):
			maskBlock(t, i, w, rule)
		case rest == "" || strings.HasPrefix(rest, "#") || rest[0] == '!' && !strings.Contains(rest, "vault"):
			maskNext(t, i, w, rule)
		}
	}
}

// yamlKey splits a line into a key and what follows its colon.
func yamlKey(s string) (key, rest string, ok bool) {
	s = strings.TrimLeft(s, " \t-")
	key, rest, ok = strings.Cut(s, ":")
	key = strings.Trim(key, `"' `)
	return key, rest, ok && key != "" && len(key) < 120 && !strings.ContainsAny(key, " \t={}") && (rest == "" || isBlank(rest[0]))
}

// isBlockStart reports whether a value of YAML stands in the lines below: |, >-, |2+.
func isBlockStart(rest string) bool {
	rest = strings.TrimSpace(rest)
	if f := strings.Fields(rest); len(f) == 2 && strings.HasPrefix(f[0], "!") && !strings.Contains(f[0], "vault") {
		rest = f[1] // a tag
	}
	return rest != "" && (rest[0] == '|' || rest[0] == '>') && strings.Trim(rest[1:], "+-123456789") == ""
}

// blockEnd is the line behind the lines that are indented deeper than line i.
func (t *text) blockEnd(i int) int {
	depth := yamlIndent(t.line(i))
	end := i + 1
	for n := i + 1; n < len(t.lines); n++ {
		s := t.line(n)
		if strings.TrimSpace(s) == "" {
			continue
		}
		if indentOf(s) <= depth {
			break
		}
		end = n + 1
	}
	return end
}

// yamlIndent is where the key of a line begins, behind the dashes of a list.
func yamlIndent(s string) int {
	n := indentOf(s)
	for strings.HasPrefix(s[n:], "- ") {
		n += 2 + indentOf(s[n+2:])
	}
	return n
}

// maskBlock masks the lines of a block; a private key keeps its first and last line.
func maskBlock(t *text, i int, w weight, rule string) {
	end := t.blockEnd(i)
	body := t.body[t.lines[i].end:t.lines[end-1].end]
	if strings.Contains(body, "-----BEGIN ") || strings.Contains(body, "$ANSIBLE_VAULT") || strings.Contains(body, "ENC[") {
		return // other rules
	}
	value := strings.TrimSpace(body)
	single := !strings.Contains(value, "\n")
	if single && !isSecretValue(w, value, t.script) || w == opaqueSecret && !isOpaque(strings.Join(strings.Fields(value), "")) {
		return
	}
	if w == wordSecret && !single && strings.Contains(value, ": ") {
		return // a document
	}
	t.maskLines(i+1, end, rule)
}

func (t *text) maskLines(from, end int, rule string) {
	for n := from; n < end; n++ {
		t.maskRest(n, 0, rule, n > from)
	}
}

// maskNext masks a value on the next line, and the elements of a list there.
func maskNext(t *text, i int, w weight, rule string) {
	depth := yamlIndent(t.line(i))
	continued := false
	for n := i + 1; n < len(t.lines); n++ {
		s := t.line(n)
		v := strings.TrimSpace(s)
		if v == "" || strings.HasPrefix(v, "#") {
			continue
		}
		element := strings.HasPrefix(v, "- ")
		if indentOf(s) < depth || indentOf(s) == depth && !element {
			return
		}
		_, _, mapping := yamlKey(s)
		if mapping || strings.HasPrefix(v, "-----") || v == "-" || strings.HasSuffix(v, "{") {
			return
		}
		from := indentOf(s)
		if element {
			from += 2 + indentOf(s[from+2:])
		}
		from, stop := trimQuotes(s, from)
		if !isSecretValue(w, s[from:stop], t.script) || element && w != strongSecret && !isOpaque(s[from:stop]) || strings.Contains(s[from:stop], "=") && w != strongSecret && !isOpaque(s[from:stop]) {
			return
		}
		t.add(n, from, stop, rule, continued && !element)
		continued = true
	}
}

func trimQuotes(s string, from int) (start, end int) {
	end = len(strings.TrimRight(s, " \t,"))
	if end-from >= 2 && (s[from] == '"' || s[from] == '\'') && s[end-1] == s[from] {
		return from + 1, end - 1
	}
	return from, max(from, end)
}
