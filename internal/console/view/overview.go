package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/inspect/history"

	"github.com/bunsen-os/bunsen/internal/terminal"
)

const mostListed = 100

// Overview draws the state of the whole cluster in the order of what a person does about it: what needs her, what
// moves, what is well, and what happened since yesterday. Sources, controllers and servers are chips beside the head; a
// source has what the viewer can do with it. The lines of done are a note about the last action.
func Overview(f *fleet.Fleet, s inspect.Status, acts []SourceActions, done []string, now time.Time) []Region {
	o := inspect.OverviewOf(f, s)
	var needs, moves, rest []Region
	told := map[string]bool{}
	for _, n := range needsOf(o, now) {
		told[n.About] = true
		needs = append(needs, draw(n.ID, "overview-need", n))
	}
	for _, w := range o.Moves() {
		moves = append(moves, moveRow(f, w, now))
	}
	past := map[string]history.History{}
	for i := range f.Pools {
		if h, err := history.Of(f, f.Pools[i].Name); err == nil { // There is no error, because the pool exists.
			past[h.Pool] = h
		}
	}
	title := "Well"
	for _, row := range o.Rest() {
		if row.Outcome.NeedsUser() {
			title = "Other pools"
		}
		rest = append(rest, poolLine(s, row, past[row.Name]))
	}
	if len(rest) == 0 {
		title = ""
	}
	day := recent(f, s, past, now)
	return []Region{
		draw("headline", "overview-head", struct {
			Needs            int
			Headline, Counts string
		}{len(needs), o.Headline(), o.Counts()}),
		Actions{Done: done}.Region(),
		draw("chips", "overview-chips", nil,
			append(chips(s, told, acts, now), draw("chip-day", "overview-day", daySum(day)))...),
		draw("needs", "overview-needs", len(needs), needs...),
		draw("moves", "overview-moves", len(moves), moves...),
		draw("rest", "overview-rest", title, rest...),
		draw("empty", "overview-empty", emptiness{len(s.Pools) == 0, s.Unfollowed != "", commandsOf(s.Begin)}),
		draw("recent", "overview-recent", day[:min(len(day), mostRecent)]),
		draw("warnings", "overview-warnings", warningsOf(o, now)),
		unmanaged(s),
	}
}

// emptiness is what a cluster lacks that follows no repository.
type emptiness struct {
	NoPool, Unfollowed bool
	Commands           []command
}

// needsOf returns what needs a person. A pool that waits for a source is named at the source, and does not repeat why.
func needsOf(o inspect.Overview, now time.Time) []need {
	var out []need
	source := map[string]int{} // by the reason
	for _, w := range o.Needs() {
		if w.Source != nil {
			source[w.Reason] = -1
		}
	}
	waits := map[string][]fact{}
	for _, w := range o.Needs() {
		pool, isPool := strings.CutPrefix(w.About, "pool/")
		also, kept := w.Also, w.Also[:0:0]
		for _, a := range also {
			if _, isTold := source[a.Reason]; isTold && isPool {
				waits[a.Reason] = append(waits[a.Reason], fact{Text: pool, Href: poolPath(pool)})
				continue
			}
			kept = append(kept, a)
		}
		w.Also = kept
		n := needOf(w, now)
		if w.Source != nil {
			source[w.Reason] = len(out)
		} else if len(kept) < len(also) {
			n.Blocks = nil // They wait for the source too.
		}
		out = append(out, n)
	}
	if n := o.Status.Notifier; n != nil {
		x := need{ID: "notifier", Outcome: string(inspect.Blocked), Tone: "warn", Name: "Notifier", Since: n.Seen}
		x.Title, x.Commands = sentenceCase(n.Problem), commandsOf(n.Do)
		out = append(out, x)
	}
	for reason, at := range source {
		for _, pool := range waits[reason] {
			if !slices.Contains(out[at].Blocks, pool) {
				out[at].Blocks = append(out[at].Blocks, pool)
			}
		}
		slices.SortFunc(out[at].Blocks, func(a, b fact) int { return cmp.Compare(a.Text, b.Text) })
	}
	return out
}

// warningsOf returns what is worth a look without a hurry, and none of the needs has.
func warningsOf(o inspect.Overview, now time.Time) []string {
	s := o.Status
	var warnings []string
	if !slices.ContainsFunc(o.Whys, func(w inspect.Why) bool { return w.Cause == fleet.CauseController }) {
		warnings = lines(s.Controllers.Problems(now))
	}
	for _, r := range s.Sources {
		if r.Overdue && r.LastLook != nil {
			warnings = append(warnings, fleet.OverdueText(r.Name, terminal.Age(*r.LastLook, now)+" ago"))
		}
	}
	return append(warnings, s.Warnings...)
}

