package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/terminal"
)

// text returns the result in words.
func (o RowOutcome) text() string {
	why := ""
	if o.Why != "" {
		why = ": " + fleet.Shorten(o.Why)
	}
	switch o.Result {
	case Result(v1alpha1.RolloutCompleted):
		if o.RanBefore {
			return "no rollout: " + fleet.Count(o.Nodes, "node") + " ran it already"
		}
		text := "rolled out to " + fleet.Count(o.Nodes-o.UpdatedBefore, "node")
		if o.Began != nil && o.Ended != nil {
			text += " in " + fleet.Took(o.Ended.Sub(*o.Began))
		}
		if o.UpdatedBefore > 0 {
			text += "; " + fleet.Count(o.UpdatedBefore, "node") + " ran it already"
		}
		return text
	case Result(v1alpha1.RolloutWasHalted):
		return "halted at " + o.at() + why
	case Result(v1alpha1.RolloutWasReverted):
		return "reverted to " + fleet.Shorten(o.Back) + " at " + o.at() + why
	case Result(v1alpha1.RolloutSuperseded):
		if o.Nodes == 0 {
			return "superseded by " + fleet.ShortRevision(o.By) + "; the pool had no nodes"
		}
		return "superseded by " + fleet.ShortRevision(o.By) + " at " + o.at() + o.failures()
	case ResultNoNodes:
		return "the pool has no nodes; the next one gets it"
	case ResultWaiting:
		return "waiting at " + o.at() + ": " + fleet.Shorten(strings.TrimPrefix(o.Why, "waiting for "))
	case ResultPaused:
		if o.Why != "" {
			return "paused at " + o.at() + " by " + o.Why
		}
		return "paused at " + o.at()
	}
	return "rolling out: " + o.at()
}

// failures returns a text that says how many nodes failed the config, or "".
func (o RowOutcome) failures() string {
	if o.Failed == 0 {
		return ""
	}
	return "; " + fleet.Count(o.Failed, "node") + " failed it"
}

// at returns a text that says how many nodes a rollout has updated.
func (o RowOutcome) at() string {
	return fmt.Sprintf("%d of %d nodes", o.Updated, o.Nodes)
}

// setTimes sets the time of each row: when its rollout began, or else when the commit was made or the config was
// rendered. A commit may be pushed long after it was created. So a commit without a rollout gets a time between the
// times of its neighbours in the same source. Rows are newest first.
func setTimes(rows []Row) {
	older, newer := map[string]*time.Time{}, map[string]*time.Time{}
	for i := len(rows) - 1; i >= 0; i-- {
		r := &rows[i]
		r.At = cmp.Or(r.Began, r.Committed, r.RenderedAt)
		before := older[r.Source]
		if r.Began == nil && r.At != nil && before != nil && r.At.Before(*before) {
			r.At = before
		}
		if r.entry != nil && r.At != nil {
			older[r.Source] = r.At
		}
	}
	for i := range rows {
		r := &rows[i]
		if next := newer[r.Source]; r.entry != nil && r.Began == nil && next != nil && r.At.After(*next) {
			r.At = next
		}
		if r.entry != nil {
			newer[r.Source] = r.At
		}
	}
}

// sortByTime sorts rows by their times, the newest first. A row without a time is about a commit that a source has just
// read.
func sortByTime(rows []Row) {
	setTimes(rows)
	slices.SortStableFunc(rows, func(a, b Row) int {
		switch {
		case a.At != nil && b.At != nil:
			return b.At.Compare(*a.At)
		case a.At == nil && b.At != nil:
			return -1
		case a.At != nil:
			return 1
		}
		return 0
	})
}

// hasCommit reports whether one of the rows is that of a commit.
func hasCommit(rows []Row, revision string) bool {
	return slices.ContainsFunc(rows, func(r Row) bool { return r.Revision == revision && !r.byAPI() })
}

// afterText returns the end of the text about a rollout that began when changes through the API were reverted.
func afterText(after []v1alpha1.APIChange) string {
	return ";" + v1alpha1.Requester{After: after}.AfterText()
}

// Line is a row of a history as texts.
type Line struct {
	// Commit is the short revision, or API for changes through the API; it may be empty.
	Commit, Author, Subject, Outcome string
	// Rendered is the config's name; empty if there is none.
	Rendered string
	// When is the time of the row; the zero time if it is unknown.
	When time.Time
}

// Line returns the row with an index as texts.
func (h History) Line(i int) Line {
	r := h.Rows[i]
	l := Line{
		Commit: fleet.ShortRevision(r.Revision), Author: fleet.Person(r.Author), Subject: r.Subject,
		Outcome: r.Outcome, Rendered: r.Rendered,
	}
	if r.At != nil {
		l.When = *r.At
	}
	if r.NewSecrets {
		l.Commit, l.Author, l.Subject = "secrets", "-", newSecrets
		if len(r.Secrets) > 0 {
			l.Author, l.Subject = terminal.Dash(r.Secrets[0].Manager), secretsSubject(r.Secrets)
		}
	} else if r.byAPI() {
		l.Commit, l.Author, l.Subject = "API", terminal.Dash(r.API[0].Manager), changesSubject(r.API)
	} else if r.isReturn() || len(r.After) > 0 && hasCommit(h.Rows[i+1:], r.Revision) {
		l.Commit, l.Author, l.Subject = "API", terminal.Dash(r.After[0].Manager), changesSubject(r.After)
		l.Outcome = "back to " + fleet.ShortRevision(r.Revision) + ": " + strings.Replace(l.Outcome, afterText(r.After),
			"", 1)
	}
	return l
}

// Text prints the table and the notes.
func (h History) Text(now time.Time) string {
	if len(h.Rows) == 0 {
		return "No commit has given pool " + h.Pool + " a config yet.\n"
	}
	t := terminal.Table{Head: []string{"COMMIT", "RENDERED", "WHEN", "AUTHOR", "SUBJECT", "OUTCOME"}}
	for i := range h.Rows {
		l := h.Line(i)
		t.Rows = append(t.Rows, []string{
			terminal.Dash(l.Commit), terminal.Dash(fleet.ShortRendered(l.Rendered)), terminal.Age(l.When, now),
			l.Author, terminal.Dash(fleet.FirstLine(l.Subject)), fleet.FirstLine(l.Outcome),
		})
	}
	var b terminal.Labels
	b.Text(t)
	for _, n := range h.Notes {
		b.Gap()
		b.Line("%s", n)
	}
	return b.String()
}
