package secret

import (
	"strings"
	"unicode/utf8"
)

// text is a content while the rules look at it.
type text struct {
	path  string
	body  string
	lower string // body in lower case, at the same offsets
	lines []line
	// table are the rules, for texts within this one, depth counts the texts that this one was found in,
	// and decoded the bytes of those within it.
	table          []Rule
	depth, decoded int
	// paths are those of the files that the lines belong to, where the text itself describes files.
	paths []string
	// script tells that the text is a program of a shell.
	script bool
	// translation tells that the text has the words of a program in a language.
	translation bool
	// encrypted tells of each line whether it stands in a part that is encrypted.
	encrypted map[int]bool
	spans     []span
}

// line is where a line is, without its end.
type line struct{ start, end int }

func newText(path, body string) *text {
	t := &text{path: path, body: body, lower: lowerASCII(body)}
	for at := 0; ; {
		n := strings.IndexByte(body[at:], '\n')
		if n < 0 {
			t.lines = append(t.lines, line{at, len(strings.TrimSuffix(body, "\r"))})
			break
		}
		end := at + n
		if end > at && body[end-1] == '\r' {
			end--
		}
		t.lines = append(t.lines, line{at, end})
		at += n + 1
	}
	if last := &t.lines[len(t.lines)-1]; last.end < last.start {
		last.end = last.start
	}
	t.script = strings.HasPrefix(body, "#!") || strings.HasSuffix(path, ".sh") || strings.HasSuffix(path, ".bash") || strings.HasSuffix(path, ".profile")
	t.translation = translation.MatchString(path)
	t.findPaths()
	t.findEncrypted()
	return t
}

// lowerASCII lowers the letters of ASCII alone, so that offsets stay.
func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

func (t *text) line(i int) string      { return t.body[t.lines[i].start:t.lines[i].end] }
func (t *text) lowerLine(i int) string { return t.lower[t.lines[i].start:t.lines[i].end] }

// pathOf is the path of the file that a line belongs to.
func (t *text) pathOf(i int) string {
	if t.paths != nil && t.paths[i] != "" {
		return t.paths[i]
	}
	return t.path
}

// mask marks a part of a line, given by offsets within the line. What is masked already stays.
func (t *text) mask(i, start, end int, rule string) { t.add(i, start, end, rule, false) }

func (t *text) add(i, start, end int, rule string, continued bool) {
	l := t.lines[i]
	if t.encrypted[i] || inTemplate(t.line(i), start) {
		return
	}
	if start >= end || l.start+end > l.end || isMark(strings.Trim(t.body[l.start+start:l.start+end], `"', ;`)) || inMark(t.line(i), start, end) {
		return
	}
	t.spans = append(t.spans, span{l.start + start, l.start + end, rule, continued})
}

// maskLine marks all of a line but the blanks around it.
func (t *text) maskLine(i int, rule string) { t.maskRest(i, 0, rule, false) }

// maskRest marks a line from an offset on, but the blanks around it.
func (t *text) maskRest(i, from int, rule string, continued bool) {
	s := t.line(i)
	for from < len(s) && isBlank(s[from]) {
		from++
	}
	end := len(s)
	for end > from && isBlank(s[end-1]) {
		end--
	}
	t.add(i, from, end, rule, continued)
}

// findEncrypted notes the lines of sealed secrets.
func (t *text) findEncrypted() {
	if !strings.Contains(t.body, "encryptedData") {
		return
	}
	t.encrypted = map[int]bool{}
	for i := range t.lines {
		if key, _, ok := yamlKey(t.line(i)); !ok || key != "encryptedData" {
			continue
		}
		for n, end := i+1, t.blockEnd(i); n < end; n++ {
			t.encrypted[n] = true
		}
	}
}

// inTemplate reports whether an offset is within the braces of a template: {{ .Password }}.
func inTemplate(s string, at int) bool {
	if at > 2000 || at > len(s) {
		return false
	}
	return strings.LastIndex(s[:at], "{{") > strings.LastIndex(s[:at], "}}")
}

// inMark reports whether a part of a line lies within a mark.
func inMark(s string, start, end int) bool {
	for at := 0; at < end; {
		n := strings.Index(s[at:], "(hidden")
		if n < 0 || at+n > start {
			return false
		}
		stop := strings.IndexByte(s[at+n:], ')')
		if stop < 0 {
			return false
		}
		if isMark(s[at+n:at+n+stop+1]) && end <= at+n+stop+1 {
			return true
		}
		at += n + 1
	}
	return false
}

// isMark reports whether a value is masked already.
func isMark(v string) bool {
	if v == Hidden {
		return true
	}
	rest, ok := strings.CutPrefix(v, "(hidden, sha256 ")
	return ok && len(rest) == len("ab12…)") && strings.HasSuffix(rest, "…)")
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

// indentOf counts the blanks that a line begins with.
func indentOf(s string) int { return len(s) - len(strings.TrimLeft(s, " \t")) }

func isComment(s string) bool {
	s = strings.TrimLeft(s, " \t")
	return strings.HasPrefix(s, "#") || strings.HasPrefix(s, ";") || strings.HasPrefix(s, "//")
}

func containsAny(s string, words []string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return len(words) == 0
}

// isBinary tells of a content that has no lines to mask.
func isBinary(s string) bool { return !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 }

// token is one word of a line, without the quotes around it.
type token struct {
	start, end int
	s          string
}

// tokens splits a line at blanks; quotes keep words together.
func tokens(s string) (out []token) {
	for i := 0; i < len(s); {
		if isBlank(s[i]) {
			i++
			continue
		}
		start := i
		for i < len(s) && !isBlank(s[i]) {
			if q := s[i]; q == '"' || q == '\'' {
				if n := strings.IndexByte(s[i+1:], q); n >= 0 && (i == start || s[i-1] == '=') {
					i += n + 1
				}
			}
			i++
		}
		end := i
		for end > start+1 && (s[end-1] == ';' || s[end-1] == ',') {
			end--
		}
		if q := s[start]; (q == '"' || q == '\'') && end-start >= 2 && s[end-1] == q {
			out = append(out, token{start + 1, end - 1, s[start+1 : end-1]})
			continue
		}
		out = append(out, token{start, end, s[start:end]})
	}
	return out
}