func unmanaged(s inspect.Status) Region {
	data := struct {
		Count string
		More  int
		Nodes []fact
	}{More: max(0, len(s.Unmanaged)-mostListed)}
	if n := len(s.Unmanaged); n > 0 {
		data.Count = fleet.Count(n, "node")
	}
	for _, n := range s.Unmanaged[:len(s.Unmanaged)-data.More] {
		data.Nodes = append(data.Nodes, fact{Text: n.Name, Href: nodePath(n.Name)})
	}
	return draw("unmanaged", "overview-unmanaged", data)
}

func lines(text string) []string {
	if text = strings.TrimRight(text, "\n"); text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// chips are the parts of Bunsen itself, each with its details to unfold.
func chips(s inspect.Status, told map[string]bool, acts []SourceActions, now time.Time) []Region {
	var out []Region
	for _, row := range s.Sources {
		var links []Action
		for _, a := range acts {
			if a.Name == row.Name {
				links = a.Links
			}
		}
		out = append(out, sourceChip(row, told["gitsource/"+row.Name], links))
	}
	for _, part := range []struct {
		id, name string
		n        int
		text     string
		unwell   bool
	}{
		{"controllers", "controller", controllersOf(s), s.Controllers.Text(now), s.Controllers.Problems(now) != "" || isLate(s)},
		{"servers", "server", serversOf(s), s.Servers.Text(now), serversOf(s) == 0},
	} {
		if part.text == "" {
			continue
		}
		data := struct {
			ID, Name, Tone string
			Open           bool
			Lines          []string
		}{part.id, fleet.Count(part.n, part.name), "", part.unwell, lines(part.text)}
		if part.unwell {
			data.Tone = "warn"
		}
		out = append(out, draw(part.id, "overview-lines", data))
	}
	return out
}

func controllersOf(s inspect.Status) int {
	if s.Controllers == nil {
		return 0
	}
	n := 0
	for _, r := range s.Controllers.Replicas {
		if r.Alive {
			n++
		}
	}
	return n
}

func isLate(s inspect.Status) bool { return s.Controllers != nil && s.Controllers.Late }

func serversOf(s inspect.Status) int {
	if s.Servers == nil {
		return 0
	}
	return len(s.Servers.Alive())
}

func sourceChip(row inspect.SourceRow, isTold bool, links []Action) Region {
	id := idOf("chip", row.Name)
	data := struct {
		ID, Name, Short, Tone string
		Facts                 []fact
		Links                 []Action
	}{ID: id, Name: row.Name, Short: "nothing applied yet", Links: links}
	branch, hash, found := strings.Cut(fleet.ShortRevision(row.Revision), "@")
	if found {
		data.Short = branch + " at " + strings.TrimPrefix(hash, "sha1:")
	}
	if row.Outcome.NeedsUser() {
		data.Tone = toneOf(row.Outcome)
		if found {
			data.Short = "stays at " + strings.TrimPrefix(hash, "sha1:") + " of " + branch
		}
	}
	add := func(label, text string) {
		if text != "" {
			data.Facts = append(data.Facts, fact{Label: label, Text: text})
		}
	}
	add("Commit", row.Subject)
	add("Ready", row.Ready)
	if !isTold { // What needs a person is said once, above.
		add("Message", cutLine(fleet.Brief(row.Message)))
	}
	add("Signed by", row.SignedBy)
	if row.Verified != "" && row.SignedBy == "" {
		add("Signature", "verified: "+row.Verified)
	}
	if row.LastLook != nil {
		data.Facts = append(data.Facts, fact{Label: "Looked", At: *row.LastLook})
	}
	return draw(id, "overview-source", data)
}

// moveRow draws a rollout, or a source whose commit is applied now.
func moveRow(f *fleet.Fleet, w inspect.Why, now time.Time) Region {
	n := needOf(w, now)
	data := struct {
		ID, Href, Name, Sign, Outcome, Reason, Numbers, Step, Next string
		Updated, Nodes                                             int
		Commit                                                     *commit
		Bar                                                        []barPart
		Expected                                                   *time.Time
	}{
		ID: n.ID, Href: n.Href, Name: n.Name, Sign: signOf(w.Outcome), Outcome: n.Outcome, Commit: n.Commit,
		Reason: w.Short(),
	}
	if row := w.Pool; row != nil {
		data.Updated, data.Nodes, data.Bar = row.Updated, row.Nodes, bar(row.PoolCounts)
		data.Numbers = fmt.Sprintf("%d busy, %d to come", row.Busy, row.Waiting)
		data.Expected = inspect.Expected(f, row.Name)
		data.Step, data.Next = row.Step, row.Next
		if data.Next == "" && w.Outcome == inspect.Waiting {
			data.Next = w.Short()
		}
	}
	return draw(n.ID, "overview-move", data)
}

// poolLine draws a pool of which nothing else on the page tells.
func poolLine(s inspect.Status, row inspect.PoolRow, past history.History) Region {
	id := idOf("pool", row.Name)
	data := struct {
		ID, Href, Name, Sign, Tone, Outcome, Note, NoteTone string
		Updated, Nodes                                      int
		Commit                                              *commit
	}{
		ID: id, Href: poolPath(row.Name), Name: row.Name, Sign: signOf(row.Outcome), Tone: toneOf(row.Outcome),
		Outcome: string(row.Outcome), Updated: row.Updated, Nodes: row.Nodes,
	}
	if row.Outcome.NeedsUser() {
		data.NoteTone = data.Tone
	}
	if c, known := s.Targets[row.Name]; known {
		data.Commit = commitOf(row.Name, c)
	}
	switch {
	case row.Nodes == 0 || row.Target == "":
		data.Sign, data.Tone = "dot", ""
	case row.Updated == row.Nodes: // What stops newer commits is said above, and the nodes run what they should.
		data.Sign, data.Tone = "check", "good"
	}
	var notes []string
	for _, b := range row.Blocked {
		notes = append(notes, fleet.Brief(b))
	}
	if row.Next != "" {
		notes = append(notes, row.Next)
	}
	if word := stateWord(row); len(notes) == 0 && word != "" {
		notes = append(notes, word)
	}
	if len(notes) == 0 {
		notes = append(notes, lastRollout(past))
	}
	data.Note = strings.Join(notes, "; ")
	return draw(id, "overview-pool", data)
}

// stateWord is the state of a pool unless its numbers say the same.
func stateWord(row inspect.PoolRow) string {
	if row.State == "Updated" || row.Nodes == 0 {
		return ""
	}
	return fleet.Brief(row.State)
}

// lastRollout says how long the last rollout of a pool took, and how it went.
func lastRollout(past history.History) string {
	for _, r := range past.Rows {
		if d := took(r); d > 0 && r.Nodes > 0 {
			text := "last rollout " + fleet.Took(d)
			if r.Failed > 0 {
				return text + ", " + fleet.Count(r.Failed, "node") + " failed"
			}
			return text + ", none failed"
		}
	}
	return ""
}

// mostTogether limits the pools that a line names.
const mostTogether = 8

// mostRecent limits the rollouts of the last day on the overview.
const mostRecent = 8

type happening struct {
	Pool, Detail, Subject, Author, Href string
	// Word is the outcome as one word, with its icon and colours.
	Word, Sign, Tone string
	At               time.Time
}

// recent returns what happened to the pools within a day, the newest first.
func recent(f *fleet.Fleet, s inspect.Status, past map[string]history.History, now time.Time) []happening {
	var out []happening
	outcomes := outcomesOf(s)
	events := history.Events(f, slices.Collect(maps.Values(past)), now.Add(-24*time.Hour))
	for _, alike := range history.Alike(events) {
		e := alike[0]
		line := e.Line()
		look := lookOf(e.RowOutcome, outcomes[e.Pool])
		x := happening{
			Href: rowPath(e.Pool, &e.Row), Sign: look.sign, Word: look.word, Tone: look.tone, At: e.When,
			Subject: cmp.Or(line.Subject, fleet.CommitLabel(e.API, e.Revision), fleet.ShortRendered(e.Rendered)),
		}
		x.Pool, x.Detail = history.OutcomeOf(alike, mostTogether)
		if line.Author != "-" && e.Cause != v1alpha1.RolloutCauseHold {
			x.Author = line.Author // Who wrote the commit is not who holds the pool at it.
		}
		x.Detail = withoutWord(x.Detail, resultOf(e.RowOutcome).word)
		if e.Node != "" {
			x.Subject, x.Href = e.Node, nodePath(e.Node)
			x.Detail = fleet.Shorten(e.Why)
		}
		out = append(out, x)
	}
	return out
}

func outcomesOf(s inspect.Status) map[string]inspect.Outcome {
	out := map[string]inspect.Outcome{}
	for _, row := range s.Pools {
		out[row.Name] = row.Outcome
	}
	return out
}

// withoutWord returns what came of a commit without the word that stands beside it.
func withoutWord(outcome, word string) string {
	rest, found := strings.CutPrefix(outcome, word)
	if !found {
		return outcome
	}
	for _, before := range []string{": ", ", ", " to ", " at "} {
		rest = strings.TrimPrefix(rest, before)
	}
	return strings.TrimSpace(rest)
}

// mostInDay limits the troubles of a day that the chip names, and mostTitle the runes of each name.
const mostInDay, mostTitle = 4, 32

// daySum says what happened within a day: the first troubles by their names, the rest by its number; "" for nothing.
func daySum(all []happening) string {
	var named, words []string
	counts := map[string]int{}
	for _, x := range all {
		if x.Tone != "good" && x.Tone != "" && len(named) < mostInDay {
			named = append(named, safetext.Short(x.Subject, mostTitle)+" "+x.Word)
			continue
		}
		if counts[x.Word]++; counts[x.Word] == 1 {
			words = append(words, x.Word)
		}
	}
	for i, word := range words {
		words[i] = fmt.Sprintf("%d %s", counts[word], word)
	}
	return strings.Join(append(named, words...), ", ")
}
