package lineage

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/secretmask"
)

// maxShort is in characters.
const maxShort = 72

// hidden: Their type says that they are secret.
var hidden = []string{"passwordHash", "keyFile"}

// shown returns a short form of a leaf, and also the whole text if people may read it.
func (o Options) shown(x leaf, kind disruption.ChangeKind, item string) (short, content string) {
	last := x.name[strings.LastIndexByte(x.name, '.')+1:]
	switch {
	case slices.Contains(hidden, last):
		return o.hidden(decoded(x)), ""
	case strings.HasPrefix(x.name, "sshAuthorizedKeys."):
		return sshKey(x.raw), ""
	case x.resource != nil:
		if kind != disruption.KindFile {
			item = ""
		}
		return o.text(item, decoded(x))
	case kind == disruption.KindUnit && x.name == "contents":
		return o.text(item, []byte(x.raw))
	case kind == disruption.KindUnit && strings.HasPrefix(x.name, "dropins."):
		return o.text(item+".d/"+strings.TrimPrefix(x.name, "dropins."), []byte(x.raw))
	}
	return plain(x.raw), ""
}

// hidden replaces a value by a digest: short, so that it shows a change but no reader can test guesses with it, or long
// if the whole content is hidden, so that people can compare contents.
func (o Options) hidden(data []byte) string {
	if o.Mask == nil {
		return digest(data) + " (hidden)"
	}
	return secretmask.HiddenWithDigest(string(data))
}

func decoded(x leaf) []byte {
	if x.resource == nil {
		return []byte(x.raw)
	}
	data, err := machineconfig.Contents(*x.resource)
	if err != nil {
		return []byte(x.raw)
	}
	return data
}

// text returns a mark in place of a secret content.
func (o Options) text(path string, data []byte) (short, content string) {
	if len(data) == 0 {
		return "(empty)", ""
	}
	if o.Mask == nil {
		return o.hidden(data), ""
	}
	shown := o.Mask(path, string(data))
	text := shown.Text
	switch {
	case shown.Hidden:
		return o.hidden(data), ""
	case !readable(text):
		return digest(data) + " (binary)", ""
	case len(text) <= maxShort && !strings.Contains(strings.TrimSuffix(text, "\n"), "\n"):
		return strings.TrimSuffix(text, "\n"), ""
	default:
		return lines(text) + ", " + digest([]byte(text)), text
	}
}

func digest(data []byte) string {
	return fmt.Sprintf("%d bytes, sha256 %.4x", len(data), sha256.Sum256(data))
}

func lines(text string) string {
	n := strings.Count(text, "\n")
	if !strings.HasSuffix(text, "\n") {
		n++
	}
	if n == 1 {
		return "1 line"
	}
	return strconv.Itoa(n) + " lines"
}

// readable reports whether a terminal shows a text as it is.
func readable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return r != '\n' && r != '\t' && safetext.IsHidden(r)
	})
}

func plain(text string) string {
	if safetext.HasHidden(text) {
		text = safetext.Quote(text)
	}
	if r := []rune(text); len(r) > 4*maxShort {
		text = string(r[:4*maxShort]) + "…"
	}
	return text
}

// sshKey shortens a public key to its options, its type, its end and its comment.
func sshKey(text string) string {
	words := strings.Fields(text)
	i := slices.IndexFunc(words, func(w string) bool { return len(w) > 24 && strings.HasPrefix(w, "AAAA") })
	if i < 0 {
		return plain(text)
	}
	words[i] = "…" + words[i][len(words[i])-8:]
	return plain(strings.Join(words, " "))
}
