package main

import (
	"regexp"
	"strings"
)

var (
	fence   = regexp.MustCompile("^ *(```+|~~~+)")
	item    = regexp.MustCompile(`^ *(?:[-*+]|\d+\.) +(?:\[[ x]\] )?`)
	heading = regexp.MustCompile(`^#{1,6} +`)
	span    = regexp.MustCompile("``[^`]+``|`[^`]+`")
	link    = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	// pageLink matches a link whose text is the name of a page.
	pageLink = regexp.MustCompile(`\[[\w./-]+\.md\]\([^)]*\)`)
	marks    = regexp.MustCompile(`\*\*|__|<[^>]+>`)
	pipe     = regexp.MustCompile(`\\\|`)
)

// code replaces a span of code, which counts as one word.
const code = "X"

// page collects the blocks of a Markdown file while markdown reads its lines.
type page struct {
	blocks []block
	// lines has the lines of the current paragraph, and begin is the number of its first line.
	lines []string
	begin int
	list  bool
}

// markdown reads the texts of a page, without its code and without the parts that a test writes, which stand between
// "<!-- begin NAME -->" and "<!-- end NAME -->".
func markdown(text string) ([]block, error) {
	p := &page{}
	fenced, made := false, false
	for i, l := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(l, "<!-- begin "), strings.HasPrefix(l, "<!-- end "):
			made = strings.HasPrefix(l, "<!-- begin ")
		case made:
		case fence.MatchString(l):
			p.end()
			fenced = !fenced
		case !fenced:
			p.line(i+1, l)
		}
	}
	p.end()
	return p.blocks, nil
}

func (p *page) line(number int, l string) {
	trimmed := strings.TrimSpace(l)
	indented := strings.HasPrefix(l, "    ")
	switch {
	case trimmed == "":
		p.end()
		return
	case strings.HasPrefix(trimmed, "<!--"), indented && len(p.lines) == 0 &&
		(!p.list || strings.HasPrefix(l, "       ")):
		return
	case strings.HasPrefix(trimmed, "|"):
		p.end()
		p.row(number, trimmed)
		return
	}
	if r := []rune(l); len(r) > 100 && strings.Contains(strings.TrimSpace(string(r[min(len(r)-1, 60):])), " ") {
		p.blocks = append(p.blocks, block{number, wide, l})
	}
	switch {
	case heading.MatchString(l):
		p.end()
		p.list = false
		p.blocks = append(p.blocks, block{number, prose, plain(heading.ReplaceAllString(l, ""))})
		return
	case item.MatchString(l):
		p.end()
		p.list = true
		l = item.ReplaceAllString(l, "")
	case !strings.HasPrefix(l, " ") && len(p.lines) == 0:
		p.list = false
	}
	if len(p.lines) == 0 {
		p.begin = number
	}
	p.lines = append(p.lines, strings.TrimPrefix(strings.TrimSpace(l), "> "))
}

// end ends the current paragraph, and adds it to the blocks.
func (p *page) end() {
	if len(p.lines) > 0 {
		p.blocks = append(p.blocks, block{p.begin, prose, plain(strings.Join(p.lines, " "))})
	}
	p.lines = nil
}

// row reads the cells of a table.
func (p *page) row(number int, l string) {
	if strings.Trim(l, "|-: ") == "" {
		return
	}
	for _, c := range strings.Split(span.ReplaceAllString(pipe.ReplaceAllString(l, "/"), code), "|") {
		if c = strings.TrimSpace(c); c != "" {
			p.blocks = append(p.blocks, block{number, table, plain(c)})
		}
	}
}

// plain removes the marks of Markdown from a text.
func plain(text string) string {
	text = span.ReplaceAllString(text, code)
	text = link.ReplaceAllString(pageLink.ReplaceAllString(text, code), "$1")
	return marks.ReplaceAllString(text, "")
}
