package secret

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
)

// Hidden stands in a masked text for one secret.
const Hidden = "(hidden)"

// maxPasses bounds how often a text is masked again: a mask can make a secret next to it visible to a rule.
const maxPasses = 4

// Finding is one line that a rule masked.
type Finding struct {
	// Line counts from 1.
	Line int
	// Rule is the name of a rule; see Rules.
	Rule string
}

// Result is a masked text.
type Result struct {
	// Text is the content with a mark in place of each secret. It has as many lines as the content, unless Whole is set.
	Text string
	// Findings are sorted by line and have each rule of a line once.
	Findings []Finding
	// Whole tells that all of the text is one secret, and Text its mark.
	Whole bool
}

// Rules returns the names of the rules that matched, sorted, each once.
func (r Result) Rules() []string {
	var names []string
	for _, f := range r.Findings {
		names = append(names, f.Rule)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Mask masks the secrets of a text with Hidden. The path is the one on a node, or "" for a text that is no file.
func Mask(path, content string) Result {
	return mask(path, content, func(string) string { return Hidden })
}

// MaskWithDigests masks like Mask, but adds a digest to each mark, so that a reader sees that a secret changed. A secret of
// several lines has one digest, at its first line.
func MaskWithDigests(path, content string) Result { return mask(path, content, HiddenWithDigest) }

// Path reports whether a file at a path is one secret as a whole, whatever it holds.
func Path(path string) bool { return isSecretPath(path) }

// Is reports whether a text holds a secret: Mask masks a part of it, or the path says that all of it is one.
func Is(path, content string) bool {
	if isBinary(content) && path != "" && isSecretPath(path) {
		return true
	}
	return len(newText(path, content).scan(rules).spans) > 0
}

// markStart begins the mark of a secret with its Digest.
const markStart = "(hidden, sha256 "

// HiddenWithDigest is the mark of a secret with its Digest.
func HiddenWithDigest(secret string) string { return "(hidden, " + Digest(secret) + ")" }

// HasMark reports whether a text that is shown to people has a mark of HiddenWithDigest.
func HasMark(shown string) bool { return strings.Contains(shown, markStart) }

// Digest is short on purpose: enough to see that one secret became another, too little to test guesses with.
func Digest(secret string) string {
	return fmt.Sprintf("sha256 %.2x…", sha256.Sum256([]byte(secret)))
}

func mask(path, content string, mark func(string) string) Result {
	out := Result{Text: content}
	for range maxPasses {
		next := newText(path, out.Text).scan(rules).result(mark)
		if len(next.Findings) == 0 {
			break
		}
		out.Text, out.Findings = next.Text, append(out.Findings, next.Findings...)
	}
	slices.SortFunc(out.Findings, compareFindings)
	out.Findings = slices.Compact(out.Findings)
	return out
}

func compareFindings(a, b Finding) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Rule, b.Rule))
}

// scan runs every rule of a table over a text.
func (t *text) scan(table []Rule) *text {
	t.table = table
	for _, r := range table {
		if !containsAny(t.lower, r.words) {
			continue
		}
		if r.text != nil {
			r.text(t, r.Name)
		}
		if r.line == nil {
			continue
		}
		for i := range t.lines {
			if containsAny(t.lowerLine(i), r.words) {
				r.line(t, i, r.Name)
			}
		}
	}
	return t
}

// span is a secret within one line.
type span struct {
	start, end int
	rule       string
	// continued tells that the secret began on an earlier line.
	continued bool
}

// result replaces the spans of a text by marks.
func (t *text) result(mark func(string) string) Result {
	slices.SortStableFunc(t.spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end)) })
	var merged []span
	for _, s := range t.spans {
		if last := len(merged) - 1; last >= 0 && s.start < merged[last].end {
			merged[last].end = max(merged[last].end, s.end)
			continue
		}
		merged = append(merged, s)
	}
	var out strings.Builder
	var res Result
	at, line := 0, 0
	for i, s := range merged {
		out.WriteString(t.body[at:s.start])
		if s.continued && i > 0 && merged[i-1].rule == s.rule {
			out.WriteString(Hidden)
		} else {
			end := i + 1
			for end < len(merged) && merged[end].continued && merged[end].rule == s.rule {
				end++
			}
			out.WriteString(mark(t.body[s.start:merged[end-1].end]))
		}
		at = s.end
		for line < len(t.lines) && t.lines[line].end < s.start {
			line++
		}
		res.Findings = append(res.Findings, Finding{Line: line + 1, Rule: s.rule})
	}
	out.WriteString(t.body[at:])
	res.Text = out.String()
	return res
}
