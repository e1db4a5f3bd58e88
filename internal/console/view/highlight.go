package view

import (
	"html/template"
	"path"
	"regexp"
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
)

// language says how the lines of a file are coloured. Each line stands alone, because a difference has only some of
// them.
type language struct {
	comment string
	// key matches up to the value: the indentation, the key, and the sign behind it.
	key *regexp.Regexp
}

var (
	yaml = &language{comment: "#", key: regexp.MustCompile(`^([\s-]*)([^\s:#"'][^:#"']*)(:(?:\s|$))`)}
	ini  = &language{comment: "#;", key: regexp.MustCompile(`^(\s*)([A-Za-z0-9_.@/-]+)(\s*=)`)}
	conf = &language{comment: "#", key: regexp.MustCompile(`^(\s*)([A-Za-z][A-Za-z0-9_.-]*)(\s)`)}
)

// languageOf returns the language of a path or unit; nil for none.
func languageOf(name string) *language {
	switch path.Ext(strings.Trim(name, `"`)) {
	case ".yaml", ".yml", ".bu":
		return yaml
	case ".service", ".socket", ".timer", ".mount", ".target", ".path", ".slice", ".network", ".netdev", ".link",
		".nmconnection", ".toml", ".ini", ".repo", ".container":
		return ini
	case ".conf", ".cfg", ".rules":
		return conf
	}
	return nil
}

// colour returns a line as HTML with the classes k for keys and sections, s for quoted texts, and c for comments.
func (l *language) colour(line string) template.HTML {
	line = safetext.Line(line)
	if l == nil {
		return template.HTML(template.HTMLEscapeString(line))
	}
	var b strings.Builder
	text := strings.TrimSpace(line)
	switch {
	case text == "":
		b.WriteString(template.HTMLEscapeString(line))
	case strings.ContainsRune(l.comment, rune(text[0])):
		span(&b, "c", line)
	case l == ini && text[0] == '[':
		span(&b, "k", line)
	default:
		for _, x := range []*regexp.Regexp{l.key, ini.key} { // Files of any kind have lines such as key = value.
			if m := x.FindStringSubmatch(line); m != nil {
				b.WriteString(template.HTMLEscapeString(m[1]))
				span(&b, "k", m[2])
				b.WriteString(template.HTMLEscapeString(m[3]))
				line = line[len(m[0]):]
				break
			}
		}
		quoted(&b, line)
	}
	return template.HTML(b.String())
}

// quoted writes a text with its quoted parts marked.
func quoted(b *strings.Builder, text string) {
	for text != "" {
		from := strings.IndexAny(text, `"'`)
		if from < 0 {
			break
		}
		to := strings.IndexByte(text[from+1:], text[from])
		if to < 0 {
			break
		}
		b.WriteString(template.HTMLEscapeString(text[:from]))
		span(b, "s", text[from:from+to+2])
		text = text[from+to+2:]
	}
	b.WriteString(template.HTMLEscapeString(text))
}

func span(b *strings.Builder, class, text string) {
	b.WriteString(`<span class="` + class + `">` + template.HTMLEscapeString(text) + `</span>`)
}
