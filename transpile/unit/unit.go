package unit

import (
	_ "embed"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/bunsen-os/bunsen/transpile/message"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// The rules of the problems that Check finds.
const (
	RuleSection   = "unit-section"
	RuleDirective = "unit-directive"
	RuleName      = "unit-name"
)

//go:embed directives.txt
var directives string

//go:embed names.txt
var names string

// Misspelled returns the unit of a distribution whose name is nearly that of a unit, and "" for all other units: which
// units a machine has, only the machine knows. Short names, and names with a number behind, are names of others.
func Misspelled(name string) string {
	const shortest, nearest = 5, 2
	stem, best, distance := strings.TrimSuffix(name, path.Ext(name)), "", nearest+1
	if len(stem) < shortest || strings.TrimRight(stem, "0123456789") != stem {
		return ""
	}
	for line := range strings.Lines(names) {
		line = strings.TrimSpace(line)
		if line == name {
			return ""
		}
		if line == "" || path.Ext(line) != path.Ext(name) || line[0] != name[0] {
			continue
		}
		if d := message.Distance(stem, strings.TrimSuffix(line, path.Ext(line))); d < distance && 3*d <= len(stem) {
			best, distance = line, d
		}
	}
	return best
}

// known returns the directives of each section, from directives.txt.
var known = sync.OnceValue(func() map[string]map[string]bool {
	sections, section := map[string]map[string]bool{}, ""
	for line := range strings.Lines(directives) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
			sections[section] = map[string]bool{}
		default:
			sections[section][line] = true
		}
	}
	return sections
})

// Problem is a part of a unit that systemd ignores.
type Problem struct {
	// Line counts from 1.
	Line int
	// Rule is a stable name in kebab-case.
	Rule string
	// Message says what systemd ignores and what to write.
	Message string
}

// maxProblems is how many problems of one unit Check returns. There is a limit because a text that is not a unit has a
// problem in each line.
const maxProblems = 10

// Check returns the parts of a unit, or of one of its drop-ins, that systemd would ignore. The name is the name of the
// unit.
func Check(name, text string) []Problem {
	var out []Problem
	own := sectionOf(name)
	section, known := "", known()
	begun, early := false, false
	scan(text, func(line int, s string) bool {
		if s[0] == '[' {
			begun = true
			section = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
			if !strings.HasPrefix(section, "X-") && section != "Unit" && section != "Install" && section != own {
				out = append(out, Problem{line, RuleSection, fmt.Sprintf("systemd ignores the section [%s] of %s: %s",
					show(section), show(name), sectionsOf(section, own))})
				section = ""
			}
			return len(out) < maxProblems
		}
		key, value, isSetting := strings.Cut(s, "=")
		key = strings.TrimSpace(key)
		switch {
		case !begun && !early:
			early = true
			out = append(out, Problem{line, RuleSection, "systemd ignores what stands before the first section: " +
				"write [Unit] or [" + own + "] above this line"})
			return len(out) < maxProblems
		case !isSetting && known[section] != nil:
			out = append(out, Problem{line, RuleDirective, "systemd ignores a line without =: write NAME=VALUE, or " +
				"# in front of a comment"})
			return len(out) < maxProblems
		}
		if right := rightName(name, section, key, strings.TrimSpace(value)); right != "" {
			out = append(out, Problem{line, RuleName, fmt.Sprintf("systemd refuses %s, because its name is not "+
				"that of "+
				"the path in %s=: call the unit %s", show(name), key, right)})
		}
		if !isSetting || known[section] == nil || known[section][key] || strings.HasPrefix(key, "X-") ||
			strings.HasPrefix(key, "-") {
			return true
		}
		out = append(out, Problem{line, RuleDirective, fmt.Sprintf("systemd ignores %s= in the section [%s]: %s",
			show(key), section, instead(section, key, own))})
		return len(out) < maxProblems
	})
	return out
}

// pathSettings are the settings whose path decides the name of a unit.
var pathSettings = map[string]string{"Mount": "Where", "Automount": "Where", "Swap": "What"}

