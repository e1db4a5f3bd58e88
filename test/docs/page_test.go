package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// root is the repository.
var root = os.DirFS("../..")

// page is one Markdown file.
type page struct {
	file   string
	text   string
	blocks []block
	// code are the lines that are code without a fence: indented ones, and spans within text.
	code []line
	// anchors are the names of its headings, as links name them.
	anchors map[string]bool
	links   []line
}

// block is what stands between two fences.
type block struct {
	// file and line of the opening fence.
	file string
	line int
	// lang is the word behind the fence.
	lang string
	text string
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.file, b.line) }

// line is a piece of text and where it stands.
type line struct {
	number int
	text   string
}

var (
	fence   = regexp.MustCompile("^( *)```+ *([a-z-]*) *$")
	heading = regexp.MustCompile(`^#{1,6} +(.*?) *$`)
	span    = regexp.MustCompile("`([^`\n]+)`")
	link    = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	item    = regexp.MustCompile(`^ *([-*]|\d+\.) `)
)

// pages reads every Markdown file but those of tests' data.
func pages(t *testing.T) []page {
	t.Helper()
	var out []page
	err := fs.WalkDir(root, ".", func(p string, e fs.DirEntry, err error) error {
		switch name := path.Base(p); {
		case err != nil:
			return err
		case e.IsDir() && p != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin"):
			return fs.SkipDir
		case path.Ext(p) == ".md" && !e.IsDir():
			text, err := fs.ReadFile(root, p)
			out = append(out, read(p, string(text)))
			return err
		}
		return nil
	})
	if err != nil || len(out) < 15 {
		t.Fatalf("%d pages: %v", len(out), err)
	}
	return out
}

// read takes a page apart.
func read(file, text string) page {
	p := page{file: file, text: text, anchors: map[string]bool{}}
	var open *block
	indent, list := "", false
	for i, l := range strings.Split(text, "\n") {
		m := fence.FindStringSubmatch(l)
		switch {
		case open != nil && m != nil && m[2] == "":
			p.blocks, open = append(p.blocks, *open), nil
		case open != nil:
			open.text += strings.TrimPrefix(l, indent) + "\n"
		case m != nil:
			open, indent = &block{file: file, line: i + 1, lang: m[2]}, m[1]
		case strings.HasPrefix(l, "    ") && (!list || strings.HasPrefix(l, "       ")):
			p.code = append(p.code, line{i + 1, strings.TrimSpace(l)})
		default:
			if l != "" {
				list = item.MatchString(l) || list && strings.HasPrefix(l, " ")
			}
			p.prose(i+1, l)
		}
	}
	if open != nil {
		p.blocks = append(p.blocks, block{file: file, line: open.line, lang: "not closed"})
	}
	return p
}

func (p *page) prose(number int, l string) {
	if m := heading.FindStringSubmatch(l); m != nil {
		p.anchors[anchor(m[1])] = true
	}
	for _, m := range span.FindAllStringSubmatch(l, -1) {
		p.code = append(p.code, line{number, m[1]})
	}
	for _, m := range link.FindAllStringSubmatch(span.ReplaceAllString(l, ""), -1) {
		p.links = append(p.links, line{number, m[1]})
	}
}

var dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchor is the name that a heading has in links, as the usual services make it.
func anchor(heading string) string {
	return strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

func TestReadingAPage(t *testing.T) {
	p := read("a.md", "# A heading, of `sorts`\n\nText with `bunsen diff` and [a link](b.md#c).\n\n    bunsen build\n"+
		"\n1. An item:\n\n   ```yaml\n   a: 1\n   ```\n\n       bunsen status\n")
	if !p.anchors["a-heading-of-sorts"] || len(p.links) == 0 || p.links[0].text != "b.md#c" {
		t.Errorf("%+v", p)
	}
	if len(p.blocks) != 1 || p.blocks[0].text != "a: 1\n" || p.blocks[0].line != 9 {
		t.Errorf("%+v", p.blocks)
	}
	want := []string{"sorts", "bunsen diff", "bunsen build", "bunsen status"}
	for i, c := range p.code {
		if c.text != want[i] {
			t.Errorf("code %q, want %q", c.text, want[i])
		}
	}
}

// A link within the repository leads to a file that is there, and to a heading that it has.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	all := map[string]page{}
	for _, p := range pages(t) {
		all[p.file] = p
	}
	for _, p := range all {
		for _, l := range p.links {
			target, name, _ := strings.Cut(l.text, "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			to := p.file
			if target != "" {
				to = path.Join(path.Dir(p.file), target)
			}
			if _, err := fs.Stat(root, to); err != nil {
				t.Errorf("%s:%d: %s: there is no such file", p.file, l.number, l.text)
				continue
			}
			if other, ok := all[to]; name != "" && (!ok || !other.anchors[name]) {
				t.Errorf("%s:%d: %s: it has no heading of that name", p.file, l.number, l.text)
			}
		}
	}
}

// A page of docs/ begins with who it is for, and the index of docs/README.md links to it.
func TestEveryPageSaysWhoItIsFor(t *testing.T) {
	index, err := fs.ReadFile(root, "docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages(t) {
		if path.Dir(p.file) != "docs" {
			continue
		}
		_, text, _ := strings.Cut(p.text, "\n\n")
		for strings.HasPrefix(text, "<!--") {
			_, text, _ = strings.Cut(text, "\n\n")
		}
		if !strings.HasPrefix(text, "For ") {
			t.Errorf("%s does not begin with who it is for and what they get: %.60q", p.file, text)
		}
		if name := path.Base(p.file); name != "README.md" && !strings.Contains(string(index), "]("+name+")") {
			t.Errorf("%s is not in docs/README.md", p.file)
		}
	}
}

var key = regexp.MustCompile(`"((?:review\.)?bunsen\.dev/[a-zA-Z-]+)"`)

// keyRow is a row of the table of annotations and labels: the key, what it is on, and who writes it.
var keyRow = regexp.MustCompile("(?m)^\\| `([a-z.]+/[a-zA-Z-]+)` \\| ([^|]*) \\| ([^|]*) \\|")

// Each annotation and label of the API, and those of reviews, has a row in docs/annotations.md, and those of Nodes have
// the writer that the admission policies allow.
func TestEveryKeyIsDocumented(t *testing.T) {
	text, err := fs.ReadFile(root, "docs/annotations.md")
	if err != nil {
		t.Fatal(err)
	}
	writers, ofNodes := map[string]string{}, map[string]string{}
	for _, m := range keyRow.FindAllStringSubmatch(string(text), -1) {
		if writers[m[1]] != "" {
			t.Errorf("docs/annotations.md: %s has two rows", m[1])
		}
		writers[m[1]] = m[3]
		if strings.HasPrefix(m[2], "Node") {
			ofNodes[m[1]] = m[3]
		}
	}
	sources, err := fs.Glob(root, "api/v1alpha1/*.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range append(sources, "internal/secretmask/credential.go") {
		text, err := fs.ReadFile(root, file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range key.FindAllStringSubmatch(string(text), -1) {
			if seen++; writers[m[1]] == "" {
				t.Errorf("%s: %s has no row in docs/annotations.md", file, m[1])
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d keys: are the sources read rightly?", seen)
	}
	for _, a := range v1alpha1.NodeAnnotations() {
		want := string(a.Writer)
		switch {
		case a.Registers:
			want += "; the " + string(v1alpha1.RegistrationWriter)
		case a.Writer == v1alpha1.AdministratorWriter:
			want = "you"
		}
		if ofNodes[a.Key] != want {
			t.Errorf("docs/annotations.md: the writer of %s is %q, want %q", a.Key, ofNodes[a.Key], want)
		}
		delete(ofNodes, a.Key)
	}
	for key := range ofNodes {
		t.Errorf("v1alpha1.NodeAnnotations lacks %s of docs/annotations.md", key)
	}
}
