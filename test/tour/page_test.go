package tour_test

import (
	"fmt"
	"regexp"
	"strings"
)

// page is one Markdown file, as its reader goes through it.
type page struct {
	file   string
	blocks []block
}

// block is what stands between two fences.
type block struct {
	// file and line are those of the opening fence.
	file string
	line int
	// language is the word behind the fence.
	language string
	lines    []string
	// does are the directives before the fence.
	does []directive
}

// directive is one line of a comment that begins with "tour:".
type directive struct {
	file string
	line int
	verb string
	// text is all behind the verb, without the word that joins them.
	text string
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.file, b.line) }

func (d directive) String() string { return fmt.Sprintf("%s:%d", d.file, d.line) }

// all returns the directives of one verb.
func (b block) all(verb string) []directive {
	var out []directive
	for _, d := range b.does {
		if d.verb == verb {
			out = append(out, d)
		}
	}
	return out
}

func (b block) has(verb string) bool { return len(b.all(verb)) > 0 }

// typed reports whether the block is for a shell.
func (b block) typed() bool {
	return b.language == "sh" || b.language == "bash" || b.language == "shell" || b.language == "console"
}

var (
	fence     = regexp.MustCompile("^( *)(`{3,}|~{3,}) *([^`]*?) *$")
	beginning = regexp.MustCompile(`^ *<!-- *tour: *(.*)$`)
	comment   = regexp.MustCompile(`^ *<!--`)
)

// verbs are what directives can say, and whether a text follows.
var verbs = map[string]bool{
	"skip": true, "file": true, "output": false, "replace": true, "before": true, "after": true, "prints": true,
	"exits": true, "until": true, "terminal": false, "background": false, "run": false, "stop": false,
}

// reader reads a page line by line.
type reader struct {
	page
	errs []string
	// pending are the directives since the last block.
	pending []directive
	// inComment is set between the lines of a comment of the tour.
	inComment bool
	// open is the block whose end is still to come, and its fence and indentation.
	open          *block
	marks, indent string
}

// read takes a page apart. It reports a directive that it does not know, or that no block follows.
func read(file, text string) (page, []string) {
	r := reader{page: page{file: file}}
	for i, l := range strings.Split(text, "\n") {
		r.take(i+1, l)
	}
	r.unused()
	if r.open != nil {
		r.errs = append(r.errs, fmt.Sprintf("%s: the fence is not closed", r.open))
	}
	return r.page, r.errs
}

func (r *reader) take(number int, l string) {
	m := fence.FindStringSubmatch(l)
	switch {
	case r.open != nil && m != nil && m[3] == "" && strings.HasPrefix(m[2], r.marks):
		r.blocks, r.open = append(r.blocks, *r.open), nil
	case r.open != nil:
		r.open.lines = append(r.open.lines, strings.TrimPrefix(l, r.indent))
	case r.inComment:
		r.directives(number, l)
	case beginning.MatchString(l):
		r.inComment = true
		r.directives(number, beginning.FindStringSubmatch(l)[1])
	case m != nil:
		r.open = &block{file: r.file, line: number, language: m[3], does: r.pending}
		r.pending, r.marks, r.indent = nil, m[2], m[1]
	case strings.TrimSpace(l) != "" && !comment.MatchString(l):
		r.unused()
	}
}

// unused reports directives that no block follows.
func (r *reader) unused() {
	for _, d := range r.pending {
		r.errs = append(r.errs, fmt.Sprintf("%s: no block follows %q", d, d.verb))
	}
	r.pending = nil
}

// directives reads a line of a comment.
func (r *reader) directives(number int, l string) {
	l, _, ends := strings.Cut(l, "-->")
	r.inComment = !ends
	if l = strings.TrimSpace(l); l == "" {
		return
	}
	d := directive{file: r.file, line: number}
	d.verb, d.text, _ = strings.Cut(l, " ")
	d.text = strings.TrimSpace(d.text)
	needsText, known := verbs[d.verb]
	switch {
	case !known:
		r.errs = append(r.errs, fmt.Sprintf("%s: no directive is called %q", d, d.verb))
	case needsText && d.text == "":
		r.errs = append(r.errs, fmt.Sprintf("%s: what follows %q?", d, d.verb))
	case !needsText && d.text != "" && d.verb != "output":
		r.errs = append(r.errs, fmt.Sprintf("%s: nothing follows %q", d, d.verb))
	}
	r.pending = append(r.pending, d)
}

// fate is what happens to a block, or why that is not clear.
func (b block) fate() (string, error) {
	var found []string
	for _, verb := range []string{"skip", "file", "output", "run"} {
		if b.has(verb) {
			found = append(found, verb)
		}
	}
	switch {
	case len(found) > 1:
		return "", fmt.Errorf("%s: it cannot be %s", b, strings.Join(found, " and "))
	case len(found) == 1:
		return found[0], nil
	case b.typed():
		return "typed", nil
	}
	return "", fmt.Errorf("%s: nothing says what a block of %q is: a file, output, or skipped for a reason", b,
		b.language)
}

// typing is a command of a block, and what the page shows as its output.
type typing struct {
	line    int
	command string
	// shown are the lines of output in a `console` block; nil if the page shows none.
	shown []string
}

// commands are the commands of a block. A line that ends in a backslash goes on in the next one.
func (b block) commands() []typing {
	var out []typing
	joined := false
	for i, l := range b.lines {
		at := b.line + 1 + i
		if b.language == "console" && !joined {
			command, isCommand := strings.CutPrefix(l, "$ ")
			if !isCommand && len(out) > 0 {
				out[len(out)-1].shown = append(out[len(out)-1].shown, l)
				continue
			}
			l = command
		}
		switch {
		case joined:
			out[len(out)-1].command += "\n" + l
		case strings.TrimSpace(l) != "" && !strings.HasPrefix(strings.TrimSpace(l), "#"):
			out = append(out, typing{line: at, command: l})
		default:
			continue
		}
		joined = strings.HasSuffix(l, `\`)
	}
	return out
}
