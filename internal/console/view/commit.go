package view

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/inspect/history"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/internal/review/report"
	"github.com/bunsen-os/bunsen/reconcile/notify"
	"github.com/bunsen-os/bunsen/source"
)

const mostRunning = 100

// Commit returns the page of a commit in a pool. The parameter what is a revision, a hash, the first digits of a hash,
// or the name of a rendered config. If the pool's history does not have it, the error is a *NotFoundError.
func (s DetailSession) Commit(ctx context.Context, pool, what string, now time.Time) (ChangePage, error) {
	c, err := s.Cluster(ctx)
	if err != nil {
		return ChangePage{}, err
	}
	f := fleet.New(c, now)
	h, err := history.Of(f, pool)
	if err != nil {
		return ChangePage{}, notFound("%s", err)
	}
	at := findRow(h.Rows, what)
	if at < 0 {
		at = findRow(h.Rows, configOfPool(f, pool, what))
	}
	if at < 0 {
		return ChangePage{}, notFound("the history of pool %s has no commit and no config %q; `bunsen history "+
			"pool/%s` lists them", pool, what, pool)
	}
	row := h.Rows[at]
	before, known := configBefore(h.Rows, at)
	p := ChangePage{Title: cmp.Or(fleet.CommitLabel(row.API, row.Revision), fleet.ShortRendered(row.Rendered)) +
		" in pool " + pool, About: aboutRow(row, pool, before), Head: &CommitHead{Pool: pool, Row: row}}
	v := f.PoolByName[pool]
	for i := range v.Rows {
		if runs(f, v.Rows[i], row.Rendered) {
			if p.Running++; len(p.Runs) < mostRunning {
				p.Runs = append(p.Runs, v.Rows[i].Name)
			}
		}
	}
	p.About = append(p.About, otherPools(f, pool, row)...)
	p.Undo = undoOf(h.Rows, at, v)
	switch {
	case row.Rendered == "":
		p.Notes = append(p.Notes, "The commit gave the pool no config, so there is nothing to compare.")
		return p, nil
	case !known:
		p.Notes = append(p.Notes, "The config before this one is not in the pool's history, so there is nothing to "+
			"compare.")
		return p, nil
	}
	nodes := -1
	if row.Nodes > 0 {
		nodes = row.Nodes
	}
	found, notes,
		err := s.compare(ctx, f,
		sides{before, row.Rendered, []pair{{ref{pool, before}, ref{pool, row.Rendered}, nodes}}}, now)
	p.Notes = append(p.Notes, notes...)
	if err != nil {
		p.Notes = append(p.Notes, failedReview(err))
	} else {
		found.Undo = ""
		outline := report.OutlineOf(found)
		p.Review = &outline
	}
	p.Forecast, err = s.forecast(ctx, rollout{
		pool: v, row: row, isLast: row.Rendered == v.TargetConfig(),
		review: found,
	}, now)
	if err != nil {
		p.Notes = append(p.Notes, err.Error())
	}
	return p, nil
}

// runs reports whether a node runs a config of its pool, or the node's own one that belongs to it.
func runs(f *fleet.Fleet, row fleet.NodeRow, config string) bool {
	if config == "" {
		return false
	}
	own := config
	for i := range f.Rendered {
		if r := &f.Rendered[i]; r.Name == config && !r.Nodes.IsZero() {
			own = r.Nodes.Of(row.Name)
		}
	}
	return row.Current.Config == own
}

// failedReview says why configs cannot be compared.
func failedReview(err error) string {
	if note := deniedNote(err, "MachineConfigs", "what the change does", configViewerRole); note != "" {
		return note
	}
	if apierrors.IsNotFound(err) {
		return "There is nothing to compare, because a config no longer exists on the cluster: " + err.Error()
	}
	return "The configs cannot be compared: " + err.Error()
}

// isHash reports whether a text can be the beginning of a commit's hash.
func isHash(text string) bool {
	return len(text) >= 7 && strings.Trim(text, "0123456789abcdef") == ""
}

