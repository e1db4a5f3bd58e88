package inspect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/terminal"
	"github.com/bunsen-os/bunsen/source"
	"k8s.io/apimachinery/pkg/api/meta"
)

// RollbackRequest is a user's request for a rollback.
type RollbackRequest struct {
	Pool string
	// To is the commit to return to: at least 7 digits of its hash, or a revision; empty: NewRollback selects it.
	To string
	// Source names the GitSource, if several have documents of the pool.
	Source string
	Now    time.Time
}

// CommitStep is one commit of a source and the config that it gave the pool.
type CommitStep struct {
	// Revision is `main@sha1:<hash>`, or what the user wrote for a commit that the source's history does not have.
	Revision string `json:"revision"`
	Subject  string `json:"subject,omitempty"`
	Author   string `json:"author,omitempty"`
	// Config is the name of the rendered config; empty if it is unknown, or if the pool could not be rendered.
	Config string `json:"config,omitempty"`
}

// hash is as a user types it; "" if the status of the source is damaged.
func (s CommitStep) hash() string {
	if hash, ok := source.HashIn(s.Revision); ok && hash == s.Revision {
		return hash
	}
	return fleet.HashOf(s.Revision)
}

// Text describes the commit on one line.
func (s CommitStep) Text() string {
	text := fleet.ShortRevision(s.Revision)
	if s.Subject != "" {
		text += " " + source.Quote(s.Subject)
	}
	if s.Config != "" {
		text += ", " + fleet.ShortRendered(s.Config)
	}
	return text
}

// Rollback is the range of commits to revert, so that a pool returns to an earlier config, for users and programs.
type Rollback struct {
	Pool string `json:"pool"`
	// Source is the GitSource, Repository its URL without credentials.
	Source     string `json:"source"`
	Repository string `json:"repository"`
	// From is the newest commit to revert, To the one to which the pool returns.
	From CommitStep `json:"from"`
	To   CommitStep `json:"to"`
	// Commits are those of the range that the source has applied, newest first. The range may have more. It is empty if
	// the source's history does not have To: then it does not say either where the range ends.
	Commits []CommitStep `json:"commits"`
	// Notes say what else prevents the nodes from returning to the config of To.
	Notes []string `json:"notes,omitempty"`
	// Todo has the commands to type in a clone.
	Todo []string `json:"todo"`
}

// NewRollback finds the commits to revert for a pool. Without a commit to return to, that is the one before the pool's
// newest config, or if the pool was not healthy with that one, the newest commit with the last healthy config; never a
// config that failed on nodes, nor one from which an earlier rollback returned. The error says what to do instead.
func NewRollback(c fleet.Cluster, ask RollbackRequest) (Rollback, error) {
	f := fleet.New(c, ask.Now)
	v, err := f.FindPool(ask.Pool)
	if err != nil {
		return Rollback{}, err
	}
	src, err := sourceFor(f, v, ask.Source)
	if err != nil {
		return Rollback{}, err
	}
	if a, err := source.ParseURL(src.Spec.URL); err == nil && a.Transport == source.OCI {
		return Rollback{}, fmt.Errorf("GitSource %s follows the OCI artifacts of %s: revert the commit in the "+
			"repository that they are built from, and publish a new artifact", src.Name, a)
	}
	h := newPoolHistory(f, v, src)
	out := Rollback{Pool: ask.Pool, Source: src.Name, Repository: source.Redact(src.Spec.URL)}
	at, err := h.newest()
	if err != nil {
		return Rollback{}, err
	}
	out.From = h.step(at)
	if ask.To == "" {
		out.To, err = h.before(at)
	} else {
		out.To, err = h.named(ask.To, at)
	}
	if err != nil {
		return Rollback{}, err
	}
	r := commitRange{good: out.To.hash(), bad: out.From.hash()}
	if r.good == "" || r.bad == "" {
		return Rollback{}, fmt.Errorf("the status of GitSource %s is damaged: it has a commit without a hash. Name "+
			"the commit to return to with --to", src.Name)
	}
	var known bool
	out.Commits, known = h.between(at, out.To)
	r.describe(v, src)
	out.Notes, out.Todo = notes(f, v, src, out), r.commands(v)
	if !known {
		out.Notes = append([]string{fmt.Sprintf("GitSource %s does not remember %s: only git log knows which commits "+
			"are reverted", src.Name, r.good)}, out.Notes...)
	}
	// git reverts merges and other commits with -m 1, if only those of the branch itself are listed.
	out.Todo[1] = strings.Replace(out.Todo[1], r.good+".."+r.bad,
		fmt.Sprintf("-m 1 $(git rev-list --first-parent %s..%s)", r.good, r.bad), 1)
	return out, nil
}

