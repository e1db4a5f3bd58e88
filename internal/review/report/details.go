package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bunsen-os/bunsen/internal/review"
)

// maxOpen limits the lines of a section that is not folded.
const maxOpen = 24

const detailsEnd = "</details>\n\n"

// writeDetails folds each section.
func writeDetails(c review.Comparison, b *strings.Builder, room int, hint string) {
	sections := c.Sections()
	var blocks []block
	heads := make([]string, len(sections))
	for i, sec := range sections {
		heads[i] = fmt.Sprintf("<details%s><summary>%s · %s (%s)</summary>\n\n", detailsStart(sec),
			summaryPools(sec.Pools), count(len(sec.Items), "change"), tally(sec.Items))
		for j, it := range sec.Items {
			block := newBlock(i, it)
			if j == 0 {
				block.title = heads[i] + block.title // A heading is only printed together with its first item.
			}
			blocks = append(blocks, block)
		}
		room -= len(detailsEnd)
	}
	const left = 120 // This is the room for the words that say what is left out.
	kept, each := fit(blocks, room-left-len(hint), hint)
	for i, block := range kept {
		block.write(b, each, hint)
		if i+1 == len(kept) || kept[i+1].section != block.section {
			b.WriteString(detailsEnd)
		}
	}
	if more := len(blocks) - len(kept); more > 0 {
		fmt.Fprintf(b, "… and %s not shown: %s\n\n", count(more, "more change"), hint)
	}
}

// fit shares room among blocks: every title first, as long as there is room, then the same number of bytes for every
// difference; what a short one does not need goes to the others. It returns the blocks that fit, and the bytes for each
// difference.
func fit(blocks []block, room int, hint string) (kept []block, each int) {
	for i, b := range blocks {
		need := len(b.title) + b.around(hint)
		if need > room {
			break
		}
		room -= need
		kept = blocks[:i+1]
	}
	sizes := make([]int, len(kept))
	for i, b := range kept {
		sizes[i] = b.bytes
	}
	slices.Sort(sizes)
	for i, size := range sizes {
		share := room / (len(sizes) - i)
		if size > share {
			return kept, share
		}
		room -= size
	}
	return kept, max(room, slices.Max(append(sizes, 0)))
}

// block is one item in Markdown: a title, and the lines of its difference.
type block struct {
	section int
	title   string
	lines   []string
	// of the lines
	bytes int
	fence string
}

func newBlock(section int, it review.Item) block {
	b := block{section: section, title: markdownTitle(it)}
	body := visibleLines(diffOf(it))
	b.fence = fenceFor(body)
	b.lines = slices.Collect(strings.Lines(body))
	if len(b.lines) > 0 && !strings.HasSuffix(body, "\n") {
		b.lines[len(b.lines)-1] += "\n"
	}
	for _, l := range b.lines {
		b.bytes += len(l)
	}
	return b
}

// around returns the most bytes of a block beside title and lines: two fences, the words that say what is left out, and
// the hint.
func (b block) around(hint string) int {
	if len(b.lines) == 0 {
		return 2
	}
	return 2*len(b.fence) + len(hint) + 120
}

// write prints at most so many bytes of the difference.
func (b block) write(out *strings.Builder, each int, hint string) {
	out.WriteString(b.title + "\n\n")
	if len(b.lines) == 0 {
		return
	}
	if b.fence == "" {
		fmt.Fprintf(out, "(%s not shown: %s)\n\n", measured(b.lines), hint)
		return
	}
	shown, used := 0, 0
	for shown < len(b.lines) && used+len(b.lines[shown]) <= each {
		used += len(b.lines[shown])
		shown++
	}
	text := strings.Join(b.lines[:shown], "")
	rest := b.lines[shown:]
	if shown == 0 && each >= 80 { // The first line of the difference is longer than the room.
		text = cutAt(b.lines[0], each-len("…\n")) + "…\n"
	}
	if text != "" {
		fmt.Fprintf(out, "%sdiff\n%s%s\n", b.fence, text, b.fence)
	}
	if len(rest) > 0 {
		fmt.Fprintf(out, "… %s not shown: %s\n", measured(rest), hint)
	}
	out.WriteString("\n")
}

func cutAt(text string, limit int) string {
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return strings.TrimSuffix(text[:limit], "\n")
}

// visibleLines is visible for a text that keeps its line breaks.
func visibleLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = visible(l)
	}
	return strings.Join(lines, "\n")
}

// measured is such as `120 lines (+100 −20)`.
func measured(lines []string) string {
	added, removed := 0, 0
	for _, l := range lines {
		switch l[0] {
		case '+':
			added++
		case '-':
			removed++
		}
	}
	return fmt.Sprintf("%s (+%s −%s)", count(len(lines), "line"), thousands(added), thousands(removed))
}

func markdownTitle(it review.Item) string {
	title := code(changeSign(it) + " " + markdownName(it))
	if move := renameText(it); move != "" {
		title += " · " + prose(strings.TrimSuffix(move, it.RenamedFrom+it.RenamedTo)) +
			code(it.RenamedFrom+it.RenamedTo)
	}
	title += " · " + prose(effectText(it))
	if movesPods(it) {
		title = strings.Replace(title, "drain + reboot", "drain + **reboot**", 1)
	}
	if it.Why != "" {
		title += " (" + prose(it.Why) + ")"
	}
	if it.Origin != "" {
		title += " · from " + code(it.Origin)
	}
	if hint := ruleHint(it.AvoidReboot); hint != "" {
		title += " · " + prose(hint)
	}
	return title
}

// detailsStart folds a section unless it is short.
func detailsStart(sec review.Section) string {
	lines := 0
	for _, it := range sec.Items {
		lines += 2 + strings.Count(diffOf(it), "\n")
	}
	if lines > maxOpen {
		return ""
	}
	return " open"
}

// summaryPools is for a place where hosts do not read Markdown.
func summaryPools(pools []string) string {
	out := make([]string, 0, maxNames+1)
	for i, p := range pools {
		if i == maxNames {
			out = append(out, thousands(len(pools)-i)+" more")
			break
		}
		out = append(out, "<code>"+escape(shorten(visible(p), maxInline), func(r rune) bool {
			return odd(r) || r == '@' || r == '#'
		})+"</code>")
	}
	return strings.Join(out, ", ")
}