// isRevision reports whether a user means a revision by the whole revision, its hash, or the first digits of the hash.
func isRevision(revision, text string) bool {
	if revision == "" || text == "" {
		return false
	}
	r, err := source.ParseRevision(revision)
	return revision == text || err == nil && isHash(text) && strings.HasPrefix(r.Hash, text)
}

// isConfig reports whether a user means a rendered config by its name, or by the shortened name of tables.
func isConfig(name, text string) bool {
	return name != "" && (name == text || fleet.ShortRendered(name) == text)
}

// findRow returns the index of the row that a user means, or -1. The row of a commit comes before one of changes
// through the API, and a row that brought a config before one without effect.
func findRow(rows []history.Row, what string) int {
	best, rank := -1, 0
	for i := range rows {
		r := &rows[i]
		if r.NewSecrets || !isRevision(r.Revision, what) && !isConfig(r.Rendered, what) {
			continue
		}
		now := 1
		if isRevision(r.Revision, what) && len(r.API) == 0 {
			now += 4
		}
		if r.Rendered != "" && r.Result != history.ResultNoEffect {
			now += 2
		}
		if now > rank {
			best, rank = i, now
		}
	}
	return best
}

// configOfPool returns the newest config of a pool to which a config of single nodes belongs; empty if there is none.
func configOfPool(f *fleet.Fleet, pool, what string) string {
	for i := range f.Rendered { // the newest first
		r := &f.Rendered[i]
		if r.Pool == pool && slices.ContainsFunc(r.Nodes.All(), func(own string) bool { return isConfig(own, what) }) {
			return r.Name
		}
	}
	return ""
}

// configBefore returns the config that the pool had before a row; false if none is recorded. A row without effect
// changed nothing.
func configBefore(rows []history.Row, at int) (string, bool) {
	if rows[at].Result == history.ResultNoEffect {
		return rows[at].Rendered, rows[at].Rendered != ""
	}
	return rows[at].Before, rows[at].Before != ""
}

func aboutRow(r history.Row, pool, before string) []Fact {
	var out []Fact
	if len(r.API) > 0 {
		out = append(out, Fact{Label: "Changed by", Text: fleet.CommitLabel(r.API, r.Revision)})
	}
	if r.Source != "" {
		out = append(out, Fact{Label: "Source", Text: r.Source})
	}
	if r.Rendered != "" {
		out = append(out, Fact{Label: "Config", Text: r.Rendered})
	}
	if before != "" && before != r.Rendered {
		out = append(out, Fact{Label: "Config before", Text: before, Pool: pool, Config: before})
	}
	return out
}

// mostPools: other pools of a commit that a page lists
const mostPools = 20

// otherPools returns the other pools to which the commit of a row gave a config, with the number of nodes that run it.
func otherPools(f *fleet.Fleet, pool string, row history.Row) []Fact {
	if row.Revision == "" || len(row.API) > 0 {
		return nil
	}
	byPool := configsOfCommit(f, row.Revision)
	delete(byPool, pool)
	var out []Fact
	for _, name := range slices.Sorted(maps.Keys(byPool)) {
		config, running := byPool[name], 0
		if config == "" {
			continue
		}
		if len(out) == mostPools {
			return append(out, Fact{Label: "Also in", Text: fmt.Sprintf("%d pools in total", len(byPool))})
		}
		if h, err := history.Of(f, name); err == nil {
			at := findRow(h.Rows, row.Revision)
			if at >= 0 && h.Rows[at].Result == history.ResultNoEffect {
				continue
			}
		}
		if v := f.PoolByName[name]; v != nil {
			for i := range v.Rows {
				if runs(f, v.Rows[i], config) {
					running++
				}
			}
		}
		out = append(out, Fact{Label: "Also in", Text: fmt.Sprintf("pool %s, on %s now", name,
			fleet.Count(running, "node")), Pool: name, Config: config})
	}
	return out
}

