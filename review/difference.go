package review

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bunsen-os/bunsen/policy/secret"
)

// differ writes differences, and remembers those of texts: a shared document gives every pool the same.
type differ struct{ known map[texts]string }

// texts are two contents.
type texts struct{ from, to string }

// difference describes one change: attributes that moved, then each text that differs, as a unified diff. Parts name what
// differs, and rules what is hidden in it.
func (d differ) difference(p pair) (diff string, parts, rules []string) {
	var out strings.Builder
	inAttribute := false
	for _, line := range attributes(p) {
		out.WriteString(line + "\n")
		inAttribute = inAttribute || secret.HasMark(line)
		if name := strings.TrimRight(word(line[1:]), ":"); !p.to.plain && !slices.Contains(parts, name) {
			parts = append(parts, name)
		}
	}
	for _, t := range align(p) {
		if string(t.from.content) == string(t.to.content) && t.had == t.has {
			continue
		}
		parts = append(parts, t.name)
		if t.name != contentsPart {
			fmt.Fprintf(&out, "# %s%s\n", t.name, t.verb())
		}
		out.WriteString(d.text(t))
		rules = append(append(rules, t.from.shown.Rules()...), t.to.shown.Rules()...)
	}
	slices.Sort(rules)
	rules = slices.Compact(rules)
	if len(rules) > 0 {
		fmt.Fprintf(&out, "# hidden by rule: %s\n", strings.Join(rules, ", "))
	}
	if inAttribute {
		rules = append(rules, ruleAttribute)
		slices.Sort(rules)
	}
	return out.String(), parts, rules
}

const contentsPart = "contents"

// attributes writes the attributes that differ, with a sign each. Of what goes with its contents nothing needs saying.
func attributes(p pair) (out []string) {
	switch {
	case p.from.exists && !p.to.exists && len(p.from.parts) > 0:
		return nil
	case !p.from.exists && slices.Contains(p.to.attrs, rootOwner):
		p.to.attrs = slices.DeleteFunc(slices.Clone(p.to.attrs), func(a string) bool { return a == rootOwner })
	}
	edits, ok := script(p.from.attrs, p.to.attrs)
	if !ok {
		return []string{fmt.Sprintf("~%d lines → %d lines, too many to be compared", len(p.from.attrs), len(p.to.attrs))}
	}
	for _, e := range edits {
		if e.sign != ' ' {
			out = append(out, string(e.sign)+e.text)
		}
	}
	return out
}

// rootOwner is what everything belongs to unless said otherwise.
const rootOwner = "owner root:root"

// both is a part on both sides.
type both struct {
	name     string
	had, has bool
	from, to part
}

func (t both) verb() string {
	switch {
	case !t.had:
		return " (added)"
	case !t.has:
		return " (removed)"
	}
	return ""
}

// align pairs the parts of both sides by their names, in the order of the new side; what is gone comes last.
func align(p pair) (out []both) {
	before := map[string]part{}
	for _, x := range p.from.parts {
		before[x.name] = x
	}
	for _, x := range p.to.parts {
		old, had := before[x.name]
		delete(before, x.name)
		out = append(out, both{x.name, had, true, old, x})
	}
	for _, x := range p.from.parts {
		if _, gone := before[x.name]; gone {
			out = append(out, both{x.name, true, false, x, part{}})
		}
	}
	return out
}

// text is the difference of one text.
func (d differ) text(t both) string {
	a, b := t.from, t.to
	switch {
	case string(a.content) == string(b.content):
		return ""
	case a.shown.Whole || b.shown.Whole:
		return fmt.Sprintf("content %s (hidden, %s)\n", changed(a, b), arrow(a, b, func(content []byte) string { return secret.Digest(string(content)) }))
	case !isText(a.content) || !isText(b.content):
		return fmt.Sprintf("binary content %s (%s)\n", changed(a, b), arrow(a, b, sizeAndDigest))
	}
	key := texts{a.shown.Text, b.shown.Text}
	if key.from == key.to {
		return "content changed in hidden values only\n" // their short digests are equal
	}
	if known, ok := d.known[key]; ok {
		return known
	}
	d.known[key] = unified([]byte(key.from), []byte(key.to))
	return d.known[key]
}

func changed(a, b part) string {
	switch {
	case len(a.content) == 0:
		return "added"
	case len(b.content) == 0:
		return "removed"
	}
	return "changed"
}

// arrow names the old and the new content; one where the other is empty.
func arrow(a, b part, name func([]byte) string) string {
	switch {
	case len(a.content) == 0:
		return name(b.content)
	case len(b.content) == 0:
		return name(a.content)
	}
	return name(a.content) + " → " + name(b.content)
}

func sizeAndDigest(content []byte) string {
	sum := sha256.Sum256(content)
	return fmt.Sprintf("%d bytes, sha256 %x", len(content), sum[:8])
}

func isText(b []byte) bool {
	return utf8.Valid(b) && !strings.ContainsRune(string(b), 0)
}
