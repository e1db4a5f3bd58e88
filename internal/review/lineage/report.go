package lineage

import (
	"cmp"
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

// Version is the version of the JSON form of a Report. It changes if a field is removed or changes its meaning.
const Version = "1"

// Report is the answer to a question, for people and for programs.
type Report struct {
	// of the JSON form
	Version string `json:"version"`
	// Pool in the user's question.
	Pool string `json:"pool"`
	// Node in the user's question, or "". Row is where the repository has its facts or documents, or "".
	Node     string `json:"node,omitempty"`
	Row      string `json:"row,omitempty"`
	Rendered string `json:"rendered,omitempty"`
	// Revision of the files, or "" for a working directory.
	Revision string `json:"revision,omitempty"`
	// Shallow: the clone lacks old commits, so that its oldest one may stand for a missing one.
	Shallow bool `json:"shallow,omitempty"`
	// Items that match the question, usually one.
	Items []Item `json:"items"`
}

// maxContent is in lines.
const maxContent = 40

// Text prints each item: a line for its name, one for each document that sets it, then for every attribute the value,
// the line that wrote it, and the lines that it replaced, the newest first.
func (r Report) Text() string {
	var b strings.Builder
	for i, item := range r.Items {
		if i > 0 {
			b.WriteString("\n")
		}
		item.text(&b, r)
	}
	return b.String()
}

func (i Item) text(b *strings.Builder, r Report) {
	what := words(i.Kind)
	if i.Name == "" && (i.Kind == disruption.KindKargs || i.Kind == disruption.KindExtensions) {
		what += "s"
	}
	b.WriteString(strings.TrimSpace(what + " " + plain(i.Name)))
	if r.Pool != "" {
		b.WriteString(" in pool " + r.Pool)
	}
	if r.Node != "" {
		b.WriteString(" on node " + plain(r.Node))
	}
	if r.Rendered != "" {
		b.WriteString(" (" + r.Rendered + ")")
	}
	b.WriteString("\n")
	var by []string
	for _, w := range i.Writers {
		by = append(by, w.document())
	}
	fmt.Fprintf(b, "made of %s\n", strings.Join(by, ",\n   then "))
	if r.Row != "" {
		fmt.Fprintf(b, "with the facts or documents of the node at %s\n", r.Row)
	}
	for n := len(i.Displaced) - 1; n >= 0; n-- {
		w := i.Displaced[n]
		fmt.Fprintf(b, "in place of a %s of %s\n", w.Value, w.line(Writer{}))
	}
	b.WriteString("\n")
	width := 8
	for _, a := range i.Attributes {
		width = max(width, min(len(a.Name), 24))
	}
	for _, a := range i.Attributes {
		a.text(b, width, i.Kind)
	}
	for _, d := range i.Defaults {
		fmt.Fprintf(b, "%-*s  %s   (nothing sets it)\n", width, d.Name, d.Value)
	}
}

func (a Attribute) text(b *strings.Builder, width int, kind disruption.ChangeKind) {
	fmt.Fprintf(b, "%-*s  %s\n", width, plain(a.Name), a.Value)
	indent := strings.Repeat(" ", width+2)
	fmt.Fprintf(b, "%s%s\n", indent, a.Writer.line(Writer{}))
	word := "replaced"
	if kind == disruption.KindKargs || kind == disruption.KindExtensions || kind == disruption.KindFIPS {
		word = "also by"
	}
	for n := len(a.Replaced) - 1; n >= 0; n-- {
		fmt.Fprintf(b, "%s%s  %s\n", indent, word, a.Replaced[n].line(a.Writer))
	}
	if a.Content == "" {
		return
	}
	lines := strings.Split(strings.TrimSuffix(a.Content, "\n"), "\n")
	for n, line := range lines {
		if n == maxContent {
			fmt.Fprintf(b, "%s(%d more lines)\n", indent, len(lines)-n)
			break
		}
		by := ""
		if len(a.ContentCommits) == len(lines) {
			by = fmt.Sprintf("%-8.8s ", cmp.Or(a.ContentCommits[n], "new"))
		}
		b.WriteString(strings.TrimRight(indent+by+"| "+line, " ") + "\n")
	}
}

// document returns the name of the writer's MachineConfig, and the file that declares it.
func (w Writer) document() string {
	if w.Source == "" {
		return "MachineConfig " + w.Layer + ", made through the API"
	}
	return w.Source + " (MachineConfig " + w.Layer + ")"
}

// line returns the position of a writer, its commit, and the value that it wrote, if that differs from the final value.
func (w Writer) line(winner Writer) string {
	text := w.At.String()
	switch {
	case w.Source == "" && text == "":
		text = w.document()
	case w.At.File != w.Source:
		text += " (for " + w.Source + ")"
	}
	if winner.Layer != "" && winner.Value != w.Value {
		text += "   " + w.Value
	}
	if c := w.Commit; c != nil {
		text += "   " + c.text()
	}
	return text
}

func (c Commit) text() string {
	if c.Hash == "" {
		return "not committed yet"
	}
	return fmt.Sprintf("%.8s %s %s %q", c.Hash, c.Date.UTC().Format("2006-01-02"), plain(c.Author), c.Subject)
}

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
