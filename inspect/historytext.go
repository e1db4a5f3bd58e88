package inspect

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// setTimes sets the time of each row: when its rollout began, or else when the commit was made or the config was rendered. A commit
// may be pushed long after it was made, so a commit without a rollout is not older than the commit of the same source that the source
// followed before, and not newer than the one that it followed next. Rows are newest first.
func setTimes(rows []HistoryRow) {
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

// sortByTime sorts rows by their times, the newest first. A row without a time is that of a commit that a source has just seen.
func sortByTime(rows []HistoryRow) {
	setTimes(rows)
	slices.SortStableFunc(rows, func(a, b HistoryRow) int {
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
func hasCommit(rows []HistoryRow, revision string) bool {
	return slices.ContainsFunc(rows, func(r HistoryRow) bool { return r.Revision == revision && !r.byAPI() })
}

// afterText ends the outcome of a rollout that began when changes through the API were taken back.
func afterText(after []v1alpha1.APIChange) string {
	return ";" + v1alpha1.Requester{After: after}.AfterText()
}

// Text prints the table, and what is not known.
func (h History) Text(now time.Time) string {
	if len(h.Rows) == 0 {
		return "No commit has given pool " + h.Pool + " a config yet.\n"
	}
	t := Table{Head: []string{"COMMIT", "RENDERED", "WHEN", "AUTHOR", "SUBJECT", "OUTCOME"}}
	for i, r := range h.Rows {
		when := time.Time{}
		if r.At != nil {
			when = *r.At
		}
		commit, author, subject, outcome := shortRevision(r.Revision), person(r.Author), r.Subject, r.Outcome
		if r.byAPI() {
			commit, author, subject = "API", dash(r.API[0].Manager), changesSubject(r.API)
		} else if r.isReturn() || len(r.After) > 0 && hasCommit(h.Rows[i+1:], r.Revision) {
			commit, author, subject = "API", dash(r.After[0].Manager), changesSubject(r.After)
			outcome = "back to " + shortRevision(r.Revision) + ": " + strings.Replace(outcome, afterText(r.After), "", 1)
		}
		t.Rows = append(t.Rows, []string{
			dash(commit), dash(ShortRendered(r.Rendered)), Age(when, now), author, dash(firstLine(subject)), firstLine(outcome),
		})
	}
	text := t.String()
	for _, n := range h.Notes {
		text += "\n" + n + "\n"
	}
	return text
}
