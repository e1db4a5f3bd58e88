package report

import (
	"fmt"
	"strings"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/review"
)

// writeCallouts writes the most important remarks for a reviewer as quotes above the details.
func writeCallouts(c review.Comparison, b *strings.Builder, room int) {
	var all []string
	say := func(of func(review.PoolChange) []string, format string) {
		for _, r := range remarks(c, of) {
			all = append(all, fmt.Sprintf(format, codes(r.pools), r.text))
		}
	}
	say(func(p review.PoolChange) []string {
		return each(p.NotYetAllowed, prose)
	}, "⛔ **Not allowed in %s before this change, so merge the allowance first, in a change of its own:** %s")
	for _, text := range recipientTexts(c) {
		all = append(all, "⚠ **Who can read secrets:** "+prose(text))
	}
	say(func(p review.PoolChange) []string {
		return each(unreadableTexts(p), prose)
	}, "⚠ **Not reviewable in %s:** %s")
	say(func(p review.PoolChange) []string {
		return each(p.NewlyUnreviewed, code)
	}, "⚠ **This change itself allows contents that no reviewer can read:** in %s at %s")
	for _, w := range c.Warnings {
		all = append(all, "⚠ **Warning:** "+prose(warningText(w)))
	}
	for _, text := range submoduleTexts(c) {
		all = append(all, "⚠ **Not in this review:** "+prose(text))
	}
	for _, level := range []disruption.Disruption{disruption.Reboot, disruption.Drain} {
		say(func(p review.PoolChange) []string {
			return reasonsFor(p, level, func(it review.Item) string { return causeMarkdown(it) })
		}, "⚠ **"+capital(level.String())+" of %s because of** %s")
	}
	say(func(p review.PoolChange) []string {
		return each(p.Refused, prose)
	}, "⛔ **Running nodes of %s cannot take this change:** %s")
	say(func(p review.PoolChange) []string {
		return each(p.NewNodesOnly, prose)
	}, "🛈 **Existing nodes of %s will not get this:** %s")
	say(func(p review.PoolChange) []string {
		return each(fetchTexts(p), prose)
	}, "🛈 **Fetched before the drain, by nodes of %s:** %s")
	say(func(p review.PoolChange) []string {
		return each(nodeWritesTexts(p), prose)
	}, "🛈 **Stored on the API server, for single nodes of %s:** %s")
	say(func(p review.PoolChange) []string {
		return each(p.NewMarks, code)
	}, "⚠ **This change itself marks secrets, and the marks hide nothing here:** in %s at %s")
	say(func(p review.PoolChange) []string {
		return each(p.RemovedMarks, code)
	}, "⚠ **This change removes marks of secrets, so that later reviews show them:** in %s at %s")
	say(func(p review.PoolChange) []string { return each(p.CheckedOnNode, prose) }, "🛈 **In %s:** %s")
	say(notEvicted, "⚠ **Pods of %s go down with the reboot:** %s")
	say(paused, "⏸ **Paused: %s.** %s")
	say(func(p review.PoolChange) []string {
		return each(noticeTexts(p), prose)
	}, "⚠ **In %s the order of merging decides:** %s")
	say(func(p review.PoolChange) []string { return each(moving(p), prose) }, "⚠ **Nodes of %s:** %s")
	for _, line := range c.MachineConfigPools {
		all = append(all, "⚠ **A MachineConfigPool changes:** "+prose(line))
	}
	for _, line := range c.ClusterObjects {
		all = append(all, "⚠ **An object of cluster/ changes:** "+prose(line))
	}
	for _, line := range c.CreationRules {
		all = append(all, "⚠ **A creation rule of secrets changes:** "+code(line))
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

func paused(p review.PoolChange) []string {
	if p.Rollout == nil || !p.Rollout.Paused || !p.Changed() {
		return nil
	}
	return []string{"Nothing happens until it is resumed."}
}

// notEvicted says that nodes reboot with their pods.
func notEvicted(p review.PoolChange) []string {
	switch {
	case p.Rollout == nil || p.Rollout.NotEvicted == 0:
		return nil
	case p.Rollout.NotEvicted == 1:
		return []string{"the pods of 1 node are not evicted, because no other node can run them, whatever their " +
			"PodDisruptionBudgets say"}
	}
	return []string{fmt.Sprintf("the pods of %d nodes are not evicted, because no other node can run them, whatever "+
		"their PodDisruptionBudgets say", p.Rollout.NotEvicted)}
}

func capital(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// causeMarkdown returns the text of causeText with names as code.
func causeMarkdown(it review.Item) string {
	why := []string{}
	if isListed(it) {
		lines := strings.Split(strings.TrimSuffix(it.Diff, "\n"), "\n")
		why = append(why, codes(lines[:min(maxCauses, len(lines))]))
	} else if it.Why != "" {
		why = append(why, prose(it.Why))
	}
	if place := it.Places(); place != "" {
		why = append(why, "from "+code(place))
	}
	if len(why) == 0 {
		return code(markdownName(it))
	}
	return code(markdownName(it)) + " (" + strings.Join(why, ", ") + ")"
}

// markdownName returns the text of itemTitle without the word "file", because a path does not need that word.
func markdownName(it review.Item) string { return strings.TrimPrefix(itemTitle(it), "file ") }

// markdownTitle returns the line above the item's difference.
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

// writeDetails writes each section, folded, in the remaining room.
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

// detailsStart returns the start of a section. It folds a section unless the section is short.
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

// maxOpen is the maximum number of lines of a section that is not folded.
const maxOpen = 24

const detailsEnd = "</details>\n\n"

// summaryPools returns the names of pools for a place where hosts do not read Markdown.
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

func each(list []string, write func(string) string) []string {
	out := make([]string, len(list))
	for i, text := range list {
		out[i] = write(text)
	}
	return out
}
