package view

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"html/template"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// iconOf draws one of the icons of page.html. A word beside it says the same.
func iconOf(name string) template.HTML {
	return template.HTML(`<svg class="icon" aria-hidden="true" focusable="false"><use href="#i-` + name + `"></use></svg>`)
}

// toneOf returns the class with the colours of an outcome.
func toneOf(o inspect.Outcome) string {
	switch o {
	case inspect.Fine:
		return "good"
	case inspect.Progressing, inspect.Waiting:
		return "busy"
	case inspect.Degraded:
		return "bad"
	}
	return "warn"
}

// signOf returns the name of the icon of an outcome.
func signOf(o inspect.Outcome) string {
	switch o {
	case inspect.Fine:
		return "check"
	case inspect.Progressing:
		return "turn"
	case inspect.Waiting:
		return "clock"
	}
	return "alert"
}

// timeOf draws a time. Scripts replace the text by the time that has passed, so that a region whose data are the same
// is the same at any time.
func timeOf(at any) template.HTML {
	t := utcOf(at)
	if t.IsZero() {
		return ""
	}
	return template.HTML(`<time class="ago" datetime="` + t.Format(time.RFC3339) + `" title="` +
		t.Format("Mon 2006-01-02 15:04:05 MST") + `">` + t.Format("2006-01-02 15:04 MST") + `</time>`)
}

// clockOf draws the time of a day, with seconds if fine. Scripts replace it by that of the viewer's time zone.
func clockOf(at any, fine ...bool) template.HTML {
	t := utcOf(at)
	if t.IsZero() {
		return ""
	}
	class, layout := "clock", "15:04 MST"
	if len(fine) > 0 && fine[0] {
		class, layout = "clock fine", "15:04:05 MST"
	}
	return template.HTML(`<time class="` + class + `" datetime="` + t.Format(time.RFC3339) + `" title="` +
		t.Format("Mon 2006-01-02 15:04:05 MST") + `">` + t.Format(layout) + `</time>`)
}

// utcOf returns a time.Time, or what a *time.Time points to, in UTC; zero for nil.
func utcOf(at any) time.Time {
	t, _ := at.(time.Time)
	if p, is := at.(*time.Time); is && p != nil {
		t = *p
	}
	return t.UTC()
}

// commit is a commit as a line: who, what, when.
type commit struct {
	Subject, Person, Initials, Hash, Href string
	// Tint is the class of the person's colours.
	Tint string
	At   time.Time
}

// commitOf is nil if there is no config.
func commitOf(pool string, r fleet.RenderedRow) *commit {
	if r.Name == "" {
		return nil
	}
	c := commitBy(r.Author)
	c.Subject, c.Hash, c.At = r.Subject, shortHash(r.Revision), r.Created
	c.Href = commitPath(pool, v1alpha1.ParseConfigVersion(r.Name).Config)
	if c.Subject == "" {
		c.Subject = cmp.Or(fleet.CommitLabel(r.API, r.Revision), fleet.ShortRendered(r.Name))
	}
	return &c
}

// commitBy returns a commit with its person only.
func commitBy(author string) commit {
	if author == "" {
		return commit{}
	}
	name := fleet.Person(author)
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(author)) // a hash returns no error
	return commit{Person: name, Initials: initials(name), Tint: fmt.Sprintf("a%d", sum.Sum32()%tints)}
}

// tints is how many colours the style sheet has for avatars.
const tints = 6

