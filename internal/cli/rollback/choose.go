package rollback

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/source"
	"k8s.io/apimachinery/pkg/api/meta"
)

const shortestHash = 7

// Ask is a user's request for a rollback.
type Ask struct {
	Pool string
	// To is the commit to return to: at least 7 digits of its hash, or a revision; empty: Choose selects it.
	To string
	// Source names the GitSource, if several have documents of the pool.
	Source string
	Now    time.Time
}

// Step is one commit of a source and the config that it gave the pool.
type Step struct {
	// Revision is `main@sha1:<hash>`, or what the user wrote for a commit that the source's history does not have.
	Revision string `json:"revision"`
	Subject  string `json:"subject,omitempty"`
	Author   string `json:"author,omitempty"`
	// Config is the name of the rendered config; empty if it is unknown, or if the pool could not be rendered.
	Config string `json:"config,omitempty"`
}

// Hash returns the hash of the commit, or the part of it that the user wrote.
func (s Step) Hash() string {
	if r, err := source.ParseRevision(s.Revision); err == nil {
		return r.Hash
	}
	return s.Revision
}

// Text describes the commit on one line.
func (s Step) Text() string {
	text := fleet.ShortRevision(s.Revision)
	if s.Subject != "" {
		text += " " + source.Quote(s.Subject)
	}
	if s.Config != "" {
		text += ", " + fleet.ShortRendered(s.Config)
	}
	return text
}

// Choice is the range of commits to revert: every commit after To, up to and including From.
type Choice struct {
	Pool   string
	Source *v1alpha1.GitSource
	// From gave the pool the config to leave.
	From, To Step
	// Notes say what else prevents the nodes from returning to the config of To.
	Notes []string
}

// Choose finds the commits to revert for a pool. Without Ask.To, it returns to the commit before the pool's newest
// config, or if the pool was not healthy with that one, to the newest commit with the last healthy config; never to a
// config that failed on nodes, nor to one from which an earlier rollback returned. The error says what to do instead.
func Choose(c fleet.Cluster, ask Ask) (Choice, error) {
	f := fleet.New(c, ask.Now)
	v, err := f.FindPool(ask.Pool)
	if err != nil {
		return Choice{}, err
	}
	src, err := sourceFor(f, v, ask.Source)
	if err != nil {
		return Choice{}, err
	}
	if a, err := source.ParseURL(src.Spec.URL); err == nil && a.Transport == source.OCI {
		return Choice{}, fmt.Errorf("GitSource %s follows the OCI artifacts of %s: revert the commit in the "+
			"repository that they are built from, and publish a new artifact", src.Name, a)
	}
	h := newPoolHistory(f, v, src)
	out := Choice{Pool: ask.Pool, Source: src}
	at, err := h.newest()
	if err != nil {
		return Choice{}, err
	}
	out.From = h.step(at)
	if ask.To == "" {
		out.To, err = h.before(at)
	} else {
		out.To, err = h.named(ask.To, at)
	}
	if err != nil {
		return Choice{}, err
	}
	out.Notes = notes(f, v, out)
	return out, nil
}

// notes say what the cluster runs now, and what else prevents the nodes from returning to the earlier config.
func notes(f *fleet.Fleet, v *fleet.Pool, c Choice) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	pool := "pool/" + c.Pool
	if text := unapplied(c.Source); text != "" {
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
	if c.Source.Spec.IsSuspended(f.Now) {
		add("GitSource %s is suspended%s: it reads no commit until bunsen resume gitsource/%[1]s", c.Source.Name,
			fleet.SuspendedBy(c.Source))
	}
	if changes := f.ConfigNamed(v.Object.Spec.Configuration.Name).API; len(changes) > 0 {
		add("a commit does not undo changes through the API: %s; bunsen why %s prints the commands",
			fleet.APINames(changes), pool)
	}
	if c.To.Config != "" && isRead(f) && !f.HasConfig(c.To.Config) {
		add("%s is no longer on the cluster; the controller renders it again, with the same name",
			fleet.ShortRendered(c.To.Config))
	}
	if step := RefStep(c.Source.Spec.Ref); step != "" {
		add("GitSource %s %s", c.Source.Name, step)
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

func (h poolHistory) step(i int) Step {
	e := h.entries[i]
	return Step{Revision: e.Revision, Subject: e.Subject, Author: e.Author, Config: h.config(i)}
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
func (h poolHistory) before(at int) (Step, error) {
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
			return Step{Revision: h.proven, Config: h.healthy}, nil
		}
	}
	return Step{}, fmt.Errorf("GitSource %s remembers no earlier config of pool %s that nodes did not fail. Name the "+
		"commit to return to with --to; bunsen history pool/%[2]s and git log list the commits", h.src.Name,
		h.v.Object.Name)
}

// Offers are the commits that gave a pool a config, newest first, for a shell: hash, tab, subject.
func Offers(c fleet.Cluster, pool string) []string {
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

// CheckCommit rejects a text that cannot be a commit's hash, before a command reads the cluster.
func CheckCommit(to string) error {
	if _, ok := digits(to); to != "" && !ok {
		return fmt.Errorf("--to %q: want the hash of a commit, in lower case and with at least %d digits, such as "+
			"one of `bunsen history`", to, shortestHash)
	}
	return nil
}

// digits returns the hash in a user's text, also in the form `main@sha1:<hash>`.
func digits(to string) (string, bool) {
	if i := strings.LastIndex(to, "@sha1:"); i >= 0 {
		to = to[i+len("@sha1:"):]
	}
	return to, strings.Trim(to, "0123456789abcdef") == "" && len(to) >= shortestHash && len(to) <= 40
}

// named returns the commit that a user names: if the history does not have it, her text, and the repository must have
// it.
func (h poolHistory) named(to string, at int) (Step, error) {
	if err := CheckCommit(to); err != nil {
		return Step{}, err
	}
	hash, _ := digits(to)
	var found []int
	for i, e := range h.entries {
		if r, err := source.ParseRevision(e.Revision); err == nil && strings.HasPrefix(r.Hash, hash) {
			found = append(found, i)
		}
	}
	switch {
	case len(found) == 0:
		return Step{Revision: hash}, nil
	case h.step(found[0]).Hash() != h.step(found[len(found)-1]).Hash():
		return Step{}, fmt.Errorf("--to %q: several commits have this hash: write more digits", to)
	}
	step := h.step(found[0])
	switch leave := h.step(at); {
	case found[0] <= at:
		return Step{}, fmt.Errorf("--to %s: pool %s has its newest config since %s, so that commit is not an "+
			"earlier one", to, h.v.Object.Name, leave.Text())
	case step.Config != "" && step.Config == leave.Config:
		return Step{}, fmt.Errorf("--to %s: pool %s has the config of that commit already: %s", to, h.v.Object.Name,
			step.Text())
	}
	return step, nil
}

// ErrNothing is the error of a rollback that would change no file.
var ErrNothing = errors.New("nothing to revert")
