package lsp

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/internal/sops"
	sopsdocument "github.com/bunsen-os/bunsen/internal/sops/document"
	"github.com/bunsen-os/bunsen/transpile"
	"github.com/bunsen-os/bunsen/transpile/message"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// correction is a change of a text that resolves a problem, or a command that does.
type correction struct {
	title string
	edits []textEdit
	// command is what a user types in a terminal instead.
	command string
	// encrypts: the whole text is to be encrypted, which needs randomness
	encrypts bool
}

var (
	meant     = regexp.MustCompile("did you mean (?:\"([^\"]+)\"|\\[([^\\]]+)\\]|([^\\s?\"\\[]+?)=?)\\?")
	advised   = regexp.MustCompile("write `([A-Za-z_]+): ([^`…]+)`")
	hash      = regexp.MustCompile(`write (sha(?:256|512)-[0-9a-f]+), or remove it`)
	renamed   = regexp.MustCompile(`: write (/[^\s,;]+)$`)
	plainPath = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_./@-]*$`)
	fileWord  = regexp.MustCompile(`[A-Za-z0-9_.@/-]+`)
	// typed are the commands of messages, which may quote the repository: only these, about the file of the message.
	typed = regexp.MustCompile("`(bunsen hash|bunsen secret encrypt|bunsen secret rotate|sops encrypt -i) ([^`\\s]+)" +
		"((?: --(?:add|remove) [a-z0-9,]+)?)`")
)

// corrections returns what resolves a finding in a document, as its message advises.
func corrections(d document, e transpile.Entry) (out []correction) {
	line := max(0, e.Line-1)
	if m := meant.FindStringSubmatch(e.Message); m != nil {
		right := m[1] + m[2] + m[3]
		if edit, was, ok := d.replaceWord(line, right, e.Message); ok {
			out = append(out, correction{title: "Change " + was + " to " + right, edits: []textEdit{edit}})
		}
	}
	if m := hash.FindStringSubmatch(e.Message); m != nil {
		if edit, ok := d.setField(line, e.Column, []string{"verification", "hash"}, m[1]); ok {
			out = append(out, correction{title: "Write the hash of the file", edits: []textEdit{edit}})
		}
	}
	if m := advised.FindStringSubmatch(e.Message); m != nil {
		if edit, ok := d.setField(line, e.Column, []string{m[1]}, m[2]); ok {
			out = append(out, correction{title: "Write " + m[1] + ": " + m[2], edits: []textEdit{edit}})
		}
	}
	if m := renamed.FindStringSubmatch(e.Message); m != nil {
		if edit, ok := d.setField(line, e.Column, []string{"path"}, m[1]); ok {
			out = append(out, correction{title: "Rename it to " + m[1], edits: []textEdit{edit}})
		}
	}
	for _, m := range typed.FindAllStringSubmatch(e.Message, -1) {
		verb, file, more := m[1], m[2], m[3]
		if plainPath.MatchString(e.File) && file == "FILE" && verb == "bunsen hash" {
			file = e.File
		}
		if file != "FILE" && (file != e.File || !plainPath.MatchString(file)) {
			continue // Another path could mean something to a shell.
		}
		command := verb + " " + file + more
		out = append(out, correction{
			title: "In a terminal: " + command, command: command,
			encrypts: command == "bunsen secret encrypt "+e.File,
		})
	}
	return out
}

// replaceWord replaces the word of a line that was written for another one: the first that the message quotes and the
// line has, or else the closest one.
func (d document) replaceWord(line int, right, text string) (textEdit, string, bool) {
	on := d.line(line)
	words := fileWord.FindAllStringIndex(on, -1)
	replace := func(w []int) (textEdit, string, bool) {
		return textEdit{d.span(line, w[0], w[1]), right}, on[w[0]:w[1]], true
	}
	for _, w := range words {
		if was := on[w[0]:w[1]]; was != right && strings.Contains(text, `"`+was+`"`) {
			return replace(w)
		}
	}
	for _, w := range words {
		if was := on[w[0]:w[1]]; was != right && message.Closest(was, []string{right}) == right {
			return replace(w)
		}
	}
	return textEdit{}, "", false
}

// setField sets a scalar below the mapping at a place of the repository: it replaces the value, or adds the key behind
// the first line of the mapping.
func (d document) setField(line, column int, keys []string, value string) (textEdit, bool) {
	roots, ok := parse(d.text)
	if !ok {
		return textEdit{}, false
	}
	offset := d.column(line, max(1, column))
	p, ok := placeAt(d, line, offset)
	if !ok || rootAt(roots, line+1) == nil {
		return textEdit{}, false
	}
	last := keys[len(keys)-1]
	for _, n := range slices.Backward(p.nodes) {
		if n.Kind != yaml.MappingNode {
			continue
		}
		of := n
		for _, k := range keys[:len(keys)-1] {
			_, of = documents.Field(of, k)
		}
		if _, v := documents.Field(of, last); v != nil && v.Kind == yaml.ScalarNode {
			return d.replaceScalar(v, value)
		}
	}
	if len(keys) > 1 {
		return textEdit{}, false
	}
	for _, n := range slices.Backward(p.nodes) {
		if n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle == 0 && len(n.Content) > 0 {
			first := n.Content[0]
			end := n.Content[1]
			if end.Kind != yaml.ScalarNode || end.Line != first.Line ||
				end.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
				return textEdit{}, false
			}
			behind := first.Line - 1
			at := len(d.line(behind))
			return textEdit{
				d.span(behind, at, at),
				"\n" + strings.Repeat(" ", first.Column-1) + last + ": " + value,
			}, true
		}
	}
	return textEdit{}, false
}