// Text is for people.
func (r Rollback) Text() string {
	const mostListed = 20
	b := terminal.Labels{}
	b.Add("", fmt.Sprintf("pool/%s returns to %s", r.Pool, r.To.Text()))
	b.Gap()
	for i, c := range r.Commits {
		if i == mostListed {
			b.Add("Reverts", fmt.Sprintf("and %d more", len(r.Commits)-mostListed))
			break
		}
		b.Add("Reverts", c.hash()+" "+source.Quote(c.Subject)+"   "+c.Author)
	}
	for _, n := range r.Notes {
		b.Add("Note", n)
	}
	b.Add("Clone of", r.Repository)
	for _, n := range r.Todo {
		b.Add("To do", n)
	}
	return b.String()
}

// notes say what the cluster runs now, and what else prevents the nodes from returning to the earlier config.
func notes(f *fleet.Fleet, v *fleet.Pool, src *v1alpha1.GitSource, c Rollback) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	pool := "pool/" + c.Pool
	if text := unapplied(src); text != "" {
		out = append(out, text)
	}
	if held := fleet.HeldBy(v.Object); held != "" {
		add("%s has a hold%s: after the merge, bunsen release %[1]s lets the revert reach its nodes", pool, held)
	} else if now := v.Object.Spec.Configuration.Name; now != c.From.Config && c.From.Config != "" && now != "" {
		add("%s should run %s, and not the config of %s", pool, fleet.ShortRendered(now), c.From.Text())
	}
	if v.Object.Spec.Paused {
		add("%s is paused%s: the revert reaches its nodes only after bunsen resume %[1]s", pool,
			fleet.PausedBy(v.Object))
	}
	if src.Spec.IsSuspended(f.Now) {
		add("GitSource %s is suspended%s: it reads no commit until bunsen resume gitsource/%[1]s", src.Name,
			fleet.SuspendedBy(src))
	}
	if changes := f.ConfigNamed(v.Object.Spec.Configuration.Name).API; len(changes) > 0 {
		add("a commit does not undo changes through the API: %s; bunsen why %s prints the commands",
			fleet.APINames(changes), pool)
	}
	if c.To.Config != "" && isRead(f) && !f.HasConfig(c.To.Config) {
		add("%s is no longer on the cluster; the controller renders it again, with the same name",
			fleet.ShortRendered(c.To.Config))
	}
	if step := refStep(src.Spec.Ref); step != "" {
		add("GitSource %s %s", src.Name, step)
	}
	return out
}

// unapplied says that a source has not applied the newest commit that it has seen, or "".
func unapplied(src *v1alpha1.GitSource) string {
	s := &src.Status
	if s.ObservedRevision == "" || s.ObservedRevision == s.AppliedRevision {
		return ""
	}
	why := ""
	if ready := meta.FindStatusCondition(s.Conditions, v1alpha1.ReadyCondition); ready != nil &&
		ready.Reason != v1alpha1.ReasonSucceeded {
		why = ": " + ready.Reason
	}
	return fmt.Sprintf("GitSource %s has seen %s, which it has not applied%s; bunsen why gitsource/%[1]s", src.Name,
		fleet.ShortRevision(s.ObservedRevision), why)
}

// isRead reports whether the user may read the rendered configs. Otherwise only some of their names are known.
func isRead(f *fleet.Fleet) bool {
	return slices.ContainsFunc(f.Rendered, func(r fleet.RenderedRow) bool { return !r.Created.IsZero() })
}

