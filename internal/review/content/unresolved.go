package content

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/secretref"
	"github.com/bunsen-os/bunsen/internal/policy/secret"
	"github.com/bunsen-os/bunsen/internal/sops/document"
)

// maxKeys is how many changed keys of an encrypted file a difference names.
const maxKeys = 50

// unresolvedPart reads contents that the server resolves. A template is shown as it is, because it has no values. If
// its path is marked as secret, only its references are shown.
func unresolvedPart(name, path string, c secretref.Content, marked secret.Paths) part {
	if c.Format != "" {
		p := part{name: name, content: c.Body, shown: secret.Result{Text: string(c.Body)}}
		if d, err := document.Parse(document.Format(c.Format), c.Body); err == nil {
			p.encrypted = &d
		}
		return p
	}
	text := c.Template
	if marked.Match(path) {
		text = ""
		for _, r := range c.References() {
			text += "${" + r.String() + "}\n"
		}
	}
	if !strings.Contains(text, "\n") {
		text += "\n" // one reference has no end of line
	}
	return part{name: name, content: []byte(c.Template), shown: secret.MaskWithDigests("", text)}
}

// encryptedText returns the difference of contents of which at least one is an encrypted file: which keys changed,
// without any value.
func encryptedText(t both) string {
	a, b := t.from.encrypted, t.to.encrypted
	switch {
	case b == nil && len(t.to.content) == 0:
		return fmt.Sprintf("encrypted content removed (%s)\n", a.Format)
	case b == nil:
		return "content changed from encrypted to clear text\n"
	case a == nil && len(t.from.content) == 0:
		return fmt.Sprintf("encrypted content added (%s, for %s)\n", b.Format, strings.Join(b.Metadata.Recipients(),
			", ")) + keyLines(nil, b.Values())
	case a == nil:
		return fmt.Sprintf("content changed from clear text to encrypted (%s, for %s)\n", b.Format,
			strings.Join(b.Metadata.Recipients(), ", "))
	}
	var out strings.Builder
	old, now := a.Values(), b.Values()
	lines := keyLines(old, now)
	switch kept := keptCiphertexts(old, now); {
	case lines == "":
		out.WriteString("encrypted content re-encrypted, same keys and values\n")
	case kept == 0 && !sameDataKey(a.Metadata, b.Metadata):
		out.WriteString("encrypted content re-encrypted with a new data key, so every key shows as changed\n")
	default:
		out.WriteString("encrypted content changed\n")
	}
	if a.Format != b.Format {
		fmt.Fprintf(&out, "-format %s\n+format %s\n", a.Format, b.Format)
	}
	for _, r := range a.Metadata.Recipients() {
		if !slices.Contains(b.Metadata.Recipients(), r) {
			fmt.Fprintf(&out, "-recipient %s\n", r)
		}
	}
	for _, r := range b.Metadata.Recipients() {
		if !slices.Contains(a.Metadata.Recipients(), r) {
			fmt.Fprintf(&out, "+recipient %s\n", r)
		}
	}
	return out.String() + lines
}

// keyLines has a line for each key whose stored value differs: added, removed or changed.
func keyLines(from, to map[string]string) string {
	var lines []string
	names := slices.Concat(slices.Collect(maps.Keys(from)), slices.Collect(maps.Keys(to)))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		old, had := from[name]
		now, has := to[name]
		switch {
		case !had:
			lines = append(lines, "+key "+name+"\n")
		case !has:
			lines = append(lines, "-key "+name+"\n")
		case old != now:
			lines = append(lines, "~key "+name+"\n")
		}
	}
	if len(lines) > maxKeys {
		lines = append(lines[:maxKeys], fmt.Sprintf("# and %d more keys\n", len(lines)-maxKeys))
	}
	return strings.Join(lines, "")
}

// keptCiphertexts counts the ciphertexts that both sides have.
func keptCiphertexts(from, to map[string]string) int {
	n := 0
	for name, text := range to {
		if document.Ciphertext(text) && from[name] == text {
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
