package tour_test

import (
	"fmt"
	"regexp"
	"strings"
)

// mask puts a name in place of what differs from run to run.
type mask struct {
	pattern *regexp.Regexp
	name    string
}

var masks = []mask{
	{regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`), ""},
	{regexp.MustCompile(`\bbunsen\.([a-z0-9]{10}\.[A-Za-z0-9_-]+|…)`), "TOKEN"},
	{regexp.MustCompile(`\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|\s?[+-]\d{2}:?\d{2}|\s?UTC)?`), "TIME"},
	{regexp.MustCompile(`\b\d{2}:\d{2}:\d{2}(\.\d+)?\b`), "TIME"},
	{regexp.MustCompile(`\b(rendered-[a-z-]+?)-[0-9a-f]{8,}\b`), "$1-HASH"},
	{regexp.MustCompile(`\b[0-9a-f]{7,128}\b`), "HASH"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(ms|[smhd])){1,3}\b`), "AGE"},
	{regexp.MustCompile(`\b\d+(\.\d+)? (ms|s|min|h|seconds?|minutes?|hours?)\b`), "AGE"},
	{regexp.MustCompile(`(127\.0\.0\.1|localhost):\d{2,5}`), "$1:PORT"},
	{regexp.MustCompile(`[ \t]+`), " "},
}

// masked returns a text in which nothing differs from run to run.
func masked(text string) string {
	for _, m := range masks {
		text = m.pattern.ReplaceAllString(text, m.name)
	}
	return strings.TrimSpace(text)
}

// elision stands for any text, and alone on a line for any lines.
const elision = "…"

// differs compares what a page shows with what came. It returns "" if they agree.
func differs(shown, came []string) string {
	var parts []string
	for _, l := range trimmed(shown) {
		if strings.TrimSpace(l) == elision {
			parts = append(parts, `(?:[^\n]*\n)*?`)
			continue
		}
		words := strings.Split(masked(l), elision)
		for i := range words {
			words[i] = regexp.QuoteMeta(words[i])
		}
		parts = append(parts, strings.Join(words, `[^\n]*`)+`\n`)
	}
	var text strings.Builder
	for _, l := range trimmed(came) {
		text.WriteString(masked(l) + "\n")
	}
	if regexp.MustCompile(`\A` + strings.Join(parts, "") + `\z`).MatchString(text.String()) {
		return ""
	}
	return fmt.Sprintf("the page shows:\n%s\nand this came:\n%s", indented(trimmed(shown)), indented(trimmed(came)))
}

// trimmed is without empty lines at the beginning and the end.
func trimmed(lines []string) []string {
	for len(lines) > 0 && strings.TrimSpace(lines[0]) == "" {
		lines = lines[1:]
	}
	for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

func indented(lines []string) string { return "    " + strings.Join(lines, "\n    ") }
