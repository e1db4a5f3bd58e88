package secret

import (
	"strings"

	"github.com/bunsen-os/bunsen/internal/policy/secret/classify"
	"github.com/bunsen-os/bunsen/internal/policy/secret/syntax"
)

// beginMark and endMark are the beginnings of the first and the last line of a block in PEM.
const (
	beginMark = "-----BEGIN "
	endMark   = "-----END "
)

// linePrefix are characters that can precede a line of PEM: blanks, comments, quotes, diffs and list marks.
const linePrefix = " \t#\"'+-;>|"

// privateKeys masks the bodies of private keys in PEM and of static keys.
func privateKeys(t *text, rule string) {
	lastEnd := strings.LastIndex(t.body, endMark)
	for i := 0; i < len(t.lines); i++ {
		l := t.at(i, rule)
		begin, body, ok := maskKeysInLine(l)
		if !ok {
			continue
		}
		rest := l.s[body:]
		trimmed := strings.TrimLeft(rest, `\nr `)
		if strings.HasPrefix(rest, " ") && isKeyText(strings.TrimSpace(rest)) {
			l.maskRest(body, false)
		} else if strings.HasPrefix(rest, `\n`) || len(trimmed) > 32 && isKeyText(trimmed) {
			l.mask(len(l.s)-len(trimmed), len(strings.TrimRight(l.s, " \t\\\"',;")))
		}
		b := keyBody{
			hasEnd: i+1 < len(t.lines) && t.lines[i+1].start <= lastEnd,
			alone:  strings.Trim(l.s, linePrefix) == strings.Trim(l.s[begin:body], linePrefix),
		}
		i = b.mask(t, i+1, rule) - 1
	}
}

// maskKeysInLine masks the keys that begin and end on a line. ok is true for a key that does not end on the line: the
// key begins at begin, and its body at body.
func maskKeysInLine(l line) (begin, body int, ok bool) {
	for at := 0; ; {
		n := strings.Index(l.s[at:], beginMark)
		if n < 0 {
			return 0, 0, false
		}
		begin = at + n
		at = begin + len(beginMark)
		head := strings.Index(l.s[at:], "-----")
		if head < 0 || !classify.IsPrivateKeyHead(l.s[begin:at+head]) {
			continue
		}
		at += head + len("-----")
		end := strings.Index(l.s[at:], endMark)
		if end < 0 {
			return begin, at, true
		}
		maskInlineKey(l, at, at+end)
		at += end
	}
}

// maskInlineKey masks a body on the line of its BEGIN, without the escaped line breaks around it.
func maskInlineKey(l line, start, end int) {
	s := l.s
	for start < end && (syntax.IsBlank(s[start]) || strings.HasPrefix(s[start:end], `\n`) ||
		strings.HasPrefix(s[start:end], `\r`) || strings.HasPrefix(s[start:end], `\\n`)) {
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
		l.mask(start, end)
	}
}

// keyBody is the body of a key on several lines.
type keyBody struct {
	// hasEnd is true if a line END follows. A body without such a line ends at the first line that does not look like a
	// key.
	hasEnd bool
	// alone is true if BEGIN is alone on its line, so that the body has at least one line.
	alone bool
}

// mask masks the lines of the body and returns the number of the next line.
func (b keyBody) mask(t *text, from int, rule string) int {
	continued := false
	for i := from; i < len(t.lines); i++ {
		l := t.at(i, rule)
		s := strings.TrimLeft(l.s, linePrefix)
		isHeader, isEnd := b.header(s)
		switch {
		case strings.Contains(l.s, endMark):
			return i + 1
		case s == "" || classify.IsMark(s):
		case isEnd, !isHeader && b.mustLookLikeKey(continued) && !isKeyText(s):
			return i
		case !isHeader:
			start := len(l.s) - len(s)
			if first := strings.TrimLeft(l.s, " \t"); strings.IndexByte("#\"'", first[0]) < 0 {
				start = syntax.Indent(l.s)
			}
			l.maskRest(start, continued)
			continued = true
		}
	}
	return len(t.lines)
}

// header reports whether a line is a header of PEM, such as Proc-Type, or a key of YAML that ends the body.
func (b keyBody) header(s string) (isHeader, isEnd bool) {
	key, _, ok := strings.Cut(s, ": ")
	if !ok || strings.ContainsAny(key, " =+/") {
		return false, false
	}
	return true, !b.hasEnd && !strings.Contains(key, "-") && key != "Comment"
}

