package adopt

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

func (i *importer) writePool(pool string, files []*file) {
	var good []*file
	for _, f := range files {
		if i.accepts(f) {
			good = append(good, f)
		}
	}
	names := documentNames(pool, good)
	for n, f := range good {
		dir := "pools/" + pool
		if f.compiled() {
			f.write(i.out.Files, dir+"/"+names[n]+".ign", f.source)
			continue
		}
		edits := i.moveLocals(f, dir)
		body, err := f.edited(edits)
		if err != nil {
			i.setAside(f, 1, err.Error())
			continue
		}
		f.write(i.out.Files, free(i.out.Files, dir+"/"+names[n], ".bu"), body)
	}
}

// write writes a file of the repository for the document f.
func (f *file) write(files map[string][]byte, name string, contents []byte) {
	files[name] = contents
	f.written = append(f.written, name)
}

// free returns a path that no file has yet.
func free(taken map[string][]byte, stem, ext string) string {
	name := stem + ext
	for n := 2; taken[name] != nil; n++ {
		name = fmt.Sprintf("%s-%d%s", stem, n, ext)
	}
	return name
}

func (i *importer) setAside(f *file, line int, why string) {
	if f.aside != "" {
		return
	}
	why = strings.Join(strings.Fields(why), " ")
	f.skipped, f.aside = why, free(i.out.Files, asideDir+"/"+clean(strings.ReplaceAll(f.path, "/", "-")), ".txt")
	i.out.Files[f.aside] = slices.Concat([]byte("# Not imported from "+f.shown+": "+why+"\n"), f.source)
	i.findings = append(i.findings, Finding{
		Warning: true, Rule: "unsupported", Object: f.String(), At: Position{File: f.shown, Line: line},
		Path:    f.aside,
		Message: fmt.Sprintf("not imported, kept in %s: %s", f.aside, why),
	})
	i.out.Secrets = append(i.out.Secrets, f.aside) // nobody has read it
}

var (
	numbered = regexp.MustCompile(`^([0-9]+)-(.+)$`)
	notPlain = regexp.MustCompile(`[^a-z0-9.]+`)
)

// clean converts a text to a name of lower-case letters, digits, dots and dashes.
func clean(text string) string {
	const most = 100
	text = strings.Trim(notPlain.ReplaceAllString(strings.ToLower(text), "-"), "-.")
	text = strings.ReplaceAll(text, "..", ".")
	if len(text) > most {
		text = strings.Trim(text[:most], "-.")
	}
	if text == "" {
		return "config"
	}
	return text
}

// documentNames returns the names, without extension, of the documents of a pool. A pool merges documents by name:
// these keep the order of the files, and documents that name themselves are merged by their own names.
func documentNames(pool string, files []*file) []string {
	names := make([]string, len(files))
	keep, last, count := true, "", 0
	for n, f := range files {
		names[n] = clean(stem(f.path))
		if f.namesItself() {
			continue
		}
		count++
		m := numbered.FindStringSubmatch(names[n])
		if m == nil {
			keep = false
			continue
		}
		merged := m[1] + "-" + pool + "-" + m[2]
		keep, last = keep && merged > last, merged
	}
	if keep {
		return names
	}
	width, number := max(2, len(fmt.Sprint(count*10))), 0
	for n, f := range files {
		if f.namesItself() {
			continue
		}
		if m := numbered.FindStringSubmatch(names[n]); m != nil {
			names[n] = m[2]
		}
		number += 10
		names[n] = fmt.Sprintf("%0*d-%s", width, number, names[n])
	}
	return names
}

type edit struct {
	node *yaml.Node
	text string
}

// edited returns the document with its edits, if possible with the lines and comments of the file's text.
func (f *file) edited(edits []edit) ([]byte, error) {
	if !f.rewritten {
		if body, ok := replaced(f.source, edits); ok {
			return body, nil
		}
	}
	for _, e := range edits {
		was := *e.node
		defer func() { *e.node = was }() // The text is restored, because another pool may use the same document.
		e.node.Value, e.node.Style = e.text, e.node.Style&^(yaml.LiteralStyle|yaml.FoldedStyle)
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(f.doc); err != nil {
		return nil, fmt.Errorf("writing YAML: %w", err)
	}
	return b.Bytes(), nil
}

// replaced replaces scalars in a text; false if one is not on one line, unquoted or in quotes.
func replaced(source []byte, edits []edit) (out []byte, ok bool) {
	lines := bytes.SplitAfter(source, []byte("\n"))
	edits = slices.Clone(edits)
	// The edits are applied from right to left, so that columns stay valid.
	slices.SortFunc(edits, func(a, b edit) int { return b.node.Column - a.node.Column })
	for _, e := range edits {
		if e.node.Line < 1 || e.node.Line > len(lines) {
			return nil, false
		}
		line := lines[e.node.Line-1]
		at := offset(line, e.node.Column)
		done := false
		for _, quote := range []string{"", `"`, "'"} {
			old := []byte(quote + e.node.Value + quote)
			if at < 0 || !bytes.HasPrefix(line[at:], old) || quote == "" && e.node.Style != 0 {
				continue
			}
			lines[e.node.Line-1] = slices.Concat(line[:at], []byte(quote+e.text+quote), line[at+len(old):])
			done = true
			break
		}
		if !done {
			return nil, false
		}
	}
	return bytes.Join(lines, nil), true
}

// offset returns the index of the byte at a column, which counts characters from 1; -1 if the line is shorter.
func offset(line []byte, column int) int {
	at := 0
	for ; column > 1; column-- {
		if at >= len(line) {
			return -1
		}
		_, size := utf8.DecodeRune(line[at:])
		at += size
	}
	return at
}

func localName(local string, isSecret bool) string {
	if isSecret {
		return path.Join("secrets", local)
	}
	return path.Join("files", local)
}
