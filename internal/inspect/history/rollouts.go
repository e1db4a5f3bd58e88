package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// currentRollout marks the row of the rollout in the pool's record.
const currentRollout = -1

// thenRetried is the end of the text about a rollout that ended with a verdict before a user retried the config.
const thenRetried = "; then retried"

// byAPI reports whether the row describes only changes through the API, and no commit.
func (r Row) byAPI() bool { return len(r.API) > 0 && r.entry == nil }

// isReturn reports whether the row describes the return to a commit's config after changes through the API were
// reverted.
func (r Row) isReturn() bool { return len(r.After) > 0 && r.entry == nil }

// besidesCommit returns a text that names the changes through the API that a commit's rollout included, or that were
// reverted before the rollout; "" if there are none.
func besidesCommit(asked v1alpha1.Requester) string {
	text := ""
	if len(asked.API) > 0 && !asked.ByAPI() {
		text = "; with " + fleet.APINames(asked.API)
	}
	if after := asked.AfterText(); after != "" {
		text += ";" + after
	}
	return text
}

// name returns the name of the row in the texts of other rows.
func (r Row) name() string {
	switch {
	case r.NewSecrets:
		return newSecrets
	case r.byAPI():
		return fleet.APINames(r.API)
	case r.isReturn():
		return fleet.APINames(r.After)
	}
	return r.Revision
}

// nameAbove returns the name that a commit's row uses for the next rollout. After changes through the API a pool can
// return to an earlier commit. The text must not say that the commit replaced itself or a newer commit.
func nameAbove(asked v1alpha1.Requester) string {
	switch {
	case len(asked.After) > 0 && !asked.AlsoCommit:
		return fleet.APINames(asked.After)
	case len(asked.API) > 0:
		return fleet.APINames(asked.API)
	}
	return asked.Revision
}

// nameOver returns the name that a rollout's row uses for the rollout that replaced it. The parameter older has the
// rollouts before the new rollout. If an older rollout already had the commit of the new one, only the changes through
// the API are new.
func nameOver(asked v1alpha1.Requester, older []v1alpha1.RolloutOutcome) string {
	had := slices.ContainsFunc(older, func(o v1alpha1.RolloutOutcome) bool { return o.Revision == asked.Revision })
	if asked.ByAPI() || had {
		return nameAbove(asked)
	}
	return asked.Revision
}

// earlierRequester returns the commit that requested the pool's target before the sources' histories begin, for example
// after a GitSource was deleted and created again. The result is empty if a row has the commit or the target is not
// recorded. The parameter oldest is true if no older row has a config.
func earlierRequester(v *fleet.Pool, rows []Row, oldest bool) string {
	target := v.TargetConfig()
	asked := v1alpha1.RequesterOf(v.Object.Annotations, target)
	if !oldest || v.Facts.Care.Record.Config != target || asked.ByAPI() || hasCommit(rows, asked.Revision) {
		return ""
	}
	return asked.Revision
}

