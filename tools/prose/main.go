package main

import (
	_ "embed"
	"flag"
	"fmt"
	"go/scanner"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
)

//go:embed words.txt
var wordList string

// word is a line of words.txt.
type word struct {
	pattern *regexp.Regexp
	instead string
}

func main() {
	root := flag.String("root", "..", "the repository")
	flag.Parse()
	found, err := check(os.Stdout, os.DirFS(*root), parseWords(wordList))
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(2)
	case found > 0:
		os.Exit(1)
	}
}

// parseWords reads lines such as "roll-outs?: rollout". A word is a regular expression for a whole word.
func parseWords(text string) []word {
	var out []word
	for l := range strings.Lines(text) {
		if l = strings.TrimSpace(l); l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		pattern, instead, _ := strings.Cut(l, ": ")
		out = append(out, word{regexp.MustCompile(`(?i)(?:^|[^\w./-])(` + pattern + `)(?:$|[^\w/-])`), instead})
	}
	return out
}

// check prints each line of the repository's texts that has one of the words, and returns how many it found.
func check(w io.Writer, tree fs.FS, words []word) (found int, err error) {
	err = fs.WalkDir(tree, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if name := e.Name(); p != "." && (name[0] == '.' || name == "testdata" || p == "bin" || p == "dist") {
				return fs.SkipDir
			}
			return nil
		}
		if !isRead(p) || !e.Type().IsRegular() {
			return nil
		}
		data, err := fs.ReadFile(tree, p)
		if err != nil {
			return err
		}
		for i, l := range strings.Split(texts(p, data), "\n") {
			for _, word := range words {
				if m := word.pattern.FindStringSubmatch(l); m != nil {
					fmt.Fprintf(w, "%s:%d: %q: write %s\n", p, i+1, m[1], word.instead)
					found++
				}
			}
		}
		return nil
	})
	return found, err
}

// isRead reports whether users or contributors read the texts of a file.
func isRead(p string) bool {
	switch path.Ext(p) {
	case ".md":
		return true
	case ".go":
		return !strings.HasSuffix(p, "_test.go") && !strings.HasPrefix(p, "test/") && !strings.HasPrefix(p, "bench/")
	case ".yaml", ".yml", ".bu":
		return strings.HasPrefix(p, "config/") || strings.HasPrefix(p, "examples/")
	}
	return false
}

// texts returns the texts of a file at their lines: all of it, or the string literals of Go code.
func texts(p string, data []byte) string {
	if path.Ext(p) != ".go" {
		return string(data)
	}
	lines := make([]string, strings.Count(string(data), "\n")+1)
	var s scanner.Scanner
	file := token.NewFileSet().AddFile(p, -1, len(data))
	s.Init(file, data, nil, 0)
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return strings.Join(lines, "\n")
		}
		if tok == token.STRING && strings.Contains(text, " ") {
			for i, l := range strings.Split(text, "\n") {
				lines[file.Line(pos)-1+i] += l + " "
			}
		}
	}
}
