package secret

import (
	"regexp"

	"github.com/bunsen-os/bunsen/internal/policy/secret/classify"
)

// Rule finds secrets of one form in texts. A Rule masks values; only bodies of keys and blocks are masked line by line.
type Rule struct {
	// Name is the name in reviews, such as "private-key".
	Name string
	// Purpose describes what the rule masks.
	Purpose string
	// words are in lower case. The rule applies only to texts that contain one of these words. A rule without words
	// applies to every text.
	words []string
	// line masks secrets in one line. text masks secrets that span several lines.
	line func(l line)
	text func(t *text, rule string)
}

// secretWords are parts of keys: every key that names a secret contains one of them.
var secretWords = []string{
	"pass", "pwd", "secret", "token", "key", "psk", "cred", "authtok", "auth", "pw", "encrypt",
	"cookie", "otp", "jwt", "bearer", "community", "sig", "sas", "cak", "pin", "hash", "seed", "access", "digest",
	"pkcs12",
}

// pattern returns a rule that masks the groups of an expression for which decide returns true.
func pattern(form string, decide func(v string) bool) func(line) {
	re := regexp.MustCompile(form)
	return func(l line) {
		for _, m := range re.FindAllStringSubmatchIndex(l.s, -1) {
			l.maskGroups(m, decide)
		}
	}
}

// everyLine applies a rule for lines to each line of a text that contains a word of the rule.
func everyLine(mask func(line)) func(*text, string) {
	return func(t *text, rule string) {
		for i := range t.lines {
			mask(t.at(i, rule))
		}
	}
}

// notReference returns true for every value that is not a reference.
func notReference(v string) bool { return !classify.IsReference(v, true) }

// anything returns true for every value.
func anything(v string) bool { return v != "" }
