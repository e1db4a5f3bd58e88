package secret

import (
	"regexp"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/internal/policy/secret/classify"
	"github.com/bunsen-os/bunsen/internal/policy/secret/syntax"
)

// RuleFile is the rule for files that are a secret by their path.
const RuleFile = "secret-file"

// fileRules find secrets by the path of a file.
var fileRules = []Rule{
	{Name: "account-file", Purpose: "lists of accounts: shadow, htpasswd, .pgpass, rsyncd.secrets, chap-secrets", text: accountLines},
	{Name: RuleFile, Purpose: "files that hold nothing but a secret, by their path: /etc/credstore/db, *.token", text: secretFiles},
}

// accountLines masks the secret field of each line of a list of accounts.
func accountLines(t *text, rule string) {
	last, forms := "", []*regexp.Regexp(nil)
	for i := range t.lines {
		p := t.pathOf(i)
		if p != last {
			last, forms = p, classify.AccountForms(p)
		}
		if len(forms) == 0 || syntax.IsComment(t.line(i)) {
			continue
		}
		for _, form := range forms {
			m := form.FindStringSubmatchIndex(t.line(i))
			if m == nil {
				continue
			}
			l := t.at(i, rule)
			v := l.s[m[2]:m[3]]
			if strings.HasPrefix(v, `"`) && len(v) > 2 {
				m[2], m[3] = m[2]+1, m[3]-1
			}
			if !classify.IsReference(strings.Trim(v, `"`), true) && v != "*" && v != `""` {
				l.mask(m[2], m[3])
			}
		}
	}
}

// maskRandom masks the words that look random in a file whose name names secrets.
func maskRandom(t *text, rule string) {
	for i := range t.lines {
		if s := t.line(i); !syntax.IsComment(s) && !classify.IsStructured(s) {
			for _, w := range syntax.Tokens(s) {
				if classify.IsRandom(w.S) && !classify.IsReference(w.S, true) && !strings.HasPrefix(w.S, "AAAA") {
					t.at(i, rule).mask(w.Start, w.End)
				}
			}
		}
	}
}

// secretFiles masks each line of a file that is one secret. Rules for other files mask only lines with a known form.
func secretFiles(t *text, rule string) {
	if classify.IsBinary(t.body) {
		return
	}
	last, secret, whole := "", false, false
	for i := range t.lines {
		p := t.pathOf(i)
		if p == "" {
			continue
		}
		if p != last {
			last, secret = p, classify.IsSecretPath(p)
			whole = secret && classify.IsSecretFile(p, t.body)
			if i == 0 && !secret && classify.NamesSecrets(p) {
				maskRandom(t, rule)
			}
		}
		if !secret {
			continue
		}
		if t.paths != nil && p != t.path {
			maskInline(t.at(i, rule))
			continue
		}
		if whole {
			t.at(i, rule).maskRest(0, i > 0)
		}
	}
}

// inlineValue matches the content of a file in a document.
var inlineValue = regexp.MustCompile(
	`^\s*-?\s*"?(?:inline|content|contents)"?\s*:\s*(?:"([^"]+)"|'([^']+)'|([^\s|>"'{][^#]*?))\s*,?\s*(?:#.*)?$`)

// maskInline masks the content of a secret file in a document.
func maskInline(l line) {
	if m := inlineValue.FindStringSubmatchIndex(l.s); m != nil {
		l.maskGroups(m, func(v string) bool { return !classify.IsStructured(v) && !classify.IsReference(v, false) })
		return
	}
	key, rest, ok := syntax.YAMLKey(l.s)
	if !ok || !slices.Contains([]string{"inline", "content", "contents"}, key) || !syntax.IsBlockStart(rest) {
		return
	}
	end := l.t.blockEnd(l.i)
	for n := l.i + 1; n < end; n++ {
		if s := l.t.line(n); classify.IsStructured(s) && strings.TrimSpace(s) != "" {
			return
		}
	}
	l.t.maskLines(l.i+1, end, l.rule)
}
