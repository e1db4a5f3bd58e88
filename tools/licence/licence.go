package licence

import (
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// texts has one file for each known text, named <SPDX identifier>[_part].txt. In these files, {} stands for up to 20
// words. The files prose_*.txt have sentences that say which licence applies to which files.
//
//go:embed texts/*.txt
var texts embed.FS

// accepted has a line for each text beside licences that restricts nothing, such as titles and lists of the files that
// a licence covers.
//
//go:embed accepted.txt
var accepted string

const prose = "prose"

// Found is the result of the identification of a text.
type Found struct {
	// Licences are SPDX identifiers, sorted, each once.
	Licences []string
	// Other are the words that belong to no known licence and no accepted text. Other has no words of lines with a
	// copyright.
	Other []string
}

// Known reports whether the text consists of one or more known licences and of accepted texts.
func (f Found) Known() bool { return len(f.Licences) > 0 && len(f.Other) == 0 }

type known struct {
	id   string
	text *regexp.Regexp
}

// Catalogue has the known texts, and caches its results, because many modules have the same file. Only one goroutine at
// a time may use it.
type Catalogue struct {
	known []known // known has the longest text first, because BSD-3-Clause contains the whole BSD-2-Clause.
	seen  map[string]Found
}

// NewCatalogue reads the known texts.
func NewCatalogue() (*Catalogue, error) {
	entries, err := texts.ReadDir("texts")
	if err != nil {
		return nil, fmt.Errorf("reading the known licences: %w", err)
	}
	c := &Catalogue{seen: map[string]Found{}}
	for _, e := range entries {
		text, err := texts.ReadFile("texts/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("reading the known licence %q: %w", e.Name(), err)
		}
		id, _, _ := strings.Cut(strings.TrimSuffix(e.Name(), ".txt"), "_")
		c.known = append(c.known, newKnown(id, string(text)))
	}
	for line := range strings.Lines(accepted) {
		c.known = append(c.known, newKnown(prose, line))
	}
	slices.SortStableFunc(c.known, func(a, b known) int { return len(b.text.String()) - len(a.text.String()) })
	return c, nil
}

func newKnown(id, text string) known {
	var parts []string
	for part := range strings.SplitSeq(text, "{}") {
		parts = append(parts, strings.Join(words(part), " "))
	}
	return known{id, regexp.MustCompile(`\b` + strings.Join(parts, `((?: \S+){0,20}?) `) + `\b`)}
}

// cut removes a known text from another text, and reports whether it was found. cut does not match a text with a
// condition in place of {}.
func (k known) cut(text string) (rest string, was bool) {
	rest = k.text.ReplaceAllStringFunc(text, func(match string) string {
		if slices.ContainsFunc(k.text.FindStringSubmatch(match)[1:], condition.MatchString) {
			return match
		}
		was = true
		return " | " // The separator keeps the words before and after the removed text apart.
	})
	return rest, was
}

// Identify returns the licences and the other words in the text of a file.
func (c *Catalogue) Identify(text string) Found {
	if found, ok := c.seen[text]; ok {
		return found
	}
	rest := strings.Join(words(text), " ")
	var found Found
	for _, k := range c.known {
		var was bool
		if rest, was = k.cut(rest); was && k.id != prose {
			found.Licences = append(found.Licences, k.id)
		}
	}
	slices.Sort(found.Licences)
	found.Licences = slices.Compact(found.Licences)
	found.Other = slices.DeleteFunc(strings.Fields(rest), func(w string) bool { return w == "|" })
	c.seen[text] = found
	return found
}

var word = regexp.MustCompile(`[\p{L}\p{N}]+`)

// words returns the words of a text in lower case, without lines of copyright, single letters and numbers of lists, and
// the scheme of addresses.
func words(text string) []string {
	text = strings.ToLower(withoutCopyright(text))
	return slices.DeleteFunc(word.FindAllString(text, -1), func(w string) bool {
		return len(w) == 1 || w == "http" || w == "https"
	})
}