func (b keyBody) mustLookLikeKey(continued bool) bool {
	return (!b.hasEnd || !b.alone) && (!b.alone || continued)
}

// isKeyText reports whether a line could be part of a key: base64 without blanks.
func isKeyText(s string) bool {
	s = strings.TrimRight(s, " \t\\\"',;n")
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\\") == ""
}

// yamlBlocks masks values on the lines after their key: blocks of YAML, and a value on the next line.
func yamlBlocks(t *text, rule string) {
	for i := 0; i+1 < len(t.lines); i++ {
		key, rest, ok := syntax.YAMLKey(t.line(i))
		if !ok {
			continue
		}
		c := classify.Key(key)
		if c == classify.NotSecret {
			continue
		}
		rest, _, _ = strings.Cut(strings.TrimSpace(rest), " #")
		switch {
		case syntax.IsBlockStart(rest):
			maskBlock(t.at(i, rule), c)
		case rest == "" || strings.HasPrefix(rest, "#") || rest[0] == '!' && !strings.Contains(rest, "vault"):
			maskNext(t.at(i, rule), c)
		}
	}
}

// blockEnd returns the number of the line after the lines that are indented deeper than line i.
func (t *text) blockEnd(i int) int {
	depth := syntax.YAMLIndent(t.line(i))
	end := i + 1
	for n := i + 1; n < len(t.lines); n++ {
		s := t.line(n)
		if strings.TrimSpace(s) == "" {
			continue
		}
		if syntax.Indent(s) <= depth {
			break
		}
		end = n + 1
	}
	return end
}

// maskBlock masks the block of the key on a line. maskBlock leaves private keys and encrypted values to other rules.
func maskBlock(l line, c classify.Certainty) {
	end := l.t.blockEnd(l.i)
	body := l.t.body[l.t.lines[l.i].end:l.t.lines[end-1].end]
	if strings.Contains(body, beginMark) || strings.Contains(body, "$ANSIBLE_VAULT") || strings.Contains(body, "ENC[") {
		return
	}
	value := strings.TrimSpace(body)
	single := !strings.Contains(value, "\n")
	isDocument := c == classify.UnlessName && !single && strings.Contains(value, ": ")
	isName := c == classify.IfRandom && !classify.IsRandom(strings.Join(strings.Fields(value), ""))
	if isDocument || isName || single && !classify.IsSecret(c, value, l.t.script) {
		return
	}
	l.t.maskLines(l.i+1, end, l.rule)
}

func (t *text) maskLines(from, end int, rule string) {
	for n := from; n < end; n++ {
		t.at(n, rule).maskRest(0, n > from)
	}
}

// maskNext masks the value on the line after a key, or the elements of a list below the key.
func maskNext(l line, c classify.Certainty) {
	depth := syntax.YAMLIndent(l.s)
	continued := false
	for n := l.i + 1; n < len(l.t.lines); n++ {
		next := l.t.at(n, l.rule)
		v := strings.TrimSpace(next.s)
		if v == "" || strings.HasPrefix(v, "#") {
			continue
		}
		isElement := strings.HasPrefix(v, "- ")
		if !isValueLine(next.s, depth) {
			return
		}
		from := syntax.Indent(next.s)
		if isElement {
			from += 2 + syntax.Indent(next.s[from+2:])
		}
		from, stop := syntax.TrimQuotes(next.s, from)
		value := next.s[from:stop]
		mustBeRandom := c != classify.Always && (isElement || strings.Contains(value, "="))
		if !classify.IsSecret(c, value, l.t.script) || mustBeRandom && !classify.IsRandom(value) {
			return
		}
		next.maskPart(from, stop, continued && !isElement)
		continued = true
	}
}

// isValueLine reports whether a line can be a value of a key at a depth: a scalar, or an element of a list.
func isValueLine(s string, depth int) bool {
	v, indent := strings.TrimSpace(s), syntax.Indent(s)
	if indent < depth || indent == depth && !strings.HasPrefix(v, "- ") {
		return false
	}
	_, _, isMapping := syntax.YAMLKey(s)
	return !isMapping && !strings.HasPrefix(v, "-----") && v != "-" && !strings.HasSuffix(v, "{")
}