// undoOf returns the commands that return the pool to the config before a row.
func undoOf(rows []history.Row, at int, v *fleet.Pool) []string {
	r := rows[at]
	var out []string
	for _, change := range r.API {
		out = append(out, inspect.UndoChange(change))
	}
	if len(out) > 0 || r.Rendered == "" || r.Result == history.ResultNoEffect {
		return out
	}
	if hash := fleet.HashOf(r.Revision); hash != "" {
		out = append(out, "git revert --no-edit "+hash+" && git push   # undoes "+source.Quote(r.Subject))
	}
	older := slices.IndexFunc(rows[at+1:], func(o history.Row) bool {
		return o.Rendered != "" && o.Rendered != r.Rendered
	})
	if older < 0 || r.Rendered != v.TargetConfig() {
		return out
	}
	if hash := fleet.HashOf(rows[at+1+older].Revision); hash != "" {
		out = append(out, fleet.Alternative("several commits are to be reverted", "bunsen rollback "+
			fleet.ShellWord("pool/"+v.Object.Name)+" --to "+hash))
	}
	return out
}

type rollout struct {
	pool   *fleet.Pool
	row    history.Row
	isLast bool
	// without pools if the row has no review
	review review.Comparison
}

type counted struct{ reboots, drains int }

// forecast returns what the review expects, and what happened.
func (s DetailSession) forecast(ctx context.Context, r rollout, now time.Time) ([]ForecastRow, error) {
	expected := [4]string{unknownNumber, unknownNumber, unknownNumber, unknownNumber}
	if sum, known := r.review.RolloutOf(r.pool.Object.Name); known {
		expected = [4]string{
			fmt.Sprint(sum.Nodes), fmt.Sprint(sum.Reboots), fmt.Sprint(sum.Drains), report.DurationText(sum),
		}
	}
	happened := [4]string{unknownNumber, unknownNumber, unknownNumber, unknownNumber}
	var err error
	if r.row.Began != nil {
		began, ended := *r.row.Began, time.Time{}
		happened[0] = fmt.Sprintf("%d of %d updated", r.row.Updated, r.row.Nodes)
		happened[3] = "since " + began.UTC().Format(time.RFC3339)
		if r.row.Ended != nil {
			ended = *r.row.Ended
			happened[3] = fleet.Took(ended.Sub(began))
		}
		var n counted
		if n, err = s.disruptions(ctx, r.pool.Object.Name, [2]time.Time{began, ended}, now); err == nil {
			least := ""
			if !r.isLast {
				least = "at least " // The times of a node's later updates replace the times of earlier updates.
			}
			for i, n := range []int{n.reboots, n.drains} {
				if n > 0 || least == "" {
					happened[1+i] = least + fmt.Sprint(n)
				}
			}
		}
	}
	var out []ForecastRow
	for i, what := range []string{"Nodes", forecastReboots, forecastDrains, "Time"} {
		out = append(out, ForecastRow{What: what, Forecast: expected[i], Happened: happened[i]})
	}
	return out, err
}

func (s DetailSession) disruptions(ctx context.Context, pool string, span [2]time.Time, now time.Time) (counted,
	error,
) {
	key := fmt.Sprintf("disruptions/%s/%d/%d", pool, span[0].Unix(), span[1].Unix())
	n, err := cached(s.Cache, key, lasts(now, countAge), func() (result[counted], error) {
		var list mcfgv1.MachineConfigNodeList
		if err := s.Reader().List(ctx, &list); err != nil {
			return result[counted]{}, err
		}
		reboots, drains := notify.Disruptions(pool, span[0], span[1], list.Items)
		return result[counted]{counted{reboots, drains}, 16}, nil
	})
	if note := deniedNote(err, "MachineConfigNodes", "how many nodes rebooted", viewerRole); note != "" {
		return n, fmt.Errorf("%s", note)
	}
	if err != nil {
		return n, fmt.Errorf("reading MachineConfigNodes: %w", err)
	}
	return n, nil
}
