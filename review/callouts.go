package review

import (
	"fmt"
	"strings"

	"github.com/bunsen-os/bunsen/policy"
)

// callouts are what a reviewer must not miss, as quotes above the details.
func (c Comparison) callouts(b *strings.Builder, room int) {
	var all []string
	say := func(of func(PoolChange) []string, format string) {
		for _, r := range c.remarks(of) {
			all = append(all, fmt.Sprintf(format, codes(r.pools), r.text))
		}
	}
	for _, w := range c.Warnings {
		all = append(all, "⚠ **Warning:** "+prose(w.text()))
	}
	for _, level := range []policy.Disruption{policy.Reboot, policy.Drain} {
		say(func(p PoolChange) []string { return p.because(level, Item.causeMarkdown) }, "⚠ **"+capital(level.String())+" of %s because of** %s")
	}
	say(func(p PoolChange) []string { return each(p.Refused, prose) }, "⛔ **Running nodes of %s cannot take this change:** %s")
	say(func(p PoolChange) []string { return each(p.NewNodesOnly, prose) }, "🛈 **Existing nodes of %s will not get this:** %s")
	say(func(p PoolChange) []string { return each(p.NewMarks, code) }, "⚠ **Marks that this change adds hide nothing here:** in %s, %s is shown")
	say(func(p PoolChange) []string { return each(p.CheckedOnNode, prose) }, "🛈 **In %s:** %s")
	say(paused, "⏸ **Paused: %s.** %s")
	say(func(p PoolChange) []string { return each(p.noticeTexts(), prose) }, "⚠ **In %s the order of merging decides:** %s")
	say(func(p PoolChange) []string { return each(moving(p), prose) }, "⚠ **Nodes of %s:** %s")
	for _, line := range c.MachineConfigPools {
		all = append(all, "⚠ **A MachineConfigPool changes:** "+prose(line))
	}
	for _, line := range c.ClusterObjects {
		all = append(all, "⚠ **An object of cluster/ changes:** "+prose(line))
	}
	for _, line := range c.Policy {
		all = append(all, "⚖ **The disruption policy changes:** "+prose(line))
	}
	end := b.Len() + room
	for i, text := range all {
		if b.Len()+len(text) > end {
			fmt.Fprintf(b, "> … and %s\n", count(len(all)-i, "more remark"))
			break
		}
		if i > 0 {
			b.WriteString(">\n")
		}
		b.WriteString("> " + text + "\n")
	}
	if len(all) > 0 {
		b.WriteString("\n")
	}
}

func paused(p PoolChange) []string {
	if p.Rollout == nil || !p.Rollout.Paused || !p.changed() {
		return nil
	}
	return []string{"Nothing happens until it is resumed."}
}

func capital(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// causeMarkdown is cause, with names as code.
func (it Item) causeMarkdown() string {
	why := []string{}
	if it.listed() {
		lines := strings.Split(strings.TrimSuffix(it.Diff, "\n"), "\n")
		why = append(why, codes(lines[:min(maxCauses, len(lines))]))
	} else if it.Why != "" {
		why = append(why, prose(it.Why))
	}
	if place := it.places(); place != "" {
		why = append(why, "from "+code(place))
	}
	if len(why) == 0 {
		return code(it.markdownName())
	}
	return code(it.markdownName()) + " (" + strings.Join(why, ", ") + ")"
}

// markdownName is title without the word file, which a path says itself.
func (it Item) markdownName() string { return strings.TrimPrefix(it.title(), "file ") }

// markdownTitle is the line above the item's difference.
func (it Item) markdownTitle() string {
	title := code(it.sign() + " " + it.markdownName())
	if move := it.move(); move != "" {
		title += " · " + prose(strings.TrimSuffix(move, it.RenamedFrom+it.RenamedTo)) + code(it.RenamedFrom+it.RenamedTo)
	}
	title += " · " + prose(it.deed())
	if it.disturbs() {
		title = strings.Replace(title, "drain + reboot", "drain + **reboot**", 1)
	}
	if it.Why != "" {
		title += " (" + prose(it.Why) + ")"
	}
	if it.Origin != "" {
		title += " · from " + code(it.Origin)
	}
	if hint := it.AvoidReboot.hint(); hint != "" {
		title += " · " + prose(hint)
	}
	return title
}

// details fold each section away, in the room that is left.
func (c Comparison) details(b *strings.Builder, room int, hint string) {
	sections := c.sections()
	var blocks []block
	heads := make([]string, len(sections))
	for i, sec := range sections {
		heads[i] = fmt.Sprintf("<details%s><summary>%s · %s (%s)</summary>\n\n", sec.open(), summaryPools(sec.pools), count(len(sec.items), "change"), tally(sec.items))
		for j, it := range sec.items {
			block := newBlock(i, it)
			if j == 0 {
				block.title = heads[i] + block.title // counted with the first item, so that no head stands alone
			}
			blocks = append(blocks, block)
		}
		room -= len(detailsEnd)
	}
	const left = 120 // for the words on what is left out
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

// open unfolds a section that is read in one look.
func (sec section) open() string {
	lines := 0
	for _, it := range sec.items {
		lines += 2 + strings.Count(it.body(), "\n")
	}
	if lines > maxOpen {
		return ""
	}
	return " open"
}

// maxOpen is how many lines a section may have that is not folded.
const maxOpen = 24

const detailsEnd = "</details>\n\n"

// summaryPools writes pools where no Markdown is read.
func summaryPools(pools []string) string {
	out := make([]string, 0, maxNames+1)
	for i, p := range pools {
		if i == maxNames {
			out = append(out, thousands(len(pools)-i)+" more")
			break
		}
		out = append(out, "<code>"+escape(shorten(visible(p), maxInline), func(r rune) bool { return odd(r) || r == '@' || r == '#' })+"</code>")
	}
	return strings.Join(out, ", ")
}

func each(list []string, write func(string) string) []string {
	out := make([]string, len(list))
	for i, text := range list {
		out[i] = write(text)
	}
	return out
}
