package secret

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/internal/policy/secret/classify"
)

// Hidden replaces a secret in a masked text.
const Hidden = classify.Hidden

// maxPasses is how often a text is masked. Several passes are necessary because a rule may find another secret after a
// mask.
const maxPasses = 4

// Finding is one line that a rule masked.
type Finding struct {
	// Line counts from 1.
	Line int
	// Rule is the name of a rule in docs/review.md.
	Rule string
}

// Result is a masked text.
type Result struct {
	// Text is the content with a mark instead of each secret. Text has as many lines as the content, unless Whole is
	// true.
	Text string
	// Findings are sorted by line, with each rule of a line once.
	Findings []Finding
	// Whole is true if the whole text is one secret, and Text is its mark.
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

// MaskWithDigests replaces each secret of a text by a mark with a digest. The digest shows a reviewer that a secret
// changed. A secret of several lines has one digest, on its first line. The path is the path of the file on a node, or
// "" for a text that is not a file.
func MaskWithDigests(path, content string) Result {
	out := Result{Text: content}
	for range maxPasses {
		next := newText(path, out.Text).scan(rules).result()
		if len(next.Findings) == 0 {
			break
		}
		out.Text, out.Findings = next.Text, append(out.Findings, next.Findings...)
	}
	slices.SortFunc(out.Findings, compareFindings)
	out.Findings = slices.Compact(out.Findings)
	return out
}

// Path reports whether a file at a path is one secret, whatever its content.
func Path(path string) bool { return classify.IsSecretPath(path) }

// Is reports whether a text contains a secret, or its path is the path of a secret file.
func Is(path, content string) bool {
	if classify.IsBinary(content) && path != "" && classify.IsSecretPath(path) {
		return true
	}
	return len(newText(path, content).scan(rules).spans) > 0
}

// markStart is the beginning of the mark of a secret with its Digest.
const markStart = "(hidden, sha256 "

// HiddenWithDigest returns the mark of a secret with its Digest.
func HiddenWithDigest(secret string) string { return "(hidden, " + Digest(secret) + ")" }

// HasMark reports whether a text contains a mark of HiddenWithDigest.
func HasMark(shown string) bool { return strings.Contains(shown, markStart) }

// Digest returns a short digest of a secret: the digest is long enough to show a change, but too short to test guesses.
func Digest(secret string) string {
	return fmt.Sprintf("sha256 %.2x…", sha256.Sum256([]byte(secret)))
}

func compareFindings(a, b Finding) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Rule, b.Rule))
}

// scan runs every rule of a table over a text.
func (t *text) scan(table []Rule) *text {
	t.table = table
	for _, r := range table {
		if !classify.ContainsAny(t.lower, r.words) {
			continue
		}
		if r.text != nil {
			r.text(t, r.Name)
		}
		if r.line == nil {
			continue
		}
		for i := range t.lines {
			if classify.ContainsAny(t.lowerLine(i), r.words) {
				r.line(t.at(i, r.Name))
			}
		}
	}
	return t
}

// span is a secret within one line.
type span struct {
	start, end int
	rule       string
	// continued is true if the secret began on an earlier line.
	continued bool
}

// result replaces the secrets of a text by marks.
func (t *text) result() Result {
	slices.SortStableFunc(t.spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
	})
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
			out.WriteString(HiddenWithDigest(t.body[s.start:merged[end-1].end]))
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
