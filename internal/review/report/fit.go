package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bunsen-os/bunsen/internal/review"
)

// block is one item in Markdown: a title, and the lines of its difference.
type block struct {
	section int
	title   string
	lines   []string
	// bytes is the number of bytes of the lines.
	bytes int
	fence string
}

// around returns the maximum number of bytes of a block without its title and its lines. These bytes are two fences,
// the words that say what is left out, and the hint.
func (b block) around(hint string) int {
	if len(b.lines) == 0 {
		return 2
	}
	return 2*len(b.fence) + len(hint) + 120
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

// visibleLines is the function visible for a text that keeps its line breaks.
func visibleLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = visible(l)
	}
	return strings.Join(lines, "\n")
}

// fit shares room among blocks. Every title comes first, as long as there is room. Then every difference gets the same
// number of bytes; bytes that a short difference does not need go to the other differences. fit returns the blocks that
// fit, and the number of bytes for each difference.
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

// write prints the block. write prints at most the given number of bytes of the block's difference.
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

// measured counts the lines of a difference: `120 lines (+100 −20)`.
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
