package secret

import (
	"regexp"
	"strings"

	"github.com/bunsen-os/bunsen/internal/policy/secret/classify"
	"github.com/bunsen-os/bunsen/internal/policy/secret/syntax"
)

// text is a content with the state of its masking.
type text struct {
	path  string
	body  string
	lower string // lower is the body in lower case, with the same offsets.
	lines []bounds
	// table has the rules for encoded texts inside this text. depth is how deep this text is nested in encoded texts.
	// decoded counts the bytes of the encoded texts inside it.
	table          []Rule
	depth, decoded int
	// paths are the paths of the files to which the lines belong, if the text describes files.
	paths []string
	// script is true for a shell script.
	script bool
	// translation is true for the texts of a program in one language.
	translation bool
	// encrypted has the lines of encrypted parts.
	encrypted map[int]bool
	spans     []span
}

// bounds are the offsets of a line without its end.
type bounds struct{ start, end int }

func newText(path, body string) *text {
	t := &text{path: path, body: body, lower: classify.LowerASCII(body)}
	for at := 0; ; {
		n := strings.IndexByte(body[at:], '\n')
		if n < 0 {
			t.lines = append(t.lines, bounds{at, len(strings.TrimSuffix(body, "\r"))})
			break
		}
		end := at + n
		if end > at && body[end-1] == '\r' {
			end--
		}
		t.lines = append(t.lines, bounds{at, end})
		at += n + 1
	}
	if last := &t.lines[len(t.lines)-1]; last.end < last.start {
		last.end = last.start
	}
	t.script = strings.HasPrefix(body, "#!") || strings.HasSuffix(path, ".sh") || strings.HasSuffix(path, ".bash") ||
		strings.HasSuffix(path, ".profile")
	t.translation = translation.MatchString(path)
	t.findPaths()
	t.findEncrypted()
	return t
}

func (t *text) line(i int) string      { return t.body[t.lines[i].start:t.lines[i].end] }
func (t *text) lowerLine(i int) string { return t.lower[t.lines[i].start:t.lines[i].end] }

// pathOf returns the path of the file that a line belongs to.
func (t *text) pathOf(i int) string {
	if t.paths != nil && t.paths[i] != "" {
		return t.paths[i]
	}
	return t.path
}

// line is one line of a text that a rule masks.
type line struct {
	t    *text
	i    int
	s    string
	rule string
}

func (t *text) at(i int, rule string) line { return line{t, i, t.line(i), rule} }

func (l line) lower() string { return l.t.lowerLine(l.i) }

// mask masks a part of the line. mask does not mask marks, templates and encrypted parts.
func (l line) mask(start, end int) { l.maskPart(start, end, false) }

// maskPart masks a part of the line. The parameter continued is true if the secret began on an earlier line.
func (l line) maskPart(start, end int, continued bool) {
	from := l.t.lines[l.i].start
	if start >= end || end > len(l.s) || l.t.encrypted[l.i] || inTemplate(l.s, start) {
		return
	}
	if classify.IsMark(strings.Trim(l.s[start:end], `"', ;`)) || inMark(l.s, start, end) {
		return
	}
	l.t.spans = append(l.t.spans, span{from + start, from + end, l.rule, continued})
}

// maskRest masks the line from an offset, without the blanks at both ends.
func (l line) maskRest(from int, continued bool) {
	from = syntax.SkipBlanks(l.s, from)
	l.maskPart(from, max(from, len(strings.TrimRight(l.s, " \t\r"))), continued)
}

// maskGroups masks the groups of a match, as FindStringSubmatchIndex returns it, for which decide returns true.
func (l line) maskGroups(match []int, decide func(v string) bool) {
	for g := 2; g+1 < len(match); g += 2 {
		if match[g] >= 0 && decide(l.s[match[g]:match[g+1]]) {
			l.mask(match[g], match[g+1])
		}
	}
}

// translation matches files with the texts of a program in one language.
var translation = regexp.MustCompile(
	`(?:^|/)(?:locales?|i18n|lang|translations?|messages)/|/[a-z]{2}(?:[_-][A-Z]{2})?\.(?:ya?ml|json|po|properties|ini|toml)$`)

// findEncrypted records the lines of sealed secrets.
func (t *text) findEncrypted() {
	if !strings.Contains(t.body, "encryptedData") {
		return
	}
	t.encrypted = map[int]bool{}
	for i := range t.lines {
		if key, _, ok := syntax.YAMLKey(t.line(i)); !ok || key != "encryptedData" {
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
		if classify.IsMark(s[at+n:at+n+stop+1]) && end <= at+n+stop+1 {
			return true
		}
		at += n + 1
	}
	return false
}
