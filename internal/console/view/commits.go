package view

import (
	"cmp"
	"maps"
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
}

type commitPool struct{ Name, Href, Word, Tone, Sign, Text string }

// Commits draws all commits and changes that the histories of the pools have, the newest first, each once. A rollout
// has the word that the overview has for its pool.
func Commits(f *fleet.Fleet, s inspect.Status) []Region {
	outcomes := outcomesOf(s)
	byCommit := map[string]*commitRow{}
	for i := range f.Pools {
		h, err := history.Of(f, f.Pools[i].Name)
		if err != nil { // There is no error, because the pool exists.
			continue
		}
		isEmpty := len(f.PoolByName[h.Pool].Rows) == 0
		for i := range h.Rows {
			addToCommits(byCommit, isEmpty, &h, i, outcomes[h.Pool])
		}
	}
	var rows []commitRow
	for _, key := range slices.Sorted(maps.Keys(byCommit)) {
		row := byCommit[key]
		slices.SortFunc(row.Pools, func(a, b commitPool) int { return cmp.Compare(a.Name, b.Name) })
		rows = append(rows, *row)
	}
	slices.SortStableFunc(rows, func(a, b commitRow) int { return b.At.Compare(a.At) })
	more := max(0, len(rows)-mostCommits)
	return []Region{draw("commits", "commits", struct {
		Rows []commitRow
		More int
	}{rows[:len(rows)-more], more})}
}

// addToCommits adds a row of a pool's history to that of its commit. A pool on which it had no effect, or
// that has no nodes, is left out.
func addToCommits(byCommit map[string]*commitRow, isEmpty bool, h *history.History, i int, outcome inspect.Outcome) {
	pool := h.Pool
	r := &h.Rows[i]
	key := r.Revision
	if len(r.API) > 0 || r.NewSecrets || key == "" {
		key = pool + "/" + r.Rendered + "/" + r.Revision
	}
	seen := historyRowOf(pool, r, outcome)
	row := byCommit[key]
	if row == nil {
		row = &commitRow{Commit: seen.Commit, At: seen.Commit.At}
		byCommit[key] = row
	}
	if seen.Commit.At.Before(row.At) && !seen.Commit.At.IsZero() {
		row.At, row.Commit.At = seen.Commit.At, seen.Commit.At
	}
	if isEmpty || r.Result == history.ResultNoEffect || r.Result == history.ResultUnknown ||
		r.Result == history.ResultNoNodes {
		return
	}
	if len(row.Pools) == 0 { // The page of a pool on which it had an effect has more to say.
		row.Commit.Href = seen.Commit.Href
	}
	text, _, _ := strings.Cut(r.Outcome, ": ")
	row.Pools = append(row.Pools, commitPool{pool, seen.Commit.Href, seen.Word, seen.Tone, seen.Sign, text})
}
