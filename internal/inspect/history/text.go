package history

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/terminal"
)

// Line is a row of a history as texts.
type Line struct {
	// Commit is the short revision, or API; it may be empty.
	Commit, Author, Subject, Outcome string
	// Rendered may be empty.
	Rendered string
	// When is zero if unknown.
	When time.Time
}

// Line returns the row as texts.
func (r Row) Line() Line {
	l := Line{
		Commit: fleet.ShortRevision(r.Revision), Author: fleet.Person(r.Author), Subject: r.Subject,
		Outcome: r.Outcome, Rendered: r.Rendered,
	}
	if r.At != nil {
		l.When = *r.At
	}
	switch {
	case r.NewSecrets:
		l.Commit, l.Author, l.Subject = "secrets", "-", newSecrets
		if len(r.Secrets) > 0 {
			l.Author, l.Subject = terminal.Dash(r.Secrets[0].Manager), secretsSubject(r.Secrets)
		}
	case len(r.API) > 0 && !r.AlsoCommit:
		l.Commit, l.Author, l.Subject = "API", terminal.Dash(r.API[0].Manager), changesSubject(r.API)
	case r.Cause == v1alpha1.RolloutCauseAPI && len(r.After) > 0:
		l.Commit, l.Author, l.Subject = "API", terminal.Dash(r.After[0].Manager), changesSubject(r.After)
		l.Outcome = "back to " + fleet.ShortRevision(r.Revision) + ": " + l.Outcome
	case r.Cause == v1alpha1.RolloutCauseHold && r.By != "":
		l.Subject = "held by " + r.By
	default:
		l.Subject = causeText(r) + l.Subject
		if len(r.API) > 0 {
			l.Outcome += "; with " + fleet.APINames(r.API)
		}
		if len(r.After) > 0 {
			l.Outcome += ";" + v1alpha1.Requester{After: r.After}.AfterText()
		}
	}
	return l
}

// IsOfCommit reports whether the row is about the commit of its revision, and not about a change of secrets or through
// the API.
func (r Row) IsOfCommit() bool { return r.Line().Commit == fleet.ShortRevision(r.Revision) }

// ShortCommit is the short hash of the row's commit, or what stands in its place; it may be empty.
func (r Row) ShortCommit() string {
	if r.IsOfCommit() {
		return cmp.Or(fleet.HashOf(r.Revision), r.Revision)
	}
	return r.Line().Commit
}

// SameChange reports whether rows of two pools tell of the same commit, change or hold.
func (r Row) SameChange(other Row) bool {
	a, b := r.Line(), other.Line()
	return r.Revision == other.Revision && a.Commit == b.Commit && a.Subject == b.Subject && a.Author == b.Author
}

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
		text := "rolled out"
		if o.Nodes > 0 {
			text += " to " + fleet.Count(o.Nodes-o.UpdatedBefore, "node")
		}
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
			return "replaced by " + o.nextText() + "; the pool had no nodes"
		}
		return "replaced by " + o.nextText() + " at " + o.at() + o.failures()
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

// failures says how many nodes failed the config, or "".
func (o RowOutcome) failures() string {
	if o.Failed == 0 {
		return ""
	}
	return "; " + fleet.Count(o.Failed, "node") + " failed it"
}

// at says how many nodes a rollout has updated.
func (o RowOutcome) at() string {
	if o.Nodes == 0 {
		return "an unknown number of nodes" // An earlier version of the controller recorded no number.
	}
	return fmt.Sprintf("%d of %d nodes", o.Updated, o.Nodes)
}

// causeText returns what began a rollout, before the commit's subject; "" for a push and a revert, because the subject
// says that.
func causeText(r Row) string {
	switch r.Cause {
	case v1alpha1.RolloutCauseHold:
		return "held: "
	case v1alpha1.RolloutCauseRelease:
		return "released" + by(r) + ": "
	case v1alpha1.RolloutCauseForcePush:
		return "force push: "
	case v1alpha1.RolloutCauseRetry:
		return "retried" + by(r) + ": "
	case v1alpha1.RolloutCauseRecovery:
		return "recovered: "
	}
	return ""
}

// by is "" if that is not known.
func by(r Row) string {
	if r.By == "" {
		return ""
	}
	return " by " + r.By
}

// nextText names what replaced the rollout.
func (o RowOutcome) nextText() string {
	next := o.Next
	switch {
	case next == nil:
		return "another config"
	case next.Cause == v1alpha1.RolloutCauseSecrets:
		return newSecrets
	case next.Cause == v1alpha1.RolloutCauseHold:
		return "a hold at " + fleet.ShortRevision(next.Revision)
	case next.API != nil:
		return fleet.APINames([]v1alpha1.APIChange{*next.API})
	case o.nextSubject != "":
		return strconv.Quote(fleet.Shorten(o.nextSubject))
	case next.Revision != "":
		return fleet.ShortRevision(next.Revision)
	}
	return "another config"
}

// newSecrets is the subject if the changes are not known.
const newSecrets = "new values of secrets"

// secretsSubject names the newest change of secrets, and how many more there are.
func secretsSubject(changes []v1alpha1.SecretChange) string {
	c := changes[0]
	c.Manager = ""
	text := fleet.ChangeText(c)
	if more := len(changes) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// changesSubject stands in place of a commit's subject.
func changesSubject(changes []v1alpha1.APIChange) string {
	c := changes[0]
	text := fmt.Sprintf("%s %s %s", c.Action, c.Kind, c.Name)
	if more := len(changes) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Text prints the table and the notes.
func (h History) Text(now time.Time) string {
	if len(h.Rows) == 0 {
		return "No commit has given pool " + h.Pool + " a config yet.\n"
	}
	t := terminal.Table{Head: []string{"COMMIT", "RENDERED", "WHEN", "AUTHOR", "SUBJECT", "OUTCOME"}}
	for i := range h.Rows {
		l := h.Rows[i].Line()
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
