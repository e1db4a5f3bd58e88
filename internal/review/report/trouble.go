package report

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

// Failing is a reason why there is no Comparison.
type Failing string

// The reasons why there is no Comparison, as the comment on the pull request names them.
const (
	// HeadFails means that head cannot be rendered.
	HeadFails Failing = "**Nothing would be rolled out:** what merging makes cannot be rendered, so nodes would stay " +
		"as they are. `bunsen validate` shows the same."
	// BaseFails means that only base cannot be rendered. The nodes then run a config of an earlier commit.
	BaseFails Failing = "**What this does to machines is not known:** this commit renders, but the branch that it " +
		"merges into does not, so Bunsen cannot compare them. Nodes run an earlier commit and would get every change " +
		"since then. `bunsen diff` with that commit as the base shows these changes."
	// AllFails means any other problem, such as a missing revision.
	AllFails Failing = "**There is no plan:** Bunsen could not compute it, so the effect on machines is unknown."
)

// Trouble returns the comment for a pull request without a Comparison. It has the same marker, so that each replaces
// the other.
func Trouble(failing Failing, problem string, o MarkdownOptions) string {
	limit := max(cmp.Or(o.Limit, DefaultLimit), MinLimit) - 1000
	problem = visibleLines(strings.TrimSpace(strings.ToValidUTF8(problem, "�")))
	if len(problem) > limit {
		problem = strings.ToValidUTF8(problem[:limit], "") + "\n…"
	}
	fence := fenceFor(problem)
	if fence == "" { // The text could end the code block.
		fence, problem = "```", strings.ReplaceAll(problem, "`", "'")
	}
	heading := ""
	if o.Key != "" {
		heading = " · " + code(shorten(o.Key, maxHeading))
	}
	return fmt.Sprintf("%s\n### OS config plan%s\n\n%s\n\n%s\n%s\n%s\n", o.Marker(), heading, failing, fence, problem,
		fence)
}

// Texts of a repository must appear unchanged by the Markdown rules of all git hosts: they must not end a table's cell
// or a code span, or become HTML or a link, or mention a person or an issue, whom the host would notify.

// maxInline limits a name in a line, in bytes: a path may have 4,095.
const maxInline = 240

// zeroWidth: it is invisible and breaks a word, so that it becomes no mention or link.
const zeroWidth = "&#8203;"

// code writes text in backticks if its characters allow that, else with a reference for each odd one.
func code(text string) string {
	text = shorten(visible(text), maxInline)
	if text == "" {
		return ""
	}
	if !strings.ContainsFunc(text, odd) && strings.TrimSpace(text) == text {
		return "`" + text + "`"
	}
	return "<code>" + escape(text, func(r rune) bool {
		return odd(r) || r == '@' || r == '#' || r == ':' || r == '.' || r == '_' || r == '~'
	}) + "</code>"
}

// odd reports whether a character has a special meaning in a code span or a table.
func odd(r rune) bool { return strings.ContainsRune("`|\\<>&*[]\t", r) }

// prose escapes a text that stands between other words, and never at the beginning of a line.
func prose(text string) string {
	text = escape(shorten(visible(text), 3*maxInline), func(r rune) bool {
		return strings.ContainsRune("`|\\<>&*[]_~@#!$^\t", r)
	})
	return links.ReplaceAllString(text, "${1}"+zeroWidth+"${2}")
}

// links matches texts that hosts turn into links.
var links = regexp.MustCompile(`(?i)(https?:|ftp:|mailto:|xmpp:|ssh:|git:|www|\bgh)(//|\.|-|[^\s/])`)

// escape writes special characters as references, and a break after an @ or #, because hosts search the visible text
// for mentions.
func escape(text string, special func(rune) bool) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case !special(r):
			b.WriteRune(r)
		case r == '@' || r == '#':
			fmt.Fprintf(&b, "&#%d;%s", r, zeroWidth)
		default:
			fmt.Fprintf(&b, "&#%d;", r)
		}
	}
	return b.String()
}

func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	head, tail := limit*2/3, len(text)-limit/3
	for !startsRune(text, head) {
		head--
	}
	for !startsRune(text, tail) {
		tail++
	}
	return text[:head] + "…" + text[tail:]
}

// startsRune reports whether a text can be split before a byte.
func startsRune(text string, at int) bool { return at >= len(text) || text[at]&0xC0 != 0x80 }

func codes(names []string) string {
	out := make([]string, 0, maxNames+1)
	for i, n := range names {
		if i == maxNames {
			out = append(out, fmt.Sprintf("%s more", thousands(len(names)-i)))
			break
		}
		out = append(out, code(n))
	}
	return strings.Join(out, ", ")
}

const maxNames = 12

// fenceFor returns a fence that no line of the text can close, or "" if it would be longer than maxFence.
func fenceFor(text string) string {
	ticks, tildes := longestRun(text, '`'), longestRun(text, '~')
	mark, run := "`", ticks
	if tildes < ticks {
		mark, run = "~", tildes
	}
	if run >= maxFence {
		return ""
	}
	return strings.Repeat(mark, max(3, run+1))
}

// longestRun counts the longest run of a character; runs of up to two cannot end a fence.
func longestRun(text string, mark byte) (longest int) {
	run := 0
	for i := range len(text) {
		if text[i] != mark {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	if longest < 3 {
		return 0
	}
	return longest
}

// maxFence is the longest fence. A text that needs a longer one was written to break the fence.
const maxFence = 40