// sourceFor returns the GitSource whose commit gave the pool its config, or the one that the user names.
func sourceFor(f *fleet.Fleet, v *fleet.Pool, name string) (*v1alpha1.GitSource, error) {
	pool := v.Object.Name
	var found []*v1alpha1.GitSource
	var names []string
	for i := range f.Sources {
		if src := &f.Sources[i]; fleet.GavePool(src, pool) && (name == "" || name == src.Name) {
			found, names = append(found, src), append(names, src.Name)
		}
	}
	if len(found) > 1 {
		asked := f.ConfigNamed(v.Object.Spec.Configuration.Name).Revision
		of := slices.DeleteFunc(slices.Clone(found), func(src *v1alpha1.GitSource) bool {
			return asked == "" || !slices.ContainsFunc(src.Status.History, func(e v1alpha1.HistoryEntry) bool {
				return e.Revision == asked
			})
		})
		if len(of) != 1 {
			return nil, fmt.Errorf("several GitSources feed pool %s: choose one of %s with --source", pool,
				strings.Join(names, ", "))
		}
		found = of
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case name != "":
		return nil, fmt.Errorf("--source %s: no GitSource of this name gave pool %s a config; kubectl get gitsources "+
			"lists those of the cluster", name, pool)
	case len(f.Sources) == 0:
		return nil, fmt.Errorf("pool %s: the cluster has no GitSource, so a commit reaches no node", pool)
	}
	if changes := f.ConfigNamed(v.Object.Spec.Configuration.Name).API; len(changes) > 0 {
		return nil, fmt.Errorf("no commit gave pool %s a config: it follows from changes through the API; `bunsen "+
			"why pool/%[1]s` prints the commands that undo them", pool)
	}
	return nil, fmt.Errorf("no GitSource remembers a commit that gave pool %s a config: revert the commit in the "+
		"repository with git revert", pool)
}

type poolHistory struct {
	v       *fleet.Pool
	src     *v1alpha1.GitSource
	entries []v1alpha1.HistoryEntry // entries are the commits that the source applied, newest first.
	healthy string
	failed  map[string]bool // failed has the configs that failed on nodes.
	// the commit that requested the last healthy config, if the records have it
	proven string
}

func newPoolHistory(f *fleet.Fleet, v *fleet.Pool, src *v1alpha1.GitSource) poolHistory {
	h := poolHistory{
		v: v, src: src, entries: fleet.AppliedHistory(src), healthy: v.HealthyConfig().Config,
		failed: map[string]bool{},
	}
	past, err := v1alpha1.EarlierRollouts(v.Object.Annotations)
	for _, o := range past {
		if err == nil && (o.HasVerdict() || o.Failed > 0) {
			h.failed[o.Config] = true
		}
	}
	if r := v.Decision.Record; r.Verdict != "" {
		h.failed[r.Config] = true
	}
	delete(h.failed, h.healthy)
	if row := f.ConfigNamed(h.healthy); row.Source == "" || row.Source == src.Name {
		h.proven = row.Revision
	}
	return h
}

func (h poolHistory) config(i int) string { return h.entries[i].Pools[h.v.Object.Name] }

func (h poolHistory) step(i int) CommitStep {
	e := h.entries[i]
	return CommitStep{Revision: e.Revision, Subject: e.Subject, Author: e.Author, Config: h.config(i)}
}

// between returns the entries from an index to the one before a commit, newest first; none and false if the history
// does not have that commit.
func (h poolHistory) between(at int, end CommitStep) ([]CommitStep, bool) {
	steps := []CommitStep{}
	for i := at; i < len(h.entries); i++ {
		step := h.step(i)
		if step.Revision == end.Revision {
			return steps, true
		}
		steps = append(steps, step)
	}
	return []CommitStep{}, false
}

// newest returns the index of the commit with the pool's newest config, or of the newest commit if the pool cannot be
// rendered with it.
func (h poolHistory) newest() (int, error) {
	if len(h.entries) > 0 && h.config(0) == "" && h.entries[0].NotRendered[h.v.Object.Name] != "" {
		return 0, nil
	}
	first := slices.IndexFunc(h.entries, func(e v1alpha1.HistoryEntry) bool { return e.Pools[h.v.Object.Name] != "" })
	if first < 0 {
		return 0, fmt.Errorf("no applied commit of GitSource %s gave pool %s a config", h.src.Name, h.v.Object.Name)
	}
	last := first
	for i := first; i < len(h.entries); i++ {
		switch h.config(i) {
		case h.config(first):
			last = i
		case "":
		default:
			return last, nil
		}
	}
	return last, nil
}

