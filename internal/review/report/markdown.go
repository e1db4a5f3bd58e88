package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/review"
)

// MarkdownOptions describe the place where the Markdown appears.
type MarkdownOptions struct {
	// Key tells comments of one pull request apart, such as the name of a cluster. It is in the marker and the heading;
	// empty is "default", without a heading.
	Key string
	// Full is Markdown that says where the whole difference is; empty names `bunsen diff`.
	Full string
	// Limit in bytes; 0 is DefaultLimit, and less than MinLimit is MinLimit.
	Limit int
}

const (
	// DefaultLimit is below the limits of git hosts for a comment, at least 65,536 characters. It counts bytes, of
	// which a text has no fewer.
	DefaultLimit = 60_000
	// MinLimit has room for what every comment has.
	MinLimit = 10_000
)

// Marker returns the hidden first line that identifies the comment.
func (o MarkdownOptions) Marker() string {
	return "<!-- bunsen:plan:v1:" + shorten(key(cmp.Or(o.Key, "default")), 100) + " -->"
}

// key removes characters that could end an HTML comment.
func key(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._/:-", r) {
			return r
		}
		return '_'
	}, strings.ToValidUTF8(text, "_"))
	for strings.Contains(text, "--") {
		text = strings.ReplaceAll(text, "--", "-")
	}
	return strings.Trim(text, "-")
}

// Markdown prints the comparison as a comment of a pull request, with at most o.Limit bytes. Items that do not fit are
// counted. The same comparison gives the same bytes. Texts of a repository cannot change the structure of the comment.
func Markdown(c review.Comparison, o MarkdownOptions) string {
	limit := max(cmp.Or(o.Limit, DefaultLimit), MinLimit)
	hint := o.Full
	if hint == "" || len(hint) > 500 {
		hint = "`bunsen diff` shows the whole"
	}
	var top, bottom strings.Builder
	fmt.Fprintf(&top, "%s\n### OS config plan%s\n\n", o.Marker(), heading(c, o.Key))
	changed, same := split(c)
	if len(changed) == 0 {
		top.WriteString(nothing(c) + "\n\n")
	}
	top.WriteString(tableText(c, changed, same, limit/4))
	if o := c.Overview; len(changed) > 0 {
		fmt.Fprintf(&top, "**%s.**%s\n\n", countsText(o.Counts), sentence(prose(hiddenText(o.Hidden))))
	}
	writeCallouts(c, &top, limit/5)
	bottom.WriteString(avoidMarkdown(c.AvoidReboots, limit/10))
	if len(c.WithoutEffect) > 0 {
		fmt.Fprintf(&bottom, "**Changed without an effect on nodes:** %s.\n\n",
			atMost(codes(c.WithoutEffect), limit/10, count(len(c.WithoutEffect), "file")))
	}
	if c.Undo != "" {
		words := atMost(undoMarkdown(c), limit/10, "go back to the base")
		fmt.Fprintf(&bottom, "**Undo:** %s. Nodes that have not applied the change when the revert arrives do "+
			"nothing.\n", words)
		if text := undoCostText(c.UndoCosts); text != "" {
			words := atMost(prose(text), limit/10, "disturbs nodes more than the change")
			fmt.Fprintf(&bottom, "⚠ This undo %s.\n", words)
		}
	}
	var out strings.Builder
	out.WriteString(top.String())
	writeDetails(c, &out, limit-top.Len()-bottom.Len(), hint)
	out.WriteString(bottom.String())
	return strings.TrimRight(out.String(), "\n") + "\n"
}

// writeCallouts writes the most important remarks as quotes above the details.
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

func each(list []string, write func(string) string) []string {
	out := make([]string, len(list))
	for i, text := range list {
		out[i] = write(text)
	}
	return out
}

// causeMarkdown is causeText with names as code.
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

// heading names the two sides.
func heading(c review.Comparison, key string) string {
	out := ""
	if key != "" {
		out = " · " + code(shorten(key, maxHeading))
	}
	name := func(side, otherwise string, commit *review.Commit) string {
		text := cmp.Or(code(shorten(review.ShortHash(side), maxHeading)), otherwise)
		if commit != nil && review.ShortHash(side) != review.ShortHash(commit.Hash) {
			text += " (" + code(review.ShortHash(commit.Hash)) + ")"
		}
		return text
	}
	return out + " · " + name(c.Head, "head", c.HeadCommit) + " against " + name(c.Base, "base", c.BaseCommit)
}

// maxHeading limits a name in the heading, in bytes.
const maxHeading = 60

func atMost(text string, limit int, otherwise string) string {
	if len(text) > limit {
		return otherwise
	}
	return text
}

func undoMarkdown(c review.Comparison) string {
	if strings.HasPrefix(c.Undo, "git ") {
		return code(c.Undo) + " brings back the earlier configs, under the same names"
	}
	return prose(c.Undo)
}

