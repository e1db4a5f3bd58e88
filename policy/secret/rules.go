package secret

import (
	"regexp"
	"slices"
)

// Rule is one form in which secrets stand in texts. Secrets of a rule are masked by value; only bodies of keys and blocks
// are masked by line.
type Rule struct {
	// Name is what reviews print, such as "private-key".
	Name string
	// Purpose says what the rule masks.
	Purpose string
	// words are in lower case; a text without any of them is not looked at. None means that every text is.
	words []string
	// line masks a line; text masks a whole text, for what spans lines.
	line func(t *text, line int, rule string)
	text func(t *text, rule string)
}

// secretWords are words of which one is in every key that names a secret.
var secretWords = []string{"pass", "pwd", "secret", "token", "key", "psk", "cred", "authtok", "auth", "pw", "encrypt", "cookie", "otp", "jwt", "bearer", "community", "sig", "sas", "cak", "pin", "hash", "seed", "access", "digest", "pkcs12"}

// Rules returns the table of all rules, in the order in which they are tried.
func Rules() []Rule { return slices.Clone(rules) }

// pattern masks the groups of an expression that takes linear time.
func pattern(form string, decide func(v string) bool) func(*text, int, string) {
	re := regexp.MustCompile(form)
	return func(t *text, i int, rule string) {
		for _, m := range re.FindAllStringSubmatchIndex(t.line(i), -1) {
			for g := 2; g+1 < len(m); g += 2 {
				if m[g] >= 0 && decide(t.line(i)[m[g]:m[g+1]]) {
					t.mask(i, m[g], m[g+1], rule)
				}
			}
		}
	}
}

// notReference takes every value that is no reference.
func notReference(v string) bool { return !isReference(v, true) }

// anything takes every value.
func anything(v string) bool { return v != "" }