// rightName returns the name that a unit must have because of a setting, or "" if it has that name. What a swap unit
// names in another way than by its path has another name, which only the machine knows.
func rightName(name, section, key, value string) string {
	if pathSettings[section] != key || sectionOf(name) != section || !strings.HasPrefix(value, "/") ||
		strings.Contains(value, "%") {
		return ""
	}
	if right := EscapePath(value) + path.Ext(name); right != name {
		return right
	}
	return ""
}

// EscapePath returns a path as it stands in the name of a unit: what `systemd-escape --path` prints.
func EscapePath(p string) string {
	p = strings.Trim(path.Clean(p), "/")
	if p == "" || p == "." {
		return "-"
	}
	var b strings.Builder
	for i := range len(p) {
		switch c := p[i]; {
		case c == '/':
			b.WriteByte('-')
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == ':', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String()
}

// sectionOf returns the section that only units of this type have, or "".
func sectionOf(name string) string {
	section := strings.TrimPrefix(path.Ext(name), ".")
	if section == "" {
		return ""
	}
	return strings.ToUpper(section[:1]) + section[1:]
}

func sectionsOf(section, own string) string {
	if best := message.Closest(section, []string{"Unit", "Install", own}); best != "" {
		return fmt.Sprintf("did you mean [%s]?", best)
	}
	return fmt.Sprintf("it has [Unit], [%s] and [Install], and sections of others begin with X-", own)
}

// instead returns what to write instead of a directive. If another section of units may have the directive, instead
// names that section.
func instead(section, key, own string) string {
	sections := known()
	for _, other := range []string{"Unit", own, "Install"} {
		if other != section && sections[other][key] {
			return "move it to the section [" + other + "]"
		}
	}
	if best := message.Closest(key, slices.Sorted(maps.Keys(sections[section]))); best != "" {
		return "did you mean " + best + "=?"
	}
	return "check its spelling; directives of others begin with X-"
}

// show shortens a word, because a document may contain a very long word.
func show(word string) string {
	const enough = 60
	if r := []rune(word); len(r) > enough {
		return string(r[:enough]) + "…"
	}
	return word
}

// scan calls the function each for the first line of every section and setting, until each returns false. scan skips
// comments and lines that continue another line.
func scan(text string, each func(line int, s string) bool) {
	continued, number := false, 0
	for line := range strings.Lines(text) {
		number++
		s := strings.TrimSpace(line)
		comment := s == "" || s[0] == '#' || s[0] == ';'
		if comment && (continued && s != "" || !continued) {
			continue
		}
		if !continued && !each(number, s) {
			return
		}
		continued = strings.HasSuffix(s, `\`)
	}
}

// BrokenLine returns the number of the first line that systemd cannot read: a section header without `]` or with text
// after it, a setting before all sections, a line without `=`. BrokenLine returns 0 if systemd can read all lines.
func BrokenLine(text string) int {
	broken, inSection := 0, false
	scan(text, func(line int, s string) bool {
		switch {
		case s[0] == '[' && s[len(s)-1] == ']' && strings.Count(s, "]") == 1:
			inSection = true
			return true
		case s[0] != '[' && inSection && strings.Contains(s, "="):
			return true
		}
		broken = line
		return false
	})
	return broken
}

// Place returns the position in the repository of one line of a text. The parameter lines has the lines of the file.
// The parameter at is where the text begins: the key of a block, or the first line of the file. If the file does not
// contain the text line by line, such as a text in quotation marks, Place returns at.
func Place(lines []string, at origin.Pos, text string, line int) origin.Pos {
	wanted := strings.Split(text, "\n")
	if line < 1 || line > len(wanted) {
		return at
	}
	want := strings.TrimSpace(wanted[line-1])
	for _, n := range []int{at.Line + line, at.Line + line - 1} { // The text is a block below its key, or a whole file.
		if want != "" && n >= 1 && n <= len(lines) && strings.TrimSpace(lines[n-1]) == want {
			return origin.Pos{
				File: at.File, Line: n,
				Column: len(lines[n-1]) - len(strings.TrimLeft(lines[n-1], " \t")) + 1,
			}
		}
	}
	return at
}
