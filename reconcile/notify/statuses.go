package notify

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// State is the state of a commit status.
type State string

// The states of a commit status. Canceled means that a later commit replaced the rollout of the commit.
const (
	Pending  State = "pending"
	Success  State = "success"
	Failure  State = "failure"
	Canceled State = "canceled"
)

// Status is a status of a commit.
type Status struct {
	// bunsen/CLUSTER/SOURCE/render or bunsen/CLUSTER/SOURCE/rollout
	Context string
	State   State
	// one line of at most 140 characters
	Description string
}

// Commit is a commit of a source with its statuses.
type Commit struct {
	// the GitSource, the hash of the commit, and the ref that the source follows
	Source, Hash, Ref string
	// the newest commit that the source applied, or a newer one that it is reading or has refused
	Newest bool
	// what the commit should have: always that of the render, and that of the rollout if it was applied
	Statuses []Status
	// for the commit's pull request; empty if there is none yet
	Outcome Outcome
}

const (
	// commits before the newest one, for which the end of their rollout is reported
	maxEarlier = 5
	// the smallest limit of all git hosts, in characters
	maxDescription = 140
)

// Commits returns the newest commits of a source with the statuses that they should have, newest first.
func (f Facts) Commits(src *v1alpha1.GitSource) []Commit {
	var out []Commit
	add := func(revision string, newest bool, statuses ...Status) *Commit {
		r, err := source.ParseRevision(revision)
		if err != nil {
			return nil // Another version of Bunsen wrote this revision.
		}
		if slices.ContainsFunc(out, func(c Commit) bool { return c.Hash == r.Hash }) {
			return nil // The source has returned to this commit, so only its newest state counts.
		}
		out = append(out, Commit{Source: src.Name, Hash: r.Hash, Ref: r.Ref, Newest: newest, Statuses: statuses})
		return &out[len(out)-1]
	}
	render, rollout := f.context(src.Name, "render"), f.context(src.Name, "rollout")
	if text := reading(src); text != "" {
		add(src.Status.ObservedRevision, true, Status{render, Pending, shorten(text, maxDescription)})
	}
	newest := true
	for i, h := range src.Status.History[:min(len(src.Status.History), maxEarlier+1)] {
		if h.Refused != nil {
			if c := add(h.Revision, newest,
				Status{render, Failure, shorten(h.Refused.Reason+": "+line(h.Refused.Message),
					maxDescription)}); c != nil {
				c.Outcome = f.refused(src.Name, h)
			}
			continue
		}
		rolled := f.rolloutOf(h)
		if c := add(h.Revision, newest, renderStatus(render, src, h),
			rolloutStatus(rollout, src, h, rolled)); c != nil {
			c.Outcome = f.outcome(src.Name, h, rolled, poolsBefore(src.Status.History[i+1:]))
		}
		newest = false
	}
	return out
}

func (f Facts) context(src, part string) string {
	return "bunsen/" + f.Cluster + "/" + src + "/" + part
}

// poolsBefore returns the configs that the newest applied revision gave to pools.
func poolsBefore(history []v1alpha1.HistoryEntry) map[string]string {
	for _, h := range history {
		if h.Refused == nil {
			return h.Pools
		}
	}
	return nil
}

// reading says what the controller is doing with the newest commit, or "" if it has applied or refused it.
func reading(src *v1alpha1.GitSource) string {
	observed := src.Status.ObservedRevision
	if observed == "" || observed == src.Status.AppliedRevision {
		return ""
	}
	if slices.ContainsFunc(src.Status.History, func(h v1alpha1.HistoryEntry) bool { return h.Revision == observed }) {
		return ""
	}
	for _, c := range src.Status.Conditions {
		if c.Type == v1alpha1.ReadyCondition && c.Status != "True" {
			return c.Reason + ": " + line(c.Message)
		}
	}
	return "the controller reads the commit"
}

func renderStatus(context string, src *v1alpha1.GitSource, h v1alpha1.HistoryEntry) Status {
	s := Status{Context: context, State: Success}
	pools := make([]string, 0, len(h.NotRendered))
	for pool := range h.NotRendered {
		pools = append(pools, pool)
	}
	slices.Sort(pools)
	switch {
	case len(pools) > 0:
		s.State = Failure
		s.Description = shorten(fmt.Sprintf("%s not rendered: %s: %s", plural(len(pools), "pool"), pools[0],
			line(h.NotRendered[pools[0]])), maxDescription)
	case len(h.Pools) == 0 && feedsPools(src):
		s.State, s.Description = Pending, "applied; no pool is rendered yet"
	case len(h.Pools) == 0:
		s.Description = "applied; the source has no config of a pool"
	default:
		s.Description = plural(len(h.Pools), "pool") + " rendered"
	}
	return s
}

// feedsPools reports whether the applied revision has configs of pools.
func feedsPools(src *v1alpha1.GitSource) bool {
	return slices.ContainsFunc(src.Status.Inventory, func(e v1alpha1.InventoryEntry) bool {
		return e.Kind == "MachineConfig"
	})
}

// rolloutStatus is failed if one pool failed, or else pending if one has not finished.
func rolloutStatus(context string, src *v1alpha1.GitSource, h v1alpha1.HistoryEntry, rolled []progress) Status {
	worst, updated, nodes := done, 0, 0
	var why []string
	for _, p := range rolled {
		updated, nodes, worst = updated+p.updated, nodes+p.nodes, max(worst, p.state)
	}
	for _, p := range rolled {
		if p.why != "" && p.state == worst {
			why = append(why, p.pool+": "+p.why)
		}
	}
	text := fmt.Sprintf("%d/%s updated", updated, plural(nodes, "node"))
	if nodes == 0 {
		text = "no nodes"
	}
	if worst == replaced {
		text += ", then a later commit replaced this one"
	}
	if len(why) > 0 {
		text += "; " + strings.Join(why, "; ")
	}
	s := Status{Context: context, Description: shorten(text, maxDescription)}
	switch {
	case len(h.Pools) == 0 && feedsPools(src):
		s.State, s.Description = Pending, "no pool is rendered yet"
	case worst == failed:
		s.State = Failure
	case worst == pending:
		s.State = Pending
	case worst == replaced:
		s.State = Canceled
	default:
		s.State = Success
	}
	return s
}

// Posted is a status that the git host has.
type Posted struct {
	Status
	// zero if unknown
	Time time.Time
}

// Due returns the statuses to set now, and when to decide again (zero: after the next change): only those that differ
// from what the git host has, and for each context at most one in the time pace. Of a commit before the newest one, it
// is only the end of a rollout that the git host shows as pending, so that a new Notification does not change older
// commits.
func Due(c Commit, posted []Posted, now time.Time, pace time.Duration) (due []Status, next time.Time) {
	for _, want := range c.Statuses {
		at := slices.IndexFunc(posted, func(p Posted) bool { return p.Context == want.Context })
		if at < 0 && !c.Newest || at >= 0 && !c.Newest && posted[at].State != Pending {
			continue
		}
		if at >= 0 && posted[at].Status == want {
			continue
		}
		if at >= 0 {
			if wait := posted[at].Time.Add(pace); now.Before(wait) && !posted[at].Time.After(now) {
				next = sooner(next, wait)
				continue
			}
		}
		due = append(due, want)
	}
	return due, next
}

// sooner does not count a zero time.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func itoa(n int) string { return strconv.Itoa(n) }