// tableText has a row for each pool that changes, and one for all others. A fact that is unknown for every pool has no
// column. It takes at most about half of the limit in bytes.
func tableText(c review.Comparison, changed []review.PoolChange, same []string, limit int) string {
	if len(c.Pools) == 0 {
		return "No pools on either side.\n\n"
	}
	facts := slices.ContainsFunc(c.Pools, func(p review.PoolChange) bool { return p.Rollout != nil })
	var b strings.Builder
	b.WriteString("| Pool | Rendered | Files | Units | Other | Action |")
	if facts {
		b.WriteString(" Nodes | Reboots | Takes |\n|---|---|---|---|---|---|---|---|---|\n")
	} else {
		b.WriteString("\n|---|---|---|---|---|---|\n")
	}
	left := 0
	for _, p := range changed {
		row := tableRow(p, facts)
		if b.Len()+len(row) > limit/2 {
			left++
			continue
		}
		b.WriteString(row)
	}
	for _, pool := range slices.Sorted(maps.Keys(c.Together)) {
		r := c.Together[pool]
		b.WriteString("| " + code(pool) + " in all | | | | | |" + forecastCells(r))
	}
	if len(same) > 0 {
		fmt.Fprintf(&b, "| %s | unchanged | | | | – |", atMost(codes(same), limit/2, count(len(same), "pool")))
		if facts {
			fmt.Fprintf(&b, " %s | 0 | – |", nodesOf(c, same))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	if left > 0 {
		fmt.Fprintf(&b, "… and %s that change.\n\n", count(left, "more pool"))
	}
	if !facts && len(changed) > 0 {
		b.WriteString("How many nodes that is, and how long it takes, is unknown without a cluster.\n\n")
	}
	return b.String()
}

// nodesOf is empty unless the nodes of all pools are known.
func nodesOf(c review.Comparison, pools []string) string {
	of := map[string]*review.Rollout{}
	for _, p := range c.Pools {
		of[p.Pool] = p.Rollout
	}
	sum := 0
	for _, name := range pools {
		if of[name] == nil {
			return "unknown"
		}
		sum += of[name].Nodes
	}
	return thousands(sum)
}

func tableRow(p review.PoolChange, facts bool) string {
	var files, units, other []review.Item
	for _, it := range p.Items {
		switch disruption.ChangeKind(it.Kind) {
		case disruption.KindFile:
			files = append(files, it)
		case disruption.KindUnit:
			units = append(units, it)
		default:
			other = append(other, it)
		}
	}
	row := fmt.Sprintf("| %s | %s | %s | %s | %s | %s |", code(p.Pool), renderedNames(p), tally(files), tally(units),
		tally(other), disruptionMarkdown(p))
	if !facts {
		return row + "\n"
	}
	if p.Rollout == nil {
		return row + " unknown | unknown | unknown |\n"
	}
	return row + forecastCells(*p.Rollout)
}

// forecastCells has the nodes, the reboots and the duration.
func forecastCells(r review.Rollout) string {
	reboots, takes := thousands(r.Reboots), DurationText(r)
	if r.Reboots > 0 {
		reboots = "**" + reboots + "**"
	}
	if r.AtOnce > 1 && r.Nodes > r.AtOnce && r.MaxMinutes > 0 {
		takes += fmt.Sprintf(" (%d at a time)", r.AtOnce)
	}
	if r.Paused {
		takes += ", paused"
	}
	return fmt.Sprintf(" %s | %s | %s |\n", thousands(r.Nodes), reboots, takes)
}

// disruptionMarkdown says what nodes do, with the most important word in bold.
func disruptionMarkdown(p review.PoolChange) string {
	switch {
	case len(p.Refused) > 0:
		return "**refused** by running nodes"
	case p.From == "":
		return "new pool"
	case p.KeepsConfig:
		return "**no documents**: nodes keep their config"
	case p.To == "":
		return "the pool goes"
	case p.Level() == disruption.Reboot:
		return "drain + **reboot**"
	case p.Level() == disruption.Drain:
		return "**drain**, " + prose(strings.TrimPrefix(actionWords(p.Actions), "drain, "))
	}
	return prose(actionsOf(p))
}

// renderedNames has short hashes.
func renderedNames(p review.PoolChange) string {
	if len(p.Nodes) > 1 {
		return "each its own"
	}
	hash := func(name, otherwise string) string {
		if name == "" {
			return otherwise
		}
		name = strings.TrimPrefix(name, "rendered-"+p.PoolName()+"-")
		return code(name[:min(5, len(name))])
	}
	return hash(p.From, "–") + " → " + hash(p.To, "–")
}

// avoidMarkdown returns a folded section with the rules, or a sentence that names `bunsen diff` if it does not fit into
// room.
func avoidMarkdown(a *review.AvoidReboots, room int) string {
	if a == nil {
		return ""
	}
	still := ""
	if text := stillRebootText(a); text != "" {
		still = prose(capital(text)) + ".\n\n"
	}
	summary := escape(visible(capital(avoidTitle(a))), func(r rune) bool { return odd(r) || r == '@' || r == '#' })
	text := "<details><summary>" + summary + "</summary>\n\n```yaml\n" + a.YAML + "```\n\n" + still + detailsEnd
	if len(text) > room {
		return "`bunsen diff` prints rules that avoid reboots.\n\n"
	}
	return text
}

// markdownName is itemTitle without the word "file", which a path does not need.
func markdownName(it review.Item) string { return strings.TrimPrefix(itemTitle(it), "file ") }

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