// replaceScalar replaces a scalar that stands on one line without a tag or an anchor.
func (d document) replaceScalar(v *yaml.Node, with string) (textEdit, bool) {
	if v.Style&(yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) != 0 || v.Anchor != "" {
		return textEdit{}, false
	}
	line := v.Line - 1
	from := d.column(line, v.Column)
	text := d.line(line)[from:]
	length := len(v.Value)
	if v.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		length = quotedLength(text)
	}
	if length > len(text) {
		return textEdit{}, false
	}
	// The text must be the value, and nothing else: a value can go on in the next line.
	roots, ok := parse(text[:length])
	if !ok || len(roots) != 1 || roots[0].Kind != yaml.ScalarNode || roots[0].Value != v.Value ||
		roots[0].Tag != v.Tag || roots[0].Style != v.Style || roots[0].Anchor != "" {
		return textEdit{}, false
	}
	return textEdit{d.span(line, from, from+length), with}, true
}

// quotedLength returns the length of the quoted scalar at the beginning of a text; 0 if there is none.
func quotedLength(text string) int {
	if text == "" || text[0] != '"' && text[0] != '\'' {
		return 0
	}
	for i := 1; i < len(text); i++ {
		switch {
		case text[0] == '"' && text[i] == '\\', text[0] == '\'' && strings.HasPrefix(text[i:], "''"):
			i++
		case text[i] == text[0]:
			return i + 1
		}
	}
	return 0
}

// encryption returns for whom the creation rule of a file encrypts it; false if the nearest rules cannot be read, or
// name keys of others than age. Rules further up never count in their place: they could name other people.
func (s *snapshot) encryption(file string) (sops.Policy, bool) {
	for dir := path.Dir(file); s != nil; dir = path.Dir(dir) {
		rules := path.Join(dir, sops.RulesFile)
		if !s.hasEntry(rules) {
			if dir == "." {
				break
			}
			continue
		}
		all, err := sops.ParseRules([]byte(s.text(rules)))
		if err != nil {
			break
		}
		below := file
		if dir != "." {
			below = strings.TrimPrefix(file, dir+"/")
		}
		rule, ok := all.For(below)
		return sops.Policy{Groups: rule.Groups, Threshold: rule.Threshold, Rules: rule.Values},
			ok && len(rule.Groups) > 0 && len(rule.Foreign) == 0
	}
	return sops.Policy{}, false
}

// hasEntry reports whether the tree has anything at a path, also a link or a directory.
func (s *snapshot) hasEntry(at string) bool {
	if _, has := s.tree.Entries[at]; has {
		return true
	}
	for name := range s.tree.Entries {
		if strings.HasPrefix(name, at+"/") {
			return true
		}
	}
	return false
}

// encrypt encrypts a text for the public keys that the repository names for its file.
func (s *snapshot) encrypt(file, text string, with sops.Writer) (string, error) {
	policy, ok := s.encryption(file)
	if !ok {
		return "", fmt.Errorf("encrypting %s: no creation rule of the repository names its age keys", file)
	}
	if _, is := sopsdocument.Detect(file, []byte(text)); is {
		return "", errors.New("encrypting " + file + ": it is encrypted already")
	}
	out, err := with.Encrypt(string(sopsdocument.FormatOf(file)), []byte(text), policy)
	if err != nil {
		return "", fmt.Errorf("encrypting %s: %w", file, err)
	}
	return string(out), nil
}
