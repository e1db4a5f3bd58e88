package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

var (
	// verb matches the placeholders of Sprintf.
	verb = regexp.MustCompile(`%[-+# 0-9.\[\]]*[a-zA-Z]`)
	// plainWord is a word of a sentence, with its punctuation.
	plainWord = regexp.MustCompile(`^["'(‘“]?[A-Za-z][A-Za-z'’-]*["')’”]?[.,;:!?]?$`)
)

// literals reads the string literals of a Go file that are sentences: messages and help.
func literals(text string) ([]block, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var out []block
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			return n.Tag == nil
		case *ast.BinaryExpr:
			if n.Op != token.ADD {
				return true
			}
			out = append(out, paragraphs(set.Position(n.Pos()).Line, joined(n))...)
			return false
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				out = append(out, paragraphs(set.Position(n.Pos()).Line, joined(n))...)
			}
		}
		return true
	})
	return out, nil
}

// joined returns the text of a literal, or of a sum of literals. In a sum, a placeholder replaces each operand that is
// not a literal.
func joined(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return joined(e.X) + joined(e.Y)
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text
		}
	}
	return code
}

// paragraphs splits a text at blank lines. paragraphs leaves out indented lines and texts that are not sentences.
func paragraphs(line int, text string) []block {
	text = span.ReplaceAllString(verb.ReplaceAllString(text, code), code)
	var out []block
	var lines []string
	begin := line
	end := func() {
		if joined := strings.Join(lines, " "); isSentence(joined) {
			out = append(out, block{begin, prose, joined})
		}
		lines = nil
	}
	for i, l := range strings.Split(text, "\n") {
		if strings.TrimSpace(l) == "" || strings.HasPrefix(l, "  ") || strings.HasPrefix(l, "\t") {
			end()
			continue
		}
		if len(lines) == 0 {
			begin = line + i
		}
		lines = append(lines, l)
	}
	end()
	return out
}

// isSentence reports whether a text has four words or more, and most of these words are plain.
func isSentence(text string) bool {
	all := strings.Fields(text)
	n := 0
	for _, w := range all {
		if plainWord.MatchString(w) {
			n++
		}
	}
	return len(all) >= 4 && n*10 >= len(all)*6
}

// descriptions returns the comments of a YAML file, and the values that users read.
func descriptions(text string) ([]block, error) {
	dec := yaml.NewDecoder(strings.NewReader(text))
	var out []block
	for {
		var doc yaml.Node
		if err := dec.Decode(&doc); err != nil {
			if err.Error() == "EOF" {
				return out, nil
			}
			return nil, err
		}
		describe(&doc, "", &out)
	}
}

func describe(n *yaml.Node, key string, out *[]block) {
	for _, comment := range []string{n.HeadComment, n.LineComment, n.FootComment} {
		comment = regexp.MustCompile(`(?m)^# ?`).ReplaceAllString(comment, "")
		*out = append(*out, paragraphs(n.Line, comment)...)
	}
	if n.Kind == yaml.ScalarNode {
		switch key {
		case "summary", "description", "message", "messageExpression":
			*out = append(*out, paragraphs(n.Line, n.Value)...)
		}
	}
	for i, c := range n.Content {
		k := key
		if n.Kind == yaml.MappingNode && i%2 == 1 {
			k = n.Content[i-1].Value
		}
		describe(c, k, out)
	}
}
