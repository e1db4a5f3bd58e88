package secret

import (
	"regexp"
	"sort"
	"strings"

	"github.com/bunsen-os/bunsen/internal/policy/secret/syntax"
)

var secretKind = regexp.MustCompile(`^[\s-]*["']?kind["']?\s*:\s*["']?Secret["']?,?\s*(?:#.*)?$`)

// kubernetesSecrets masks the values of data and stringData of each Secret in YAML and JSON.
func kubernetesSecrets(t *text, rule string) {
	done := map[int]int{} // done has, by depth, the number of the line after the last object.
	for i := range t.lines {
		if !strings.Contains(t.line(i), "Secret") || !secretKind.MatchString(t.line(i)) {
			continue
		}
		depth := syntax.YAMLIndent(t.line(i))
		if i < done[depth] {
			continue
		}
		from := i
		for from > done[depth] && belongsTo(t, from, from-1, depth) {
			from--
		}
		for n := from; n < len(t.lines) && (n <= i || belongsTo(t, n-1, n, depth)); n++ {
			key, rest, ok := syntax.YAMLKey(t.line(n))
			if ok && syntax.YAMLIndent(t.line(n)) == depth && (key == "data" || key == "stringData") {
				maskMembers(t.at(n, rule), rest)
			}
			done[depth] = n + 1
		}
	}
	if secretObject.MatchString(t.body) {
		maskJSONMembers(t, rule)
	}
}

// belongsTo reports whether a line near another line belongs to the same YAML object. The parameter depth is the
// indentation of the object's keys.
func belongsTo(t *text, at, neighbour, depth int) bool {
	s := t.line(neighbour)
	if strings.TrimSpace(s) == "" || strings.HasPrefix(strings.TrimSpace(s), "#") {
		return true
	}
	if strings.HasPrefix(s, "---") || strings.HasPrefix(s, "...") {
		return false
	}
	if neighbour > at && strings.HasPrefix(strings.TrimLeft(s, " "), "- ") && syntax.Indent(s) < depth {
		return false
	}
	if neighbour < at && strings.HasPrefix(strings.TrimLeft(t.line(at), " "), "- ") &&
		syntax.Indent(t.line(at)) < depth && syntax.YAMLIndent(t.line(at)) == depth {
		return false // The object begins at the line with its dash.
	}
	return syntax.YAMLIndent(s) >= depth
}

// maskMembers masks the values of the mapping below a line.
func maskMembers(l line, rest string) {
	if strings.HasPrefix(strings.TrimSpace(rest), "{") {
		maskFlow(l)
		return
	}
	t, rule, end := l.t, l.rule, l.t.blockEnd(l.i)
	for n := l.i + 1; n < end; n++ {
		s := t.line(n)
		_, rest, ok := syntax.YAMLKey(s)
		if !ok || strings.HasPrefix(strings.TrimSpace(s), "#") {
			continue
		}
		if syntax.IsBlockStart(strings.TrimSpace(strings.SplitN(rest, " #", 2)[0])) || strings.TrimSpace(rest) == "" {
			stop := min(t.blockEnd(n), end)
			t.maskLines(n+1, stop, rule)
			n = stop - 1
			continue
		}
		from := strings.Index(s, ":") + 1
		from += syntax.Indent(s[from:])
		start, stop := syntax.TrimQuotes(s[:syntax.YAMLLineEnd(s, from)], from)
		if v := s[start:stop]; !strings.HasPrefix(v, "ENC[") && !strings.HasPrefix(v, "${") &&
			!strings.HasPrefix(v, "$(") && !strings.HasPrefix(v, "{{") {
			t.at(n, rule).mask(start, stop)
		}
		for n+1 < end && syntax.Indent(t.line(n+1)) > syntax.YAMLIndent(s) { // The value has several lines.
			n++
			t.at(n, rule).maskRest(0, true)
		}
	}
}

// flowValue matches a value in {a: b, c: "d"}.
var flowValue = regexp.MustCompile(`:\s*(?:"([^"]*)"|'([^']*)'|([^\s,{}"'\[\]][^,{}]*))`)

// maskFlow masks the values of a mapping in braces.
func maskFlow(l line) {
	from := strings.Index(l.s, "{")
	for _, m := range flowValue.FindAllStringSubmatchIndex(l.s[from:], -1) {
		for g := range m {
			if m[g] >= 0 {
				m[g] += from
			}
		}
		l.maskGroups(m, notReference)
	}
}

var (
	secretObject = regexp.MustCompile(`"kind"\s*:\s*"Secret"`)
	jsonMembers  = regexp.MustCompile(`"(?:data|stringData)"\s*:\s*\{`)
	jsonString   = regexp.MustCompile(`:\s*"((?:[^"\\]|\\.)*)"`)
)

// maskJSONMembers masks the strings of each flat object data and stringData of a text of JSON that has a Secret.
func maskJSONMembers(t *text, rule string) {
	done := 0 // Each part of the text is read only once, because an object without an end contains all later objects.
	for _, m := range jsonMembers.FindAllStringIndex(t.body, -1) {
		if m[0] < done {
			continue
		}
		end := strings.IndexByte(t.body[m[1]:], '}')
		if end < 0 {
			end = len(t.body) - m[1]
		}
		done = m[1] + end
		i := sort.Search(len(t.lines), func(i int) bool { return t.lines[i].end >= m[1] })
		for ; i < len(t.lines) && t.lines[i].start < m[1]+end; i++ {
			l := t.lines[i]
			from, stop := max(l.start, m[1]), min(l.end, m[1]+end)
			for _, v := range jsonString.FindAllStringSubmatchIndex(t.body[from:max(from, stop)], -1) {
				if notReference(t.body[from+v[2] : from+v[3]]) {
					t.at(i, rule).mask(from+v[2]-l.start, from+v[3]-l.start)
				}
			}
		}
	}
}
