package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// kind is the kind of document that contains a text.
type kind int

const (
	prose kind = iota
	table
	// wide is the kind of a line of Markdown that is longer than 100 columns.
	wide
)

// limits are the maximum numbers of words in a sentence, by the kind of its document.
var limits = map[kind]int{prose: 25, table: 30}

// block is a paragraph, an item of a list, a cell of a table or a message.
type block struct {
	line int
	kind kind
	text string
}

// offence is a sentence that breaks a rule.
type offence struct {
	file string
	line int
	text string
}

func (o offence) String() string { return fmt.Sprintf("%s:%d: %s", o.file, o.line, o.text) }

//go:embed words.txt
var wordList string

//go:embed passive.txt
var passiveList string

// banned is a word of words.txt.
type banned struct {
	word    *regexp.Regexp
	instead string
}

var (
	bannedWords = parseWords(wordList)
	passive     = regexp.MustCompile(
		`(?i)\b(?:is|are|was|were|be|been|being|gets?|got)\b(?: not| never| then| also| already| only| still)? (` +
			strings.Join(strings.Fields(passiveList), "|") + `)\b`)
	actor = regexp.MustCompile(`(?i)\bby\b`)
	// abbreviation matches a text whose last period does not end a sentence.
	abbreviation = regexp.MustCompile(`\b(?:e\.g|i\.e|etc|vs|No)\. $`)
	sentenceEnd  = regexp.MustCompile(`[.!?]["')”]? +|[.!?]$`)
)

// parseWords reads lines such as "by hand: manually". A word is a regular expression for a whole word.
func parseWords(text string) []banned {
	var out []banned
	for l := range strings.Lines(text) {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		word, instead, _ := strings.Cut(l, ": ")
		out = append(out, banned{regexp.MustCompile(`(?i)\b(?:` + word + `)\b`), instead})
	}
	return out
}

// check returns the offences in a block.
func check(file string, b block) []offence {
	if b.kind == wide {
		return []offence{{file, b.line, fmt.Sprintf("width: %d columns, at most 100", len([]rune(b.text)))}}
	}
	var out []offence
	for _, s := range sentences(b.text) {
		add := func(format string, args ...any) {
			out = append(out, offence{file, b.line, fmt.Sprintf(format, args...) + ": " + clip(s)})
		}
		if n := b.longest(s); n > limits[b.kind] {
			add("length: %d words, at most %d", n, limits[b.kind])
		}
		for _, w := range bannedWords {
			if m := w.word.FindString(s); m != "" {
				add("word: %q, write %s", m, w.instead)
			}
		}
		if m := passive.FindString(s); m != "" && !actor.MatchString(s) {
			add("passive: %q, say who does it", m)
		}
	}
	return out
}

// longest counts the words of a sentence. In a table, longest counts the words of the longest part between semicolons,
// because a cell may contain a list.
func (b block) longest(sentence string) int {
	parts := []string{sentence}
	if b.kind == table {
		parts = strings.Split(sentence, ";")
	}
	n := 0
	for _, p := range parts {
		n = max(n, words(p))
	}
	return n
}

// sentences splits a text at periods, question marks and exclamation marks.
func sentences(text string) []string {
	text = strings.Join(strings.Fields(text), " ")
	var out []string
	begin := 0
	for _, m := range sentenceEnd.FindAllStringIndex(text, -1) {
		if abbreviation.MatchString(text[begin:m[1]]) {
			continue
		}
		out, begin = append(out, text[begin:m[1]]), m[1]
	}
	if begin < len(text) {
		out = append(out, text[begin:])
	}
	return out
}

// words counts the parts of a sentence that contain a letter or a digit.
func words(sentence string) int {
	n := 0
	for _, w := range strings.Fields(sentence) {
		if strings.ContainsFunc(w, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

func clip(s string) string {
	if r := []rune(s); len(r) > 160 {
		return string(r[:160]) + "…"
	}
	return s
}
