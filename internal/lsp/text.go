package lsp

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// document is one text of the editor, with its path in the repository.
type document struct {
	file  string
	text  string
	lines []string
	// patch: it is a patch that stands in a kustomization
	patch bool
	// wide: the editor counts columns in UTF-16, as is the default of the protocol, and not in bytes
	wide bool
}

func newDocument(file, text string, wide bool) document {
	return document{file: file, text: text, lines: strings.Split(text, "\n"), wide: wide}
}

// line returns a line without its end; "" behind the last one.
func (d document) line(n int) string {
	if n < 0 || n >= len(d.lines) {
		return ""
	}
	return strings.TrimSuffix(d.lines[n], "\r")
}

// offset returns the byte in a line for a column of the editor, at most the length of the line.
func (d document) offset(line, character int) int {
	text := d.line(line)
	if !d.wide {
		return max(0, min(character, len(text)))
	}
	units := 0
	for i, r := range text {
		if units >= character {
			return i
		}
		units += max(1, utf16.RuneLen(r))
	}
	return len(text)
}

// character returns the column of the editor for a byte of a line.
func (d document) character(line, offset int) int {
	text := d.line(line)
	offset = max(0, min(offset, len(text)))
	if !d.wide {
		return offset
	}
	units := 0
	for _, r := range text[:offset] {
		units += max(1, utf16.RuneLen(r))
	}
	return units
}

// span returns the range between two bytes of a line.
func (d document) span(line, from, to int) span {
	return span{position{line, d.character(line, from)}, position{line, d.character(line, to)}}
}

// column returns the byte of a column that counts characters from 1, as YAML does.
func (d document) column(line, column int) int {
	text := d.line(line)
	at := 0
	for range column - 1 {
		if at >= len(text) {
			break
		}
		_, n := utf8.DecodeRuneInString(text[at:])
		at += n
	}
	return at
}

// word returns the range of what stands at a place of the repository, which counts from 1: a word, or the line from
// there on. Without a column it is the whole text of the line.
func (d document) word(line, column int) span {
	n := max(0, line-1)
	text := d.line(n)
	if column == 0 {
		from := len(text) - len(strings.TrimLeft(text, " \t"))
		return d.span(n, from, max(from, len(strings.TrimRight(text, " \t"))))
	}
	from := d.column(n, column)
	to := from
	for to < len(text) && !strings.ContainsRune(" \t:,]}", rune(text[to])) {
		to++
	}
	if to == from {
		to = len(text)
	}
	return d.span(n, from, to)
}

// apply replaces a range of a text.
func (d document) apply(at span, with string) string {
	from, to := d.at(at.Start), d.at(at.End)
	if to < from {
		from, to = to, from
	}
	return d.text[:from] + with + d.text[to:]
}

// at returns the byte of the text for a position of the editor.
func (d document) at(p position) int {
	if p.Line >= len(d.lines) {
		return len(d.text)
	}
	at := 0
	for _, l := range d.lines[:max(0, p.Line)] {
		at += len(l) + 1
	}
	return min(len(d.text), at+d.offset(p.Line, p.Character))
}
