package secret

import (
	"regexp"
	"sort"
	"strings"
)

var secretKind = regexp.MustCompile(`^[\s-]*["']?kind["']?\s*:\s*["']?Secret["']?,?\s*(?:#.*)?$`)

// kubernetesSecrets masks the values of data and stringData of every Secret in YAML and JSON.
func kubernetesSecrets(t *text, rule string) {
	done := map[int]int{} // by depth, the line behind the last object
	for i := range t.lines {
		if !strings.Contains(t.line(i), "Secret") || !secretKind.MatchString(t.line(i)) {
			continue
		}
		depth := yamlIndent(t.line(i))
		if i < done[depth] {
			continue
		}
		from := i
		for from > done[depth] && belongsTo(t, from, from-1, depth) {
			from--
		}
		for n := from; n < len(t.lines) && (n <= i || belongsTo(t, n-1, n, depth)); n++ {
			key, rest, ok := yamlKey(t.line(n))
			if ok && yamlIndent(t.line(n)) == depth && (key == "data" || key == "stringData") {
				maskMembers(t, n, rest, rule)
			}
			done[depth] = n + 1
		}
	}
	if secretObject.MatchString(t.body) {
		maskJSONMembers(t, rule)
	}
}

// belongsTo reports whether a neighbour of a line is of the same object of YAML, whose keys stand at a depth.
func belongsTo(t *text, at, neighbour, depth int) bool {
	s := t.line(neighbour)
	if strings.TrimSpace(s) == "" || strings.HasPrefix(strings.TrimSpace(s), "#") {
		return true
	}
	if strings.HasPrefix(s, "---") || strings.HasPrefix(s, "...") {
		return false
	}
	if neighbour > at && strings.HasPrefix(strings.TrimLeft(s, " "), "- ") && indentOf(s) < depth {
		return false
	}
	if neighbour < at && strings.HasPrefix(strings.TrimLeft(t.line(at), " "), "- ") && indentOf(t.line(at)) < depth && yamlIndent(t.line(at)) == depth {
		return false // the object begins with its dash
	}
	return yamlIndent(s) >= depth
}

// maskMembers masks the values of the mapping below line i.
func maskMembers(t *text, i int, rest, rule string) {
	if flow := strings.TrimSpace(rest); strings.HasPrefix(flow, "{") {
		maskFlow(t, i, rule)
		return
	}
	end := t.blockEnd(i)
	for n := i + 1; n < end; n++ {
		s := t.line(n)
		_, rest, ok := yamlKey(s)
		if !ok || strings.HasPrefix(strings.TrimSpace(s), "#") {
			continue
		}
		if isBlockStart(strings.TrimSpace(strings.SplitN(rest, " #", 2)[0])) || strings.TrimSpace(rest) == "" {
			stop := min(t.blockEnd(n), end)
			t.maskLines(n+1, stop, rule)
			n = stop - 1
			continue
		}
		from := strings.Index(s, ":") + 1
		from += indentOf(s[from:])
		start, stop := trimQuotes(s[:lineEndYAML(s, from)], from)
		if v := s[start:stop]; !strings.HasPrefix(v, "ENC[") && !strings.HasPrefix(v, "${") && !strings.HasPrefix(v, "$(") && !strings.HasPrefix(v, "{{") {
			t.mask(n, start, stop, rule)
		}
		for n+1 < end && indentOf(t.line(n+1)) > yamlIndent(s) { // a value over several lines
			n++
			t.maskRest(n, 0, rule, true)
		}
	}
}

// lineEndYAML is where a line ends without its comment.
func lineEndYAML(s string, from int) int {
	if n := strings.Index(s[min(from, len(s)):], " #"); n >= 0 && (from >= len(s) || s[from] != '"' && s[from] != '\'') {
		return from + n
	}
	return len(s)
}

// flowValue is a value in {a: b, c: "d"}.
var flowValue = regexp.MustCompile(`:\s*(?:"([^"]*)"|'([^']*)'|([^\s,{}"'\[\]][^,{}]*))`)

func maskFlow(t *text, i int, rule string) {
	s := t.line(i)
	from := strings.Index(s, "{")
	for _, m := range flowValue.FindAllStringSubmatchIndex(s[from:], -1) {
		for g := 2; g < len(m); g += 2 {
			if m[g] >= 0 && notReference(s[from+m[g]:from+m[g+1]]) {
				t.mask(i, from+m[g], from+m[g+1], rule)
			}
		}
	}
}

var (
	secretObject = regexp.MustCompile(`"kind"\s*:\s*"Secret"`)
	jsonMembers  = regexp.MustCompile(`"(?:data|stringData)"\s*:\s*\{`)
	jsonString   = regexp.MustCompile(`:\s*"((?:[^"\\]|\\.)*)"`)
)

// maskJSONMembers masks the strings of each flat object data and stringData of a text of JSON that has a Secret.
func maskJSONMembers(t *text, rule string) {
	done := 0 // an object without an end reaches over all that follow: each part of the text is read once
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
					t.mask(i, from+v[2]-l.start, from+v[3]-l.start, rule)
				}
			}
		}
	}
}
