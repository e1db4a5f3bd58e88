package secret

import (
	"regexp"
	"strings"

	"github.com/bunsen-os/bunsen/internal/policy/secret/classify"
)

var (
	// envName matches a member with the name of an environment variable, and envValue a member with the value.
	envName  = regexp.MustCompile(`["']?\bname["']?\s*:\s*["']?([A-Za-z_][\w.-]*)["']?`)
	envValue = regexp.MustCompile(
		`["']?\bvalue["']?\s*:\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s"',{}][^,{}]*?))\s*(?:[,}]|$)`)
)

// environmentValues masks the values of a list of names and values, in YAML and JSON, on one line or on two.
func environmentValues(t *text, rule string) {
	if !strings.Contains(t.body, "value") {
		return
	}
	w := classify.NotSecret
	for i := range t.lines {
		s := t.line(i)
		names, values := envName.FindAllStringSubmatchIndex(s, -1), envValue.FindAllStringSubmatchIndex(s, -1)
		for len(names)+len(values) > 0 {
			if len(values) == 0 || len(names) > 0 && names[0][0] < values[0][0] {
				w, names = classify.Key(s[names[0][2]:names[0][3]]), names[1:]
				continue
			}
			t.at(i, rule).maskGroups(values[0], func(v string) bool { return classify.IsSecret(w, v, t.script) })
			w, values = classify.NotSecret, values[1:]
		}
	}
}

// openvpnLogins masks the second line between <auth-user-pass> and its end.
func openvpnLogins(t *text, rule string) {
	for i := range t.lines {
		if strings.TrimSpace(t.lowerLine(i)) == "<auth-user-pass>" && i+2 < len(t.lines) &&
			!strings.HasPrefix(strings.TrimSpace(t.line(i+2)), "<") {
			t.at(i+2, rule).maskRest(0, false)
		}
	}
}