// changesSubject returns a text about changes through the API, which is shown instead of a commit's subject.
func changesSubject(changes []v1alpha1.APIChange) string {
	c := changes[0]
	text := fmt.Sprintf("%s %s %s", c.Action, c.Kind, c.Name)
	if more := len(changes) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// rolloutRow returns the row of a rollout that has no commit's row.
func rolloutRow(f *fleet.Fleet, asked v1alpha1.Requester, config string) Row {
	row := Row{
		Revision: asked.Revision, Subject: asked.Subject, Author: asked.Author, Rendered: config,
		RenderedAt: renderedAt(f, config),
	}
	for _, r := range f.Rendered {
		if r.Name == config && r.Revision == asked.Revision {
			row.Source = r.Source
			if row.Subject == "" {
				row.Subject, row.Author = r.Subject, r.Author
			}
		}
	}
	row.After = asked.After
	if asked.ByAPI() {
		row.Source, row.Subject, row.Author, row.API = "", "", "", asked.API
		row.Committed = fleet.TimeOrNil(asked.API[0].At.UTC())
	}
	return row
}

// withAPIRows adds a row for each rollout that changes through the API requested, above the commit that was applied at
// that time. withAPIRows also adds a row for each return to that commit's config.
func withAPIRows(f *fleet.Fleet, v *fleet.Pool, rows []Row, past []v1alpha1.RolloutOutcome) []Row {
	insert := func(at, index int, asked v1alpha1.Requester, config string) {
		row := rolloutRow(f, asked, config)
		row.rollout = index
		rows = slices.Insert(rows, at, row)
	}
	// The newest of several rollouts above one commit must come first, so the loop inserts the oldest first.
	for i := len(past) - 1; i >= 0; i-- {
		if at := positionOf(rows, past[i].Requester); at >= 0 {
			insert(at, i, past[i].Requester, past[i].Config)
		}
	}
	if at := currentPosition(v, rows); at >= 0 {
		insert(at, currentRollout, v.Decision.Record.Requester, v.Decision.Record.Config)
	}
	return rows
}

// positionOf returns the position for the row of a rollout that changes through the API requested: above the other rows
// about the same commit. positionOf returns -1 for any other rollout, and if no row has the commit.
func positionOf(rows []Row, asked v1alpha1.Requester) int {
	above := slices.IndexFunc(rows, func(r Row) bool { return r.byAPI() && r.Revision == asked.Revision })
	switch {
	case above >= 0 && (asked.ByAPI() || len(asked.After) > 0):
		return above
	case asked.ByAPI():
		return slices.IndexFunc(rows, func(r Row) bool { return r.entry != nil && r.Revision == asked.Revision })
	}
	return -1
}

// currentPosition returns the position for the row of the current rollout; -1 if a commit's row describes it.
func currentPosition(v *fleet.Pool, rows []Row) int {
	r := v.Decision.Record
	if r.Config != v.TargetConfig() || r.Config == "" {
		return -1
	}
	newest := slices.IndexFunc(rows, func(o Row) bool { return o.Rendered != "" })
	if len(r.After) > 0 && newest >= 0 && (rows[newest].entry == nil || rows[newest].Revision != r.Revision &&
		!r.AlsoCommit) {
		return newest
	}
	if !r.ByAPI() {
		return -1
	}
	return max(0, positionOf(rows, r.Requester))
}

// withCurrent adds a row for the rollout in the pool's record, if no other row has this rollout. The reason can be that
// a GitSource was deleted with its history.
func withCurrent(f *fleet.Fleet, v *fleet.Pool, rows []Row) []Row {
	r := v.Decision.Record
	config := v.TargetConfig()
	for i, row := range rows {
		if config == "" || row.Rendered == config && row.Result != ResultNoEffect && row.Result != ResultUnknown &&
			row.By == "" && i < len(rows) {
			return rows
		}
	}
	if config == "" || r.Config != config || v.Facts.Care.Record.Config != config {
		return rows
	}
	at := 0
	for at < len(rows) && (rows[at].Result == ResultPending || rows[at].Result == ResultRefused ||
		rows[at].Result == ResultNotRendered) {
		at++
	}
	row := rolloutRow(f, r.Requester, config)
	row.rollout, row.RowOutcome = currentRollout, currentOutcome(f, v)
	return slices.Insert(slices.Clone(rows), at, row)
}

// withRetries adds earlier rollouts of the same config below the row of a commit or of a change through the API. These
// are the rollouts that ended with a verdict before a retry, and the commit's rollouts that included changes through
// the API.
func withRetries(f *fleet.Fleet, rows []Row, past []v1alpha1.RolloutOutcome, used map[int]bool) []Row {
	var out []Row
	for _, row := range rows {
		out = append(out, row)
		if row.Result == ResultNoEffect || row.Rendered == "" {
			continue
		}
		for i, o := range past {
			withAPI := o.Config != row.Rendered && o.AlsoCommit && row.entry != nil
			if used[i] || !withAPI && (!o.HasVerdict() || o.Config != row.Rendered) || o.Revision != row.Revision ||
				o.ByAPI() != row.byAPI() {
				continue
			}
			used[i] = true
			again := row
			by := row.Revision
			if withAPI { // The commit did not replace itself, so the text must not say so.
				by = nameAbove(v1alpha1.Requester{API: o.API, After: row.After})
			}
			again.rollout, again.RowOutcome, again.After = i, pastOutcome(o, by), o.After
			if again.Rendered, again.RenderedAt = o.Config, renderedAt(f, o.Config); !withAPI {
				again.Outcome += thenRetried
			}
			out = append(out, again)
		}
	}
	return out
}

// unusedOutcomes returns rows for the recorded rollouts that no other row describes.
func unusedOutcomes(f *fleet.Fleet, v *fleet.Pool, past []v1alpha1.RolloutOutcome, used map[int]bool) []Row {
	var out []Row
	newer, next := nameOver(v.Decision.Record.Requester, past), v.Decision.Record.Config
	for i, o := range past {
		row := rolloutRow(f, o.Requester, o.Config)
		if !used[i] {
			row.rollout, row.RowOutcome = i, pastOutcome(o, newer)
			if o.HasVerdict() && next == o.Config && newer == row.name() {
				row.Outcome += thenRetried
			}
			out = append(out, row)
		}
		newer, next = nameOver(o.Requester, past[i+1:]), o.Config
	}
	return out
}

// unlistedConfigs returns rows for the rendered configs of the pool that no other row has.
func unlistedConfigs(f *fleet.Fleet, v *fleet.Pool, rows []Row) []Row {
	var out []Row
	for _, r := range f.Rendered {
		has := func(h Row) bool { return h.Rendered == r.Name }
		if r.Pool != v.Object.Name || slices.ContainsFunc(rows, has) || slices.ContainsFunc(out, has) {
			continue
		}
		row := Row{
			Source: r.Source, Revision: r.Revision, Subject: r.Subject, Author: r.Author, Rendered: r.Name,
			RenderedAt: fleet.TimeOrNil(r.Created.UTC()), Changes: Changes{API: r.API},
		}
		row.RowOutcome = RowOutcome{Result: ResultUnknown, Outcome: "its commit is not in the history any more"}
		if r.Name == v.TargetConfig() {
			row.RowOutcome = currentOutcome(f, v)
		}
		out = append(out, row)
	}
	return out
}

// ofGoneSource reports whether a row is about a commit that was applied before every existing source was created.
func ofGoneSource(f *fleet.Fleet, rows []Row) bool {
	return slices.ContainsFunc(rows, func(r Row) bool {
		at := cmp.Or(r.Began, r.RenderedAt)
		if r.entry != nil || len(r.API) > 0 || r.Revision == "" || at == nil {
			return false
		}
		existed := func(src v1alpha1.GitSource) bool { return !src.CreationTimestamp.After(*at) }
		return !slices.ContainsFunc(f.Sources, existed)
	})
}
