package review

import (
	"crypto/sha256"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bunsen-os/bunsen/api/textdiff"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/internal/sops/document"
)

// differ writes differences. It caches those of texts, because a shared document has the same one in every pool. It is
// for one goroutine.
type differ struct{ known map[texts]string }

// newDiffer returns a differ with an empty cache.
func newDiffer() differ { return differ{known: map[texts]string{}} }

type texts struct{ from, to string }

// difference describes one change: changed attributes, then a unified diff of each changed text. parts names what
// changed; hidden: a secret is left out.
func (d differ) difference(p contentPair) (diff string, parts []string, hidden bool) {
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
		if !slices.Contains(parts, t.name) {
			parts = append(parts, t.name)
		}
		if t.name != contentsPart {
			fmt.Fprintf(&out, "# %s%s\n", t.name, t.verb())
		}
		out.WriteString(d.text(t))
		hidden = hidden || t.from.shown.Hidden || t.to.shown.Hidden
	}
	return out.String(), parts, hidden
}

// word returns the attribute's name: the first word of its line.
func word(attr string) string {
	name, _, _ := strings.Cut(attr, " ")
	return name
}

const contentsPart = "contents"

// attributes writes each attribute that differs, with a sign; none for a removed item with contents.
func attributes(p contentPair) (out []string) {
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

// rootOwner: the default
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

// align pairs the parts of both sides by name, in the order of the new side. Removed ones come last.
func align(p contentPair) (out []both) {
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

func (d differ) text(t both) string {
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

// encryptedText is for contents of which at least one is encrypted: their values in the clear, and which encrypted ones
// changed.
func encryptedText(t both) string {
	a, b := t.from.encrypted, t.to.encrypted
	var old, now []document.Entry
	if a != nil {
		old = a.Entries()
	}
	if b != nil {
		now = b.Entries()
	}
	lines := entryLines(old, now, t.from.marked || t.to.marked)
	switch {
	case b == nil && len(t.to.content) == 0:
		return fmt.Sprintf("encrypted content removed (%s)\n", a.Format)
	case b == nil:
		return "content changed from encrypted to clear text\n" + clearText(t.to)
	case a == nil:
		how := "encrypted content added"
		if len(t.from.content) > 0 {
			how = "content changed from clear text to encrypted"
		}
		return fmt.Sprintf("%s (%s, for %s)\n", how, b.Format, strings.Join(b.Metadata.Recipients(), ", ")) + lines
	}
	about := signed("format", []string{string(a.Format)}, []string{string(b.Format)}) +
		signed("recipient", a.Metadata.Recipients(), b.Metadata.Recipients()) +
		signed("rule", a.Metadata.RuleTexts(), b.Metadata.RuleTexts())
	head := "encrypted content changed\n"
	switch {
	case lines == "":
		head = "encrypted content re-encrypted, same keys and values\n"
	case keptCiphertexts(old, now) == 0 && !sameDataKey(a.Metadata, b.Metadata):
		head = "encrypted content re-encrypted with a new data key, so every key shows as changed\n"
	}
	return head + about + lines
}

func signed(what string, from, to []string) string {
	var out strings.Builder
	for _, name := range from {
		if !slices.Contains(to, name) {
			fmt.Fprintf(&out, "-%s %s\n", what, name)
		}
	}
	for _, name := range to {
		if !slices.Contains(from, name) {
			fmt.Fprintf(&out, "+%s %s\n", what, name)
		}
	}
	return out.String()
}

// sameDataKey reports whether a recipient has the same encrypted data key on both sides.
func sameDataKey(a, b document.Metadata) bool {
	known := map[string]bool{}
	for _, g := range a.Groups {
		for _, r := range g {
			known[r.Encrypted] = true
		}
	}
	for _, g := range b.Groups {
		for _, r := range g {
			if known[r.Encrypted] {
				return true
			}
		}
	}
	return false
}

// keptCiphertexts counts those that both sides have.
func keptCiphertexts(from, to []document.Entry) (n int) {
	known := map[document.Entry]bool{}
	for _, e := range from {
		known[e] = e.Encrypted
	}
	for _, e := range to {
		if known[e] {
			n++
		}
	}
	return n
}

// entryLines has a line for each entry that only one side has, and one if the order of the others differs. hide leaves
// out the values in the clear.
func entryLines(from, to []document.Entry, hide bool) string {
	removed, added := exclusive(from, to)
	var lines []string
	keys := 0
	write := func(sign string, e document.Entry) {
		if e.Encrypted {
			if keys++; keys > maxKeys {
				return
			}
		}
		lines = append(lines, sign+entryText(e, hide)+"\n")
	}
	replaced := map[string]document.Entry{}
	for _, e := range removed {
		if !e.Comment {
			replaced[e.Name] = e
		}
	}
	changed := map[string]bool{}
	for _, e := range added {
		old, had := replaced[e.Name]
		had = had && !e.Comment
		changed[e.Name] = changed[e.Name] || had
		switch {
		case had && old.Encrypted && e.Encrypted:
			write("~", e)
		case had:
			write("-", old)
			write("+", e)
		default:
			write("+", e)
		}
	}
	for _, e := range removed {
		if e.Comment || !changed[e.Name] {
			write("-", e)
		}
	}
	if keys > maxKeys {
		lines = append(lines, fmt.Sprintf("# and %d more encrypted keys\n", keys-maxKeys))
	}
	if keptFrom, keptTo := entriesWithout(from, removed), entriesWithout(to, added); !slices.Equal(keptFrom, keptTo) {
		lines = append(lines, "~order of keys and comments\n")
	}
	return strings.Join(lines, "")
}

// entryText has the value if that is in the clear.
func entryText(e document.Entry, hide bool) string {
	switch {
	case e.Encrypted && e.Comment:
		return "comment (encrypted)"
	case e.Encrypted:
		return "key " + e.Name
	case hide:
		return e.Name + ": (hidden)"
	case e.Comment:
		return "#" + e.Text
	}
	return e.Name + ": " + e.Text
}

// decryptedText is for a reader who has the key.
func decryptedText(t both) string {
	from, canFrom := decrypted(t.from)
	to, canTo := decrypted(t.to)
	switch {
	case t.from.plain == nil && t.to.plain == nil:
		return ""
	case !canFrom:
		return "# the old content does not decrypt with your key\n"
	case !canTo:
		return "# the new content does not decrypt with your key\n"
	case string(from) == string(to):
		return "# decrypted with your key: nothing changes\n"
	case !isText(from) || !isText(to):
		return "# decrypted with your key: binary content, " + arrow(part{content: from}, part{content: to},
			sizeAndDigest) + "\n"
	}
	return "# decrypted with your key\n" + textdiff.Unified(from, to)
}

// decrypted returns what a node gets, and whether that is known.
func decrypted(p part) ([]byte, bool) {
	if p.encrypted == nil {
		return p.content, true
	}
	return p.plain, p.plain != nil
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

// arrow names the old and the new content, or the only one.
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

// renamesOf finds pairs of a removed and an added item with the same content, mode and owner, by their indices. Of
// several added items, it prefers one with the same last element of its path, and then the first by path.
func renamesOf(changes []disruption.Costed, pairs []contentPair) map[int]int {
	type key struct {
		kind           disruption.ChangeKind
		attrs, content string
	}
	keyOf := func(i int, v view, content string) key {
		return key{changes[i].Kind, strings.Join(v.attrs, "\n"), content}
	}
	removed := map[key][]int{}
	for i, c := range changes {
		if text, ok := contents(pairs[i].from); ok && c.Verb == disruption.Removed {
			k := keyOf(i, pairs[i].from, text)
			removed[k] = append(removed[k], i)
		}
	}
	if len(removed) == 0 {
		return nil
	}
	addedOf, done := map[int]int{}, map[int]bool{}
	for _, sameBase := range []bool{true, false} {
		for i, c := range changes {
			text, ok := contents(pairs[i].to)
			if !ok || c.Verb != disruption.Added || done[i] {
				continue
			}
			k := keyOf(i, pairs[i].to, text)
			n := slices.IndexFunc(removed[k], func(r int) bool {
				return !sameBase || path.Base(changes[r].Name) == path.Base(c.Name)
			})
			if n < 0 {
				continue
			}
			addedOf[removed[k][n]], done[i] = i, true
			removed[k] = slices.Delete(removed[k], n, n+1)
		}
	}
	return addedOf
}

// contents is for an item that has exactly one text, such as a unit without drop-ins.
func contents(v view) (string, bool) {
	if len(v.parts) != 1 || v.parts[0].name != contentsPart || len(v.parts[0].content) == 0 {
		return "", false
	}
	return string(v.parts[0].content), true
}

// maxKeys: the encrypted entries of a file in a difference; those in the clear are never left out
const maxKeys = 50

// unread reports whether the new side has ciphertext that the old one does not have: nobody without the key can review
// it, and everybody with the public key can have written it.
func (p contentPair) unread() bool {
	for _, t := range align(p) {
		if t.to.encrypted == nil {
			continue
		}
		var old []document.Entry
		if t.from.encrypted != nil {
			old = t.from.encrypted.Entries()
		}
		_, added := exclusive(old, t.to.encrypted.Entries())
		if slices.ContainsFunc(added, func(e document.Entry) bool { return e.Encrypted }) {
			return true
		}
	}
	return false
}

// clearText writes a new content that is not encrypted.
func clearText(p part) string {
	switch {
	case p.shown.Hidden:
		return "content hidden\n"
	case !isText(p.content):
		return "binary content (" + sizeAndDigest(p.content) + ")\n"
	}
	return textdiff.Unified(nil, []byte(p.shown.Text))
}

// exclusive returns the entries that only one side has, in its order. Equal ones are counted.
func exclusive(from, to []document.Entry) (removed, added []document.Entry) {
	return entriesWithout(from, to), entriesWithout(to, from)
}

// entriesWithout takes each entry off as often as it occurs.
func entriesWithout(list, other []document.Entry) (out []document.Entry) {
	count := map[document.Entry]int{}
	for _, e := range other {
		count[e]++
	}
	for _, e := range list {
		if count[e]--; count[e] < 0 {
			out = append(out, e)
		}
	}
	return out
}
