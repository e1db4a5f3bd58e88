package lineage

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Repository gives Annotate files and their history.
type Repository struct {
	// Read returns the file that the lines of positions refer to.
	Read func(file string) ([]byte, error)
	// Blame returns the commit that last changed each line; line 0 is the whole file. A line without a commit, or with
	// one without a hash, is not committed yet.
	Blame func(file string, lines []int) (map[int]Commit, error)
}

// Annotate adds the commit that last changed its value to every writer, and the commit of each line to every content.
// Of several lines, the newest commit counts.
func (i *Item) Annotate(r Repository) error {
	a := annotator{r, map[string][]byte{}}
	var err error
	i.EachWriter(func(w *Writer) {
		if err == nil && w.At.File != "" {
			err = a.writer(w)
		}
	})
	for n := range i.Attributes {
		if err == nil && i.Attributes[n].Content != "" && i.Attributes[n].At.File != "" {
			err = a.content(&i.Attributes[n])
		}
	}
	return err
}

type annotator struct {
	Repository
	files map[string][]byte
}

func (a annotator) read(file string) ([]byte, error) {
	if text, ok := a.files[file]; ok {
		return text, nil
	}
	text, err := a.Read(file)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	a.files[file] = text
	return text, nil
}

func (a annotator) writer(w *Writer) error {
	text, err := a.read(w.At.File)
	if err != nil {
		return err
	}
	lines, _ := w.lines(text)
	if w.whole(text) {
		lines = []int{0}
	}
	found, err := a.Blame(w.At.File, lines)
	if err != nil {
		return fmt.Errorf("reading the history of %s: %w", w.At.File, err)
	}
	newest := Commit{}
	for n, line := range lines {
		c := found[line]
		// If both commits are equally new, the commit of the value's line replaces that of the key's line.
		if n == 0 || c.Hash == "" || newest.Hash != "" && !c.Date.Before(newest.Date) {
			newest = c
		}
	}
	w.Commit = &newest
	return nil
}

func (a annotator) content(at *Attribute) error {
	text, err := a.read(at.At.File)
	if err != nil {
		return err
	}
	_, lines := at.lines(text)
	if lines == nil {
		return nil // The document does not have the text line by line.
	}
	found, err := a.Blame(at.At.File, lines)
	if err != nil {
		return fmt.Errorf("reading the history of %s: %w", at.At.File, err)
	}
	at.ContentCommits = make([]string, len(lines))
	for n, line := range lines {
		at.ContentCommits[n] = found[line].Hash
	}
	return nil
}

// whole reports whether a value is a file of its own.
func (w Writer) whole(file []byte) bool {
	return w.At.Column == 0 && w.At.Line <= 1 && (w.content == nil || bytes.Equal(file, w.content))
}

// lines returns the lines of a file that write the value, and those with its content, if it has one, line by line.
func (w Writer) lines(file []byte) (all, content []int) {
	text := strings.Split(strings.TrimSuffix(string(file), "\n"), "\n")
	value := strings.Split(strings.TrimSuffix(string(w.content), "\n"), "\n")
	start := max(w.At.Line, 1)
	if start > len(text) {
		return nil, nil
	}
	from := start - 1
	if !w.whole(file) {
		// The key may be some lines above the value.
		for from = start; from < start+3 && !holds(text, from, value); from++ {
		}
	}
	if w.content != nil && holds(text, from, value) {
		for n := range value {
			content = append(content, from+n+1)
		}
		for n := start; n <= from+len(value); n++ {
			all = append(all, n)
		}
		return all, content
	}
	all = []int{start}
	for n := start; n < len(text) && w.At.Column > 0; n++ { // The lines that are indented below a key are its value.
		line := strings.TrimLeft(text[n], " ")
		if line != "" && len(text[n])-len(line) < w.At.Column {
			break
		}
		all = append(all, n+1)
	}
	for len(all) > 1 && strings.TrimSpace(text[all[len(all)-1]-1]) == "" {
		all = all[:len(all)-1]
	}
	return all, nil
}

// holds reports whether a text has exactly these lines at a line number, whatever their indentation.
func holds(text []string, from int, lines []string) bool {
	return from+len(lines) <= len(text) && slices.EqualFunc(text[from:from+len(lines)], lines, func(a, b string) bool {
		return strings.TrimSpace(a) == strings.TrimSpace(b)
	})
}
