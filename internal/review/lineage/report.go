package lineage

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/bunsen-os/bunsen/internal/disruption"
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
