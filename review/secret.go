package review

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/bunsen-os/bunsen/policy"
)

// hidden stands for a secret in one line.
func hidden(content []byte) string { return "(hidden, " + secretDigest(content) + ")" }

// secretDigest is short on purpose: enough to see that one secret became another, too little to test guesses with.
func secretDigest(content []byte) string {
	sum := sha256.Sum256(content)
	return fmt.Sprintf("sha256 %x…", sum[:2])
}

// unless returns the line, or its name and a digest where it looks secret: `token=(hidden, sha256 ab12…)`.
func unless(line string) string {
	if !policy.Secret("", []byte(line)) {
		return line
	}
	if name, value, ok := strings.Cut(line, "="); ok && !policy.Secret("", []byte(name)) {
		return name + "=" + hidden([]byte(value))
	}
	return hidden([]byte(line))
}

// hideCopies hides what is a secret elsewhere in the same change: a secret that moves to an innocent path stays one.
func hideCopies(pairs []pair) {
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
		if p.secret && len(bytes.TrimSpace(p.content)) > 0 {
			known[string(p.content)] = true
		}
	})
	each(func(p *part) { p.secret = p.secret || known[string(p.content)] })
}
