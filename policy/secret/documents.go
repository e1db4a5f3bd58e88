package secret

import (
	"regexp"
	"strings"
)

var (
	// envName is a member with the name of a variable, envValue the one with its value.
	envName  = regexp.MustCompile(`["']?\bname["']?\s*:\s*["']?([A-Za-z_][\w.-]*)["']?`)
	envValue = regexp.MustCompile(`["']?\bvalue["']?\s*:\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s"',{}][^,{}]*?))\s*(?:[,}]|$)`)
)

// environmentValues masks the values of a list of names and values, in YAML and JSON, on one line or on two.
func environmentValues(t *text, rule string) {
	if !strings.Contains(t.body, "value") {
		return
	}
	w := notSecret
	for i := range t.lines {
		s := t.line(i)
		names, values := envName.FindAllStringSubmatchIndex(s, -1), envValue.FindAllStringSubmatchIndex(s, -1)
		for len(names)+len(values) > 0 {
			if len(values) == 0 || len(names) > 0 && names[0][0] < values[0][0] {
				w, names = weigh(s[names[0][2]:names[0][3]]), names[1:]
				continue
			}
			for g := 2; g < len(values[0]); g += 2 {
				if from, end := values[0][g], values[0][g+1]; from >= 0 && isSecretValue(w, s[from:end], t.script) {
					t.mask(i, from, end, rule)
				}
			}
			w, values = notSecret, values[1:]
		}
	}
}

// openvpnLogins masks the second line between <auth-user-pass> and its end.
func openvpnLogins(t *text, rule string) {
	for i := range t.lines {
		if strings.TrimSpace(t.lowerLine(i)) == "<auth-user-pass>" && i+2 < len(t.lines) && !strings.HasPrefix(strings.TrimSpace(t.line(i+2)), "<") {
			t.maskLine(i+2, rule)
		}
	}
}

// jwkMember is a private member of a JSON Web Key.
var jwkMember = regexp.MustCompile(`"(?:d|p|q|dp|dq|qi|k)"\s*:\s*"([\w=-]{8,})"`)

// jsonWebKeys masks the private members of keys in a text of JSON.
func jsonWebKeys(t *text, rule string) {
	for i := range t.lines {
		for _, m := range jwkMember.FindAllStringSubmatchIndex(t.line(i), -1) {
			t.mask(i, m[2], m[3], rule)
		}
	}
}

// registryLogin is a member with the log-in at a registry.
var registryLogin = regexp.MustCompile(`"(?:auth|identitytoken|registrytoken)"\s*:\s*"([^"]+)"`)

// registryLogins masks the log-ins in a file of a container tool, whatever they look like.
func registryLogins(t *text, rule string) {
	for i := range t.lines {
		for _, m := range registryLogin.FindAllStringSubmatchIndex(t.line(i), -1) {
			if !isReference(t.line(i)[m[2]:m[3]], false) {
				t.mask(i, m[2], m[3], rule)
			}
		}
	}
}
