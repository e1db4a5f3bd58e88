package review

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bunsen-os/bunsen/api/textdiff"
	"github.com/bunsen-os/bunsen/internal/secretmask"
)

// Differ writes differences. Differ caches the differences of texts, because a shared document has the same difference
// in every pool. Only one goroutine may use it.
type Differ struct{ known map[texts]string }

// NewDiffer returns a Differ with an empty cache.
func NewDiffer() Differ { return Differ{known: map[texts]string{}} }

// texts are two contents.
type texts struct{ from, to string }

// Difference describes one change: changed attributes, then a unified diff of each changed text. The result parts has
// the names of the changed parts. The result hidden is true if a secret is left out.
func (d Differ) Difference(p ContentPair) (diff string, parts []string, hidden bool) {
	var out strings.Builder
	for _, line := range attributes(p) {
		out.WriteString(line + "\n")
		hidden = hidden || secretmask.HasMark(line)
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
		hidden = hidden || t.from.shown.Hidden || t.to.shown.Hidden
	}
	return out.String(), parts, hidden
}

const contentsPart = "contents"

// attributes writes each attribute that differs, with a sign. For a removed item with contents, attributes writes
// nothing.
func attributes(p ContentPair) (out []string) {
	switch {
	case p.from.exists && !p.to.exists && len(p.from.parts) > 0:
		return nil
	case !p.from.exists && slices.Contains(p.to.attrs, rootOwner):
		p.to.attrs = slices.DeleteFunc(slices.Clone(p.to.attrs), func(a string) bool { return a == rootOwner })
	}
	edits, ok := textdiff.Script(p.from.attrs, p.to.attrs)
	if !ok {
		return []string{fmt.Sprintf("~%d lines → %d lines, too many to be compared", len(p.from.attrs),
			len(p.to.attrs))}
	}
	for _, e := range edits {
		if e.Sign != ' ' {
			out = append(out, string(e.Sign)+e.Text)
		}
	}
	return out
}

// rootOwner is the default owner.
const rootOwner = "owner root:root"

// both is one part of an item, as it is on each of the two sides.
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

// align pairs the parts of both sides by their names, in the order of the new side. Removed parts come last.
func align(p ContentPair) (out []both) {
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

// text returns the difference of one text.
func (d Differ) text(t both) string {
	a, b := t.from, t.to
	switch {
	case string(a.content) == string(b.content):
		return ""
	case a.encrypted != nil || b.encrypted != nil:
		return encryptedText(t) + decryptedText(t)
	case a.shown.Hidden || b.shown.Hidden:
		return fmt.Sprintf("content %s (hidden, %s)\n", changed(a, b),
			arrow(a, b, func(content []byte) string { return secretmask.Digest(string(content)) }))
	case !isText(a.content) || !isText(b.content):
		return fmt.Sprintf("binary content %s (%s)\n", changed(a, b), arrow(a, b, sizeAndDigest))
	}
	key := texts{a.shown.Text, b.shown.Text}
	if known, ok := d.known[key]; ok {
		return known
	}
	d.known[key] = textdiff.Unified([]byte(key.from), []byte(key.to))
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

// arrow names the old and the new content. If one of them is empty, arrow names only the other content.
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