// initials are the first letters of the first and the last word.
func initials(name string) string {
	words := strings.FieldsFunc(safetext.Line(name), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	if len(words) == 0 {
		return "?"
	}
	first, _ := utf8.DecodeRuneInString(words[0])
	if len(words) == 1 {
		return strings.ToUpper(string(first))
	}
	last, _ := utf8.DecodeRuneInString(words[len(words)-1])
	return strings.ToUpper(string(first) + string(last))
}

const shortHashLen = 8

func shortHash(revision string) string {
	hash := fleet.HashOf(revision)
	return hash[:min(len(hash), shortHashLen)]
}

// command is a command to copy, or advice that is not typed. Lead stands before it: when it helps, and what it does.
type command struct {
	Lead, Text string
	Typed      bool
	// Step is its place among several that follow each other, from 1; 0 for the only one, and for an alternative.
	Step int
}

func commandsOf(lines []string) []command {
	out := make([]command, len(lines))
	steps := len(lines)
	for _, line := range lines {
		if fleet.IsAlternative(line) {
			steps--
		}
	}
	for i, line := range lines {
		when, text, note := fleet.CommandParts(line)
		if steps > 1 && i < steps && when == "" {
			out[i].Step = i + 1
		}
		out[i].Text, out[i].Typed = text, fleet.IsTyped(text)
		if !out[i].Typed && note != "" {
			out[i].Text, note = text+"; "+note, ""
		}
		if !out[i].Typed {
			out[i].Text = sentenceCase(out[i].Text)
		}
		switch {
		case when != "" && note != "":
			out[i].Lead = "Or, when " + when + ": " + note
		case when != "":
			out[i].Lead = "Or, when " + when
		case note != "":
			out[i].Lead = sentenceCase(note)
		}
		if out[i].Lead != "" && !strings.Contains(out[i].Lead, ": ") {
			out[i].Lead += ":"
		}
	}
	return out
}

// splitReason returns the head of a reason as a title, and the rest of it.
func splitReason(reason string) (title, rest string) {
	const short = 64
	title = fleet.OneLine(reason)
	if len(title) > short {
		quoted := false // The subject of a commit often has a colon.
		for i, r := range title {
			if r == '"' {
				quoted = !quoted
			}
			if !quoted && strings.HasPrefix(title[i:], ": ") {
				title, rest = title[:i], title[i+2:]
				break
			}
		}
	}
	return sentenceCase(fleet.Shorten(title)), fleet.Shorten(rest)
}

// sentenceCase begins a sentence with a capital letter, unless its first word is a name such as node-1.
func sentenceCase(text string) string {
	word, _, _ := strings.Cut(text, " ")
	if strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsLetter(r) }) {
		return text
	}
	r, n := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(r)) + text[n:]
}

// firstOf returns the commands that are not folded: the first one, and those that follow each other.
func firstOf(all []command) []command {
	const most = 5
	n := min(1, len(all))
	for n < min(len(all), most) && all[n].Step > 0 {
		n++
	}
	return all[:n]
}

// need is something that needs a person, with the first command that helps.
type need struct {
	About, ID, Outcome, Tone, Name, Href, Title, Rest string
	// Counts says how many nodes of a pool are done.
	Counts string
	Since  *time.Time
	Commit *commit
	// Problems are further ones of a refused commit.
	Problems []string
	Also     []string
	// Nodes are those of a pool that failed or are at work.
	Nodes     []fact
	MoreNodes int
	// Blocks are pools that wait for the same.
	Blocks   []fact
	Commands []command
	More     int
}

// mostCommands: each failed node has a command.
const mostCommands = 12

// titleOf names the commit of a rollout that ended badly, rather than its config, and the nodes of a drift.
func titleOf(w inspect.Why, n need) string {
	drifted := driftedNodes(w)
	switch {
	case len(drifted) > 0 && w.Cause == poolstate.CauseFailed && len(drifted) == len(w.Busy):
		return fleet.Names(drifted, mostNamed) + " " + differsText(drifted)
	case w.Target.Subject == "" || n.Rest == "":
	case len(drifted) > 0 && w.Cause == poolstate.CauseHalted && len(drifted) == len(w.Busy):
		return fmt.Sprintf("%s %s, which halts %q", fleet.Names(drifted, mostNamed), differsText(drifted),
			w.Target.Subject)
	case w.Cause == poolstate.CauseHalted:
		return fmt.Sprintf("The rollout of %q is halted", w.Target.Subject)
	case w.Cause == poolstate.CauseReverted:
		return fmt.Sprintf("The pool went back from %q", w.Target.Subject)
	}
	return n.Title
}

