package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/inspect/history"
)

// mostCommits limits the commits on one page.
const mostCommits = 200

// commitRow is a commit, or a change through the API, with what it did to each pool.
type commitRow struct {
	Commit commit
	Pools  []commitPool
	At     time.Time

	of history.Row
}

type commitPool struct{ Name, Href, Word, Tone, Sign, Text string }

// Commits draws all commits and changes that the histories of the pools have, the newest first, each once. A rollout
// has the word that the overview has for its pool.
func Commits(f *fleet.Fleet, s inspect.Status) []Region {
	outcomes := outcomesOf(s)
	all := commitRows{byTitle: map[string][]*commitRow{}, hasEffect: map[string]bool{}}
	for i := range f.Pools {
		h, err := history.Of(f, f.Pools[i].Name)
		if err != nil { // There is no error, because the pool exists.
			continue
		}
		isEmpty := len(f.PoolByName[h.Pool].Rows) == 0
		for i := range h.Rows {
			all.add(isEmpty, &h, i, outcomes[h.Pool])
		}
	}
	for _, row := range all.rows {
		slices.SortFunc(row.Pools, func(a, b commitPool) int { return cmp.Compare(a.Name, b.Name) })
	}
	// A commit without an effect in one pool is told with its effect in another.
	rows := slices.DeleteFunc(all.rows, func(row *commitRow) bool {
		return len(row.Pools) == 0 && all.hasEffect[row.of.Revision]
	})
	slices.SortStableFunc(rows, func(a, b *commitRow) int { return b.At.Compare(a.At) })
	more := max(0, len(rows)-mostCommits)
	return []Region{draw("commits", "commits", struct {
		Rows []*commitRow
		More int
	}{rows[:len(rows)-more], more})}
}

// commitRows are the rows of the page while they are collected.
type commitRows struct {
	rows      []*commitRow
	byTitle   map[string][]*commitRow
	hasEffect map[string]bool
}

// add adds a row of a pool's history to that of its commit or change, unless the pool has that already: then it
// happened once more. A pool on which it had no effect, or that has no nodes, is left out.
func (all *commitRows) add(isEmpty bool, h *history.History, i int, outcome inspect.Outcome) {
	pool := h.Pool
	r := &h.Rows[i]
	noEffect := isEmpty || r.Result == history.ResultNoEffect || r.Result == history.ResultUnknown ||
		r.Result == history.ResultNoNodes
	if isEmpty && !r.IsOfCommit() {
		return
	}
	seen := historyRowOf(pool, r, outcome)
	key := r.Revision + "\x00" + seen.Commit.Subject
	at := slices.IndexFunc(all.byTitle[key], func(row *commitRow) bool {
		isOfPool := func(p commitPool) bool { return p.Name == pool }
		return row.of.SameChange(*r) && !slices.ContainsFunc(row.Pools, isOfPool)
	})
	var row *commitRow
	if at >= 0 {
		row = all.byTitle[key][at]
	} else {
		row = &commitRow{Commit: seen.Commit, At: seen.Commit.At, of: *r}
		all.rows, all.byTitle[key] = append(all.rows, row), append(all.byTitle[key], row)
	}
	if seen.Commit.At.Before(row.At) && !seen.Commit.At.IsZero() {
		row.At, row.Commit.At = seen.Commit.At, seen.Commit.At
	}
	if noEffect {
		return
	}
	all.hasEffect[r.Revision] = true
	if len(row.Pools) == 0 { // The page of a pool on which it had an effect has more to say.
		row.Commit.Href = seen.Commit.Href
	}
	text, _, _ := strings.Cut(r.Outcome, ": ")
	row.Pools = append(row.Pools, commitPool{pool, seen.Commit.Href, seen.Word, seen.Tone, seen.Sign, text})
}
