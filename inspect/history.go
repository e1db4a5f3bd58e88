package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// History is what a pool was told to run, newest first.
type History struct {
	Pool string       `json:"pool"`
	Rows []HistoryRow `json:"history"`
	// Notes say what is not known any more.
	Notes []string `json:"notes,omitempty"`
}

// HistoryRow is one commit and what became of it.
type HistoryRow struct {
	Source   string `json:"source,omitempty"`
	Revision string `json:"revision"`
	Subject  string `json:"subject"`
	Author   string `json:"author"`
	// Committed is the commit's own time.
	Committed *time.Time `json:"committed,omitempty"`
	// Rendered config that the commit gave the pool, and when that was first made; absent where it is not known.
	Rendered   string     `json:"rendered,omitempty"`
	RenderedAt *time.Time `json:"renderedAt,omitempty"`
	// Outcome in words.
	Outcome string `json:"outcome"`
}

// mostHistory is how many commits a GitSource remembers.
const mostHistory = 20

// annals finds out what became of commits.
type annals struct{ *fleet }

// NewHistory puts together what the sources, the pool's record and the rendered configs remember.
func NewHistory(c Cluster, pool string, now time.Time) (History, error) {
	f := annals{newFleet(c, now)}
	v := f.pools[pool]
	if v == nil {
		return History{}, fmt.Errorf("there is no pool %q; `bunsen get pools` lists them", pool)
	}
	h := History{Pool: pool, Rows: []HistoryRow{}}
	var refused []HistoryRow
	for i := range f.Sources {
		src := &f.Sources[i]
		if of := v.object.Annotations[v1alpha1.SourceAnnotation]; of != "" && of != src.Name && !gave(src, pool) {
			continue
		}
		row, no := refusedRow(src)
		if no {
			refused = append(refused, row)
		}
		for j := range src.Status.History {
			h.Rows = append(h.Rows, f.historyRow(src.Name, &src.Status.History[j], pool))
		}
		if s := src.Status; !no && s.ObservedRevision != "" && s.ObservedRevision != s.AppliedRevision {
			h.Notes = append(h.Notes, fmt.Sprintf("source %s has seen %s, which is not applied: bunsen why pool/%s", src.Name, shortRevision(s.ObservedRevision), pool))
		}
		if len(src.Status.History) >= mostHistory {
			h.Notes = append(h.Notes, fmt.Sprintf("source %s remembers %d commits; older ones are not known any more", src.Name, mostHistory))
		}
	}
	slices.SortStableFunc(h.Rows, func(a, b HistoryRow) int {
		if a.Source == b.Source || a.Committed == nil || b.Committed == nil {
			return 0
		}
		return b.Committed.Compare(*a.Committed)
	})
	f.judge(v, h.Rows)
	h.Rows = append(append(refused, h.Rows...), f.orphans(v, h.Rows)...)
	return h, nil
}

// refusedRow is the newest commit of a source where it cannot be used.
func refusedRow(src *v1alpha1.GitSource) (HistoryRow, bool) {
	s := src.Status
	c := meta.FindStatusCondition(s.Conditions, v1alpha1.ReadyCondition)
	r := refusalOf(c)
	stalled := c != nil && c.Status == metav1.ConditionFalse && meta.IsStatusConditionTrue(s.Conditions, v1alpha1.StalledCondition)
	row := HistoryRow{
		Source: src.Name, Revision: cmp.Or(s.ObservedRevision, r.revision), Subject: r.subject, Author: r.author, Outcome: "not rendered: " + shorten(r.problem),
	}
	return row, (r.in != "" || stalled) && row.Revision != "" && row.Revision != s.AppliedRevision
}

// gave tells that a commit of the source gave the pool a config.
func gave(src *v1alpha1.GitSource, pool string) bool {
	return slices.ContainsFunc(src.Status.History, func(e v1alpha1.HistoryEntry) bool { return e.Pools[pool] != "" })
}

func (f annals) historyRow(source string, e *v1alpha1.HistoryEntry, pool string) HistoryRow {
	row := HistoryRow{
		Source: source, Revision: e.Revision, Subject: e.Subject, Author: e.Author, Committed: known(e.Time.UTC()), Rendered: e.Pools[pool],
	}
	row.RenderedAt = f.renderedAt(row.Rendered)
	return row
}

// renderedAt is when a config was made; nil where that is not known.
func (f annals) renderedAt(name string) *time.Time {
	for _, r := range f.Rendered {
		if r.Name == name {
			return known(r.Created.UTC())
		}
	}
	return nil
}