// before returns the commit to which a rollback of the commit at an index returns. If the pool had its config several
// times, that is one from before the first time.
func (h poolHistory) before(at int) (CommitStep, error) {
	leave := h.config(at)
	proven := h.healthy != "" && h.healthy != leave
	known := proven && slices.ContainsFunc(h.entries, func(e v1alpha1.HistoryEntry) bool {
		return e.Pools[h.v.Object.Name] == h.healthy
	})
	if !proven { // A rollback does not return to a config from which an earlier rollback returned.
		for i := range h.entries {
			if h.config(i) == leave {
				at = max(at, i)
			}
		}
	}
	for i := at + 1; i < len(h.entries); i++ {
		switch config := h.config(i); {
		case config == "", config == leave, h.failed[config], known && config != h.healthy:
			continue
		default:
			return h.step(i), nil
		}
	}
	if proven {
		if _, err := source.ParseRevision(h.proven); err == nil {
			return CommitStep{Revision: h.proven, Config: h.healthy}, nil
		}
	}
	return CommitStep{}, fmt.Errorf("GitSource %s remembers no earlier config of pool %s that nodes did not fail. "+
		"Name the commit to return to with --to; bunsen history pool/%[2]s and git log list the commits", h.src.Name,
		h.v.Object.Name)
}

// RollbackOffers are the commits that gave a pool a config, newest first, for a shell: hash, tab, subject.
func RollbackOffers(c fleet.Cluster, pool string) []string {
	var out []string
	for i := range c.Sources {
		for _, e := range fleet.AppliedHistory(&c.Sources[i]) {
			if hash := fleet.HashOf(e.Revision); e.Pools[pool] != "" && hash != "" {
				out = append(out, hash+"\t"+e.Subject)
			}
		}
	}
	return out
}

// CheckRollback rejects a text that cannot be a commit's hash, before a command reads the cluster.
func CheckRollback(to string) error {
	if _, ok := source.HashIn(to); to != "" && !ok {
		return fmt.Errorf("--to %q: want the hash of a commit, in lower case and with at least %d digits, such as "+
			"one of `bunsen history`", to, source.ShortestHash)
	}
	return nil
}

// named returns the commit that a user names: if the history does not have it, her text, and the repository must have
// it.
func (h poolHistory) named(to string, at int) (CommitStep, error) {
	if err := CheckRollback(to); err != nil {
		return CommitStep{}, err
	}
	hash, _ := source.HashIn(to)
	var found []int
	for i, e := range h.entries {
		if r, err := source.ParseRevision(e.Revision); err == nil && strings.HasPrefix(r.Hash, hash) {
			found = append(found, i)
		}
	}
	switch {
	case len(found) == 0:
		return CommitStep{Revision: hash}, nil
	case h.step(found[0]).hash() != h.step(found[len(found)-1]).hash():
		return CommitStep{}, fmt.Errorf("--to %q: several commits have this hash: write more digits", to)
	}
	step := h.step(found[0])
	switch leave := h.step(at); {
	case found[0] <= at:
		return CommitStep{}, fmt.Errorf("--to %s: pool %s has its newest config since %s, so that commit is not an "+
			"earlier one", to, h.v.Object.Name, leave.Text())
	case step.Config != "" && step.Config == leave.Config:
		return CommitStep{}, fmt.Errorf("--to %s: pool %s has the config of that commit already: %s", to,
			h.v.Object.Name, step.Text())
	}
	return step, nil
}

// refStep says what to do after the merge if the source does not follow a branch; otherwise "".
func refStep(ref v1alpha1.GitRef) string {
	switch {
	case ref.Commit != "":
		return "is pinned to a commit: after the merge, set spec.ref.commit to the merged commit"
	case ref.Name != "":
		return "follows " + ref.Name + ": after the merge, move that ref to the merged commit"
	case ref.SemVer != "":
		return "follows the tags " + ref.SemVer + ": after the merge, push a higher tag on the merged commit"
	case ref.Tag != "":
		return "follows the tag " + ref.Tag + ": after the merge, push a new tag on the merged commit, and set " +
			"spec.ref.tag to it"
	}
	return ""
}
