package inspect

import (
	"cmp"
	"fmt"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// commitRange are the commits of a repository after good up to bad, both as they are typed.
type commitRange struct {
	good, bad string
	// what says which commits these are, in a few words.
	what string
	// others is how many of them did not change the pool's config, as far as the source remembers them.
	others int
}

// undo is the way to take back what gave a pool a config: one range of commits, from the pool's last good commit to the newest bad
// one, and the changes through the API since then. A revert of the newest commit alone could bring back what an earlier one broke.
// Where both may be the cause, what nodes failed by itself comes first, and the other is an alternative.
func undo(f *fleet, v *poolView, config string) []string {
	api := undoAPI(f, v, config, healthyConfig(v))
	commits := undoCommits(f, v, config)
	switch {
	case len(commits) > 0 && len(api) > 0 && commitFailed(f, v, config):
		for _, command := range api {
			commits = append(commits, alternative("the commits are not the cause", command))
		}
		return commits
	case len(api) > 0:
		for _, command := range commits {
			api = append(api, alternative("the change through the API is not the cause", command))
		}
		return api
	case len(commits) > 0:
		return commits
	case len(f.Sources) == 0:
		return fixWithoutSource(f, v)
	}
	return []string{"push a commit that fixes pool " + v.object.Name}
}

// undoCommits are the commands that take back the commits that gave a pool a config; none where no commit is to blame, or where it is
// not known after which commit the range begins.
func undoCommits(f *fleet, v *poolView, config string) []string {
	if config == healthyConfig(v) {
		return nil
	}
	for i := range f.Sources {
		if r, ok := badCommits(f, v, &f.Sources[i], config); ok && gaveConfig(f, v, &f.Sources[i], config) {
			return r.commands(v)
		}
	}
	if gone := sourceOf(f, v, config); len(f.Sources) == 0 && gone != "" {
		r := commitRange{good: recordedCommit(f, v, healthyConfig(v)), bad: recordedCommit(f, v, config), what: "back to the last good commit"}
		if r.good != "" && r.bad != "" && r.good != r.bad {
			return append(r.commands(v), createSource(f))
		}
	}
	return nil
}

// commitFailed reports whether nodes failed a config that commits alone gave the pool since its last good one, before config.
func commitFailed(f *fleet, v *poolView, config string) bool {
	past, err := v1alpha1.ParseRolloutHistory(v.object.Annotations[v1alpha1.RolloutHistoryAnnotation])
	if err != nil {
		past = nil
	}
	for _, o := range past {
		if o.Config == healthyConfig(v) {
			break
		}
		if o.Config != config && (o.HasVerdict() || o.Failed > 0) && len(o.API) == 0 && o.Revision != "" {
			return true
		}
	}
	return slices.ContainsFunc(v.rows, func(row NodeRow) bool {
		other := row.Desired != config && row.Desired != healthyConfig(v) && row.Desired != row.Current
		of := f.config(row.Desired)
		return row.Step == StepFailed && other && len(of.API) == 0 && of.Revision != "" && blamesCommit(failureCause(f, row))
	})
}

// sourceOf is the GitSource from which a config of a pool came, whether it exists or not; empty for none.
func sourceOf(f *fleet, v *poolView, config string) string {
	return cmp.Or(f.config(config).Source, v.object.Annotations[v1alpha1.SourceAnnotation])
}

// gaveConfig reports whether a config of a pool came from a source, as far as that is known.
func gaveConfig(f *fleet, v *poolView, src *v1alpha1.GitSource, config string) bool {
	if slices.ContainsFunc(src.Status.History, func(h v1alpha1.HistoryEntry) bool { return h.Pools[v.object.Name] != "" }) {
		return true
	}
	of := sourceOf(f, v, config)
	return of == src.Name || of == "" && len(f.Sources) == 1
}

// healthyConfig is the last config that the whole pool ran well.
func healthyConfig(v *poolView) string {
	return cmp.Or(v.wave.Record.Healthy, v.object.Status.Configuration.Name)
}

// badCommits are the commits of a source to revert for a pool: those that gave it a config that nodes failed
// (empty: nodes failed none), those with which it cannot be rendered, and those that the source cannot use. There is one range for
// all of them; false: no commit is to blame.
func badCommits(f *fleet, v *poolView, src *v1alpha1.GitSource, config string) (commitRange, bool) {
	var r commitRange
	if config != "" {
		r.good, r.bad = failedCommits(f, v, src, config)
	}
	if good := renderedCommit(v, src); good != "" {
		r.good, r.bad = cmp.Or(r.good, good), hashOf(src.Status.AppliedRevision)
	}
	if isUnusable(src) {
		r.good, r.bad = cmp.Or(r.good, hashOf(src.Status.AppliedRevision)), hashOf(src.Status.ObservedRevision)
	}
	r.describe(v, src)
	if isUnusable(src) {
		r.what += "; GitSource " + src.Name + " cannot use " + r.bad
	}
	return r, r.good != "" && r.bad != "" && r.good != r.bad
}

// renderedCommit is the last commit of a source with which a pool could be rendered; empty where commits since then are not why it
// cannot be rendered now.
func renderedCommit(v *poolView, src *v1alpha1.GitSource) string {
	c := v.condition(mcfgv1.MachineConfigPoolRenderDegraded)
	good := hashOf(v.object.Annotations[v1alpha1.RevisionAnnotation])
	switch {
	case c.Status != corev1.ConditionTrue, c.Reason == v1alpha1.ReasonNoMachineConfigs:
		return ""
	case v.object.Annotations[v1alpha1.SourceAnnotation] != src.Name, good == hashOf(src.Status.AppliedRevision):
		return ""
	}
	return good
}

// isUnusable reports whether the content of the newest commit is why a source cannot apply it.
func isUnusable(src *v1alpha1.GitSource) bool {
	c := meta.FindStatusCondition(src.Status.Conditions, v1alpha1.ReadyCondition)
	if c == nil || c.Status != metav1.ConditionFalse || src.Status.ObservedRevision == src.Status.AppliedRevision {
		return false
	}
	switch c.Reason {
	case v1alpha1.ReasonTranspileFailed, v1alpha1.ReasonInvalidTree, v1alpha1.ReasonPoolMissing, v1alpha1.ReasonConflict:
		return true
	case v1alpha1.ReasonApplyFailed: // one that is not stalled is the API server's
		return meta.IsStatusConditionTrue(src.Status.Conditions, v1alpha1.StalledCondition)
	}
	return false
}

// failedCommits are the commit before the first, and the last, of those that changed the pool's config since the one that it last
// ran well. Where the source's history does not reach back to that one, the records of the pool and of the rendered configs name its
// commit. Both are empty where nothing does: a revert of the last commit alone could bring back an earlier bad one.
func failedCommits(f *fleet, v *poolView, src *v1alpha1.GitSource, config string) (good, bad string) {
	healthy := healthyConfig(v)
	applied := appliedHistory(src)
	newest, oldest := -1, -1
	for j := range applied {
		rendered := applied[j].Pools[v.object.Name]
		if rendered == "" {
			continue
		}
		if rendered == healthy {
			if newest < 0 {
				break
			}
			return hashOf(applied[oldest+1].Revision), hashOf(applied[newest].Revision)
		}
		if next := renderedBefore(applied[j+1:], v.object.Name); next != "" && next != rendered {
			if oldest = j; newest < 0 {
				newest = j
			}
		}
	}
	if config == healthy {
		return "", ""
	}
	if healthy == "" {
		return firstCommits(v, applied)
	}
	good, bad = recordedCommit(f, v, healthy), recordedCommit(f, v, config)
	if good == "" || bad == "" || good == bad {
		return "", ""
	}
	return good, cmp.Or(hashOf(src.Status.AppliedRevision), bad)
}

// firstCommits are the commit before the first one that gave a pool any config, and the newest one, for a pool that ran no config
// well yet. Applied are the commits of a source, newest first.
func firstCommits(v *poolView, applied []v1alpha1.HistoryEntry) (good, bad string) {
	gives := func(h v1alpha1.HistoryEntry) bool { return h.Pools[v.object.Name] != "" }
	for j := len(applied) - 1; j > 0; j-- {
		if gives(applied[j-1]) && !gives(applied[j]) {
			return hashOf(applied[j].Revision), hashOf(applied[0].Revision)
		}
		if gives(applied[j]) {
			break // the history does not reach back to the commit before
		}
	}
	return "", ""
}

// recordedCommit is the commit that asked last for a config, or on which the changes through the API came that asked for it, as the
// pool's records have it; else the one for which the config was rendered first. It is empty where none is known.
func recordedCommit(f *fleet, v *poolView, config string) string {
	asked := v1alpha1.RequesterOf(v.object.Annotations, config)
	if asked.ByAPI() {
		asked = apiTarget(v, config).Commit
	}
	return hashOf(cmp.Or(asked.Revision, f.config(config).Revision))
}

// apiTarget is the record of a pool's target where only changes through the API asked for it; zero where config is not the target, a
// commit asked for it, or the record cannot be read.
func apiTarget(v *poolView, config string) v1alpha1.PoolTarget {
	target, err := v1alpha1.ParsePoolTarget(v.object.Annotations[v1alpha1.TargetAnnotation])
	if err != nil || target.Config != config || !target.ByAPI() {
		return v1alpha1.PoolTarget{}
	}
	return target
}

// describe says which commits a range has, as far as the source remembers them.
func (r *commitRange) describe(v *poolView, src *v1alpha1.GitSource) {
	r.what = "back to the last good commit"
	history := src.Status.History
	at := func(hash string) int {
		return slices.IndexFunc(history, func(h v1alpha1.HistoryEntry) bool { return hash != "" && hashOf(h.Revision) == hash })
	}
	last, before := at(r.bad), at(r.good)
	if last < 0 {
		return
	}
	if before > last {
		r.what = "everything after " + source.Quote(history[before].Subject) + " up to " + source.Quote(history[last].Subject)
	} else {
		before = len(history)
	}
	for j := last; j < before; j++ {
		rendered := history[j].Pools[v.object.Name]
		if rendered != "" && rendered == renderedBefore(history[j+1:], v.object.Name) {
			r.others++
		}
	}
}

// commands take the commits back. The list of all comes first: between two commits that a source looked at there may be others,
// which the cluster does not know.
func (r commitRange) commands(v *poolView) []string {
	commits := r.good + ".." + r.bad
	list := "git log --oneline " + commits + "   # what the revert takes back"
	if r.others > 0 {
		list += fmt.Sprintf(", also %s that did not change pool %s", count(r.others, "commit"), v.object.Name)
	}
	return []string{list, "git revert --no-edit " + commits + " && git push   # " + r.what + "; or push a fix"}
}

// renderedBefore is the config that the newest of these commits gave a pool; empty where none is known to have.
func renderedBefore(history []v1alpha1.HistoryEntry, pool string) string {
	for i := range history {
		if rendered := history[i].Pools[pool]; rendered != "" {
			return rendered
		}
	}
	return ""
}

// appliedHistory are the commits of a source that were applied, newest first.
func appliedHistory(src *v1alpha1.GitSource) []v1alpha1.HistoryEntry {
	var out []v1alpha1.HistoryEntry
	for _, e := range src.Status.History {
		if e.Refused == nil {
			out = append(out, e)
		}
	}
	return out
}

// hashOf is the short hash of a revision; empty where it has none.
func hashOf(revision string) string {
	r, err := source.ParseRevision(revision)
	if err != nil {
		return ""
	}
	return r.Hash[:min(len(r.Hash), 8)]
}
