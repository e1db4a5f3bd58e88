package review

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/textdiff"
	"github.com/bunsen-os/bunsen/internal/sops/document"
)

// maxKeys is how many encrypted entries of a file a difference names. Entries in the clear are never left out.
const maxKeys = 50

// Unread reports whether the new side has ciphertext that the old one does not have: nobody without the key can review
// it, and everybody with the public key can have written it.
func (p ContentPair) Unread() bool {
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

// encryptedText returns the difference of contents of which at least one is an encrypted file: its values in the clear,
// and which encrypted ones changed.
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

// signed writes the names that only one side has.
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

// entryLines has a line for each entry that only one side has, and one if the order of the others differs. If hide is
// true, the values in the clear are left out.
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

// entryText names an entry, with its value if that is in the clear.
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

// exclusive returns the entries that only one side has, in the order of that side. Equal entries are counted.
func exclusive(from, to []document.Entry) (removed, added []document.Entry) {
	return entriesWithout(from, to), entriesWithout(to, from)
}

// entriesWithout returns the entries of a list less those of another one, each as often as it occurs.
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

// keptCiphertexts counts the ciphertexts that both sides have.
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
