package inspect

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// currentRollout marks the row of the rollout that the pool's record is about.
const currentRollout = -1

// thenRetried ends the outcome of a rollout that ended with a verdict before a user asked to try the config again.
const thenRetried = "; then retried"

// byAPI reports whether the row is about changes through the API, and no commit.
func (r HistoryRow) byAPI() bool { return len(r.API) > 0 && r.entry == nil }

// isReturn reports whether the row is about the return to a commit's config, after changes through the API were taken back.
func (r HistoryRow) isReturn() bool { return len(r.After) > 0 && r.entry == nil }

// besidesCommit names the changes through the API that a commit's rollout had, or that were taken back before it; empty for none.
func besidesCommit(asked v1alpha1.Requester) string {
	text := ""
	if len(asked.API) > 0 && !asked.ByAPI() {
		text = "; with " + apiNames(asked.API)
	}
	if after := asked.AfterText(); after != "" {
		text += ";" + after
	}
	return text
}

// name is how other rows name the row.
func (r HistoryRow) name() string {
	switch {
	case r.byAPI():
		return apiNames(r.API)
	case r.isReturn():
		return apiNames(r.After)
	}
	return r.Revision
}

// nameAbove is how a row of a commit names the rollout after it: changes through the API take a pool back to a commit that the pool had
// before, so that the commit did not replace itself or a newer one.
func nameAbove(asked v1alpha1.Requester) string {
	switch {
	case len(asked.After) > 0 && !asked.AlsoCommit:
		return apiNames(asked.After)
	case len(asked.API) > 0:
		return apiNames(asked.API)
	}
	return asked.Revision
}

// nameOver is how a rollout names the one that replaced it; older are the rollouts before that one. Where those had its commit already, the
// changes through the API are what was new.
func nameOver(asked v1alpha1.Requester, older []v1alpha1.RolloutOutcome) string {
	had := slices.ContainsFunc(older, func(o v1alpha1.RolloutOutcome) bool { return o.Revision == asked.Revision })
	if asked.ByAPI() || had {
		return nameAbove(asked)
	}
	return asked.Revision
}

// earlierRequester is the commit that asked for the pool's target before the sources' histories begin, as where a GitSource was created again
// after its deletion; empty where a row has the commit, or where the target is not recorded. oldest says that no older row has a config.
func earlierRequester(v *poolView, rows []HistoryRow, oldest bool) string {
	target := v.facts.Target
	asked := v1alpha1.RequesterOf(v.object.Annotations, target)
	if !oldest || v.facts.Care.Record.Config != target || asked.ByAPI() || hasCommit(rows, asked.Revision) {
		return ""
	}
	return asked.Revision
}

// changesSubject is what happened through the API, in place of a commit's subject.
func changesSubject(changes []v1alpha1.APIChange) string {
	c := changes[0]
	text := fmt.Sprintf("%s %s %s", c.Action, c.Kind, c.Name)
	if more := len(changes) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// rolloutRow is the row of a rollout that no row of a commit stands for.
func rolloutRow(f *fleet, asked v1alpha1.Requester, config string) HistoryRow {
	row := HistoryRow{Revision: asked.Revision, Subject: asked.Subject, Author: asked.Author, Rendered: config, RenderedAt: renderedAt(f, config)}
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
		row.Committed = known(asked.API[0].At.UTC())
	}
	return row
}

// withAPIRows adds a row for each rollout that changes through the API asked for, above the commit that was applied at that time, and
// for each return to that commit's config.
func withAPIRows(f *fleet, v *poolView, rows []HistoryRow, past []v1alpha1.RolloutOutcome) []HistoryRow {
	insert := func(asked v1alpha1.Requester, config string, index int) {
		at := slices.IndexFunc(rows, func(r HistoryRow) bool { return r.entry != nil && r.Revision == asked.Revision })
		if !asked.ByAPI() || at < 0 && index != currentRollout {
			return
		}
		row := rolloutRow(f, asked, config)
		row.rollout = index
		rows = slices.Insert(rows, max(at, 0), row)
	}
	// Of several rollouts above one commit the newest has to come first, so that they are inserted in this order.
	for i := len(past) - 1; i >= 0; i-- {
		at := slices.IndexFunc(rows, func(r HistoryRow) bool { return r.byAPI() && r.Revision == past[i].Revision })
		if at >= 0 && past[i].ByAPI() {
			row := rolloutRow(f, past[i].Requester, past[i].Config)
			row.rollout = i
			rows = slices.Insert(rows, at, row)
			continue
		}
		if at >= 0 && len(past[i].After) > 0 {
			row := rolloutRow(f, past[i].Requester, past[i].Config)
			row.rollout = i
			rows = slices.Insert(rows, at, row)
		}
		insert(past[i].Requester, past[i].Config, i)
	}
	r := v.wave.Record
	if r.Config != v.facts.Target || r.Config == "" {
		return rows
	}
	if at := slices.IndexFunc(rows, func(o HistoryRow) bool { return o.Rendered != "" }); len(r.After) > 0 && at >= 0 && (rows[at].entry == nil || rows[at].Revision != r.Revision && !r.AlsoCommit) {
		row := rolloutRow(f, r.Requester, r.Config)
		row.rollout = currentRollout
		return slices.Insert(rows, at, row)
	}
	if r.ByAPI() {
		if at := slices.IndexFunc(rows, func(o HistoryRow) bool { return o.byAPI() && o.Revision == r.Revision }); at >= 0 {
			row := rolloutRow(f, r.Requester, r.Config)
			row.rollout = currentRollout
			return slices.Insert(rows, at, row)
		}
		insert(r.Requester, r.Config, currentRollout)
	}
	return rows
}