// driftedNodes are the nodes of a pool that failed because they are no longer as their config says.
func driftedNodes(w inspect.Why) []string {
	var out []string
	for _, b := range w.Busy {
		if w.Pool != nil && b.Step == fleet.StepFailed && b.Cause == v1alpha1.FailureDrift {
			out = append(out, b.Name)
		}
	}
	return out
}

func differsText(nodes []string) string {
	if len(nodes) == 1 {
		return "differs from its config"
	}
	return "differ from their configs"
}

// isAboutCommit reports whether the commit of a pool's config has a part in the reason: not in a manual change on a
// node, nor in what another commit or a person does.
func isAboutCommit(w inspect.Why) bool {
	switch w.Cause {
	case fleet.CauseSource, fleet.CauseController, poolstate.CausePaused:
		return false
	case poolstate.CauseFailed:
		return slices.ContainsFunc(w.Busy, func(b inspect.BusyNode) bool { return b.Current != b.Desired })
	}
	return true
}

func needOf(w inspect.Why, now time.Time) need {
	kind, name, _ := strings.Cut(w.About, "/")
	n := need{About: w.About, Outcome: string(w.Outcome), Tone: toneOf(w.Outcome), Name: name, Since: w.Since}
	n.Title, n.Rest = splitReason(w.Reason)
	switch kind {
	case "gitsource":
		n.ID, n.Name = idOf("source", name), "Source "+name
		n.Title, n.Rest = splitReason(cmp.Or(w.Predicate(), w.Reason))
	case "node":
		n.ID, n.Href, n.Name = idOf("node", name), nodePath(name), "Node "+name
		// The node may have failed an earlier config than the pool's present one.
		if w.Cause == poolstate.CauseFailed && w.Target != nil && w.Target.Subject != "" && w.Node != nil &&
			w.Node.Current != w.Node.Desired && w.Node.Desired.Config == w.Target.Name && n.Rest != "" {
			n.Title = fmt.Sprintf("It failed %q", w.Target.Subject)
		}
	default:
		n.ID, n.Href = idOf("pool", name), poolPath(name)
		if w.Pool != nil && w.Pool.Nodes > 0 {
			n.Counts = fmt.Sprintf("%d of %d updated", w.Pool.Updated, w.Pool.Nodes)
		}
	}
	if w.Until != nil {
		n.Rest = strings.TrimSpace(n.Rest + " Until " + fleet.Moment(*w.Until, nil, now) + ".")
	}
	if w.Target != nil && kind == "pool" {
		if isAboutCommit(w) {
			n.Commit = commitOf(name, *w.Target)
		}
		n.Title = titleOf(w, n)
	}
	n.Problems = w.Problems[min(1, len(w.Problems)):] // The reason has the first.
	for _, a := range w.Also {
		if a.Cause == poolstate.CauseFailed && w.Cause == a.Cause {
			continue // The main reason names all failed nodes.
		}
		n.Also = append(n.Also, sentenceCase(w.AlsoText(a, now)))
	}
	if kind == "pool" {
		for _, b := range w.Busy[:min(len(w.Busy), mostNamed)] {
			n.Nodes = append(n.Nodes, fact{Text: b.Name, Href: nodePath(b.Name)})
		}
		n.MoreNodes = len(w.Busy) - len(n.Nodes)
	}
	for _, about := range w.SameFor {
		if pool, is := strings.CutPrefix(about, "pool/"); is {
			n.Blocks = append(n.Blocks, fact{Text: pool, Href: poolPath(pool)})
		}
	}
	all := w.Commands()
	n.More = max(0, len(all)-mostCommands)
	n.Commands = commandsOf(all[:len(all)-n.More])
	return n
}
