package content

import (
	"bytes"
	"slices"

	"github.com/bunsen-os/bunsen/internal/policy/secret"
)

// ruleCopy is the rule for contents that are hidden because the same contents are hidden elsewhere in the change.
const ruleCopy = "copy-of-secret"

// ruleAttribute is the rule for a hidden attribute of an item: a password of an account, a kernel argument, a key of an
// unknown form, or a field for a secret.
const ruleAttribute = "attribute"

// masked returns a line with a mark for each secret: `token=(hidden, sha256 ab12…)`.
func masked(line string) string { return secret.MaskWithDigests("", line).Text }

// hideCopies hides contents that are completely hidden elsewhere in the same change: a secret that moves to another
// path stays a secret.
func hideCopies(pairs []Pair) {
	known := map[string]bool{}
	each := func(do func(p *part)) {
		for i := range pairs {
			for _, v := range []*view{&pairs[i].from, &pairs[i].to} {
				for j := range v.parts {
					do(&v.parts[j])
				}
			}
		}
	}
	each(func(p *part) {
		if isWhole(p.shown) && len(bytes.TrimSpace(p.content)) > 0 {
			known[string(p.content)] = true
		}
	})
	each(func(p *part) {
		if known[string(p.content)] && !isWhole(p.shown) {
			p.shown = secret.Result{
				Text:     secret.HiddenWithDigest(string(p.content)),
				Findings: []secret.Finding{{Line: 1, Rule: ruleCopy}}, Whole: true,
			}
		}
	})
}

// isWhole reports whether the whole content of a part is hidden.
func isWhole(r secret.Result) bool {
	return r.Whole || slices.Equal(r.Rules(), []string{secret.RuleFile})
}