// withCurrent adds a row for the rollout that the pool's record is about, where no other row has it: a GitSource that was deleted
// took its history with it.
func withCurrent(f *fleet, v *poolView, rows []HistoryRow) []HistoryRow {
	r := v.wave.Record
	config := v.facts.Target
	for i, row := range rows {
		if config == "" || row.Rendered == config && row.Result != ResultNoEffect && row.Result != ResultUnknown && row.By == "" && i < len(rows) {
			return rows
		}
	}
	if config == "" || r.Config != config || v.facts.Care.Record.Config != config {
		return rows
	}
	at := 0
	for at < len(rows) && (rows[at].Result == ResultPending || rows[at].Result == ResultRefused || rows[at].Result == ResultNotRendered) {
		at++
	}
	row := rolloutRow(f, r.Requester, config)
	row.rollout, row.HistoryOutcome = currentRollout, currentOutcome(f, v)
	return slices.Insert(slices.Clone(rows), at, row)
}

// withRetries adds, below the row of a commit or of a change through the API, the earlier rollouts of the same config that ended with
// a verdict before a retry, and the commit's rollouts that had changes through the API as well.
func withRetries(f *fleet, rows []HistoryRow, past []v1alpha1.RolloutOutcome, used map[int]bool) []HistoryRow {
	var out []HistoryRow
	for _, row := range rows {
		out = append(out, row)
		if row.Result == ResultNoEffect || row.Rendered == "" {
			continue
		}
		for i, o := range past {
			withAPI := o.Config != row.Rendered && o.AlsoCommit && row.entry != nil
			if used[i] || !withAPI && (!o.HasVerdict() || o.Config != row.Rendered) || o.Revision != row.Revision || o.ByAPI() != row.byAPI() {
				continue
			}
			used[i] = true
			again := row
			by := row.Revision
			if withAPI { // the commit did not replace itself
				by = nameAbove(v1alpha1.Requester{API: o.API, After: row.After})
			}
			again.rollout, again.HistoryOutcome, again.After = i, pastOutcome(o, by), o.After
			if again.Rendered, again.RenderedAt = o.Config, renderedAt(f, o.Config); !withAPI {
				again.Outcome += thenRetried
			}
			out = append(out, again)
		}
	}
	return out
}

// forgottenRows are the rollouts and rendered configs of the pool of which no source's history speaks any more.
func forgottenRows(f *fleet, v *poolView, rows []HistoryRow, past []v1alpha1.RolloutOutcome, used map[int]bool) []HistoryRow {
	var out []HistoryRow
	newer, next := nameOver(v.wave.Record.Requester, past), v.wave.Record.Config
	for i, o := range past {
		row := rolloutRow(f, o.Requester, o.Config)
		if !used[i] {
			row.rollout, row.HistoryOutcome = i, pastOutcome(o, newer)
			if o.HasVerdict() && next == o.Config && newer == row.name() {
				row.Outcome += thenRetried
			}
			out = append(out, row)
		}
		newer, next = nameOver(o.Requester, past[i+1:]), o.Config
	}
	for _, r := range f.Rendered {
		has := func(h HistoryRow) bool { return h.Rendered == r.Name }
		if r.Pool != v.object.Name || slices.ContainsFunc(rows, has) || slices.ContainsFunc(out, has) {
			continue
		}
		row := HistoryRow{Source: r.Source, Revision: r.Revision, Subject: r.Subject, Author: r.Author, Rendered: r.Name, RenderedAt: known(r.Created.UTC()), HistoryChanges: HistoryChanges{API: r.API}}
		row.HistoryOutcome = HistoryOutcome{Result: ResultUnknown, Outcome: "its commit is not in the history any more"}
		if r.Name == v.facts.Target {
			row.HistoryOutcome = currentOutcome(f, v)
		}
		out = append(out, row)
	}
	return out
}

// ofGoneSource reports whether a row is about a commit that was applied before any of the sources was created.
func ofGoneSource(f *fleet, rows []HistoryRow) bool {
	return slices.ContainsFunc(rows, func(r HistoryRow) bool {
		at := cmp.Or(r.Began, r.RenderedAt)
		if r.entry != nil || len(r.API) > 0 || r.Revision == "" || at == nil {
			return false
		}
		existed := func(src v1alpha1.GitSource) bool { return !src.CreationTimestamp.After(*at) }
		return !slices.ContainsFunc(f.Sources, existed)
	})
}