// judge says what became of each commit. Rows are newest first; those in a line with one config are told apart: the oldest
// brought it, the others changed nothing for the pool.
func (f annals) judge(v *poolView, rows []HistoryRow) {
	target := v.facts.Target
	newer := "" // the revision that brought the config after the one that is looked at
	current := true
	for i := range rows {
		r := &rows[i]
		if r.Rendered == "" {
			r.Outcome = notRendered(v, i == 0)
			continue
		}
		if before := slices.IndexFunc(rows[i+1:], func(o HistoryRow) bool { return o.Rendered != "" }); before >= 0 && rows[i+1+before].Rendered == r.Rendered {
			r.Outcome = "same content as " + shortRevision(rows[i+1+before].Revision)
			continue
		}
		switch {
		case r.Rendered == target && current:
			r.Outcome = f.verdict(v)
		case newer == "":
			r.Outcome = "not the pool's target yet"
		default:
			r.Outcome = "superseded by " + newer
		}
		r.Outcome += f.traces(v, r.Rendered)
		newer, current = shortRevision(r.Revision), false
	}
}

// notRendered is the outcome of a commit that gave the pool nothing.
func notRendered(v *poolView, newest bool) string {
	if why := v.renderFailure(); why != "" && newest {
		return "cannot be rendered: " + shorten(why)
	}
	if newest {
		return "not rendered yet"
	}
	return "superseded before it was rendered, or nothing of the pool's"
}

// verdict is the outcome of the config that the pool should run.
func (f annals) verdict(v *poolView) string {
	r := v.wave.Record
	on := fmt.Sprintf(" (%s)", f.poolRow(v).numbers())
	switch {
	case r.Config != v.facts.Target || r.Began.IsZero():
		if v.object.Status.Configuration.Name == v.facts.Target {
			return "rolled out; how long it took is not known"
		}
		return "rolling; since when is not known" + on
	case r.Verdict == v1alpha1.RolloutHalted:
		return "halted: " + shorten(r.Why)
	case r.Verdict == v1alpha1.RolloutReverted:
		return "reverted to " + shorten(r.Back) + ": " + shorten(r.Why)
	case r.Ended != nil && v.facts.Care.Record.Config != v.facts.Target: // the record is begun, and ends, only now
		return "rolled out; how long it took is not known"
	case r.Ended != nil:
		return "rolled out in " + took(r.Ended.Sub(r.Began.Time))
	case v.facts.Paused:
		return "paused" + by(v.object) + on
	}
	return "rolling since " + Age(r.Began.Time, f.now) + on
}

// took is a duration for people; a day and more in hours.
func took(d time.Duration) string {
	text := d.Round(time.Second).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = strings.TrimSuffix(text, zero[1:])
		}
	}
	return text
}

// traces are what of an older config can still be seen.
func (f annals) traces(v *poolView, config string) string {
	if config == v.facts.Target {
		return ""
	}
	var out []string
	n := 0
	for _, row := range v.rows {
		if row.Current == config {
			n++
		}
	}
	if n > 0 {
		out = append(out, "still run by "+count(n, "node"))
	}
	if v.object.Status.Configuration.Name == config {
		out = append(out, "the last that the whole pool ran")
	} else {
		out = append(out, "how far it came is not known any more")
	}
	if f.Rendered != nil && f.renderedAt(config) == nil {
		out = append(out, "its config was deleted since")
	}
	return "; " + strings.Join(out, "; ")
}

// orphans are the pool's rendered configs that no history speaks of: older ones, and those of what was changed through the API.
func (f annals) orphans(v *poolView, rows []HistoryRow) []HistoryRow {
	var out []HistoryRow
	for _, r := range f.Rendered {
		if r.Pool != v.object.Name || slices.ContainsFunc(rows, func(h HistoryRow) bool { return h.Rendered == r.Name }) {
			continue
		}
		row := HistoryRow{Source: r.Source, Revision: r.Revision, Subject: r.Subject, Author: r.Author, Rendered: r.Name, RenderedAt: known(r.Created.UTC())}
		if r.Name == v.facts.Target {
			row.Outcome = f.verdict(v) + "; no commit that is remembered asked for it"
		} else {
			row.Outcome = "no commit that is remembered asked for it" + f.traces(v, r.Name)
		}
		out = append(out, row)
	}
	return out
}

// Text prints the table, and what is not known.
func (h History) Text(now time.Time) string {
	if len(h.Rows) == 0 {
		return "No commit has given pool " + h.Pool + " a config yet.\n"
	}
	t := Table{Head: []string{"COMMIT", "RENDERED", "WHEN", "AUTHOR", "SUBJECT", "OUTCOME"}}
	for _, r := range h.Rows {
		when := time.Time{}
		if at := cmp.Or(r.Committed, r.RenderedAt); at != nil {
			when = *at
		}
		t.Rows = append(t.Rows, []string{
			dash(shortRevision(r.Revision)), dash(ShortRendered(r.Rendered)), Age(when, now), person(r.Author), dash(firstLine(r.Subject)), firstLine(r.Outcome),
		})
	}
	text := t.String()
	for _, n := range h.Notes {
		text += "\n" + n + "\n"
	}
	return text
}
