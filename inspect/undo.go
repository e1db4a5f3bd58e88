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

// undo is the way to take back what gave a pool a config: one range, from the pool's last good commit to the newest bad one. A
// revert of the newest commit alone could bring back what an earlier one broke.
func undo(f *fleet, v *poolView, config string) []string {
	out := undoAPI(f, v, config, healthyConfig(v))
	for i := range f.Sources {
		if config == healthyConfig(v) || !gaveConfig(f, v, &f.Sources[i], config) {
			continue
		}
		if r, ok := badCommits(f, v, &f.Sources[i], config); ok && len(out) > 0 {
			for _, command := range r.commands(v) {
				out = append(out, alternative("the change through the API is not the cause", command))
			}
			return out
		} else if ok {
			return r.commands(v)
		}
	}
	if len(out) > 0 {
		return out
	}
	if len(f.Sources) == 0 {
		return fixWithoutSource(v)
	}
	return []string{"push a commit that fixes pool " + v.object.Name}
}

// gaveConfig reports whether a config of a pool came from a source, as far as that is known.
func gaveConfig(f *fleet, v *poolView, src *v1alpha1.GitSource, config string) bool {
	if slices.ContainsFunc(src.Status.History, func(h v1alpha1.HistoryEntry) bool { return h.Pools[v.object.Name] != "" }) {
		return true
	}
	of := cmp.Or(f.config(config).Source, v.object.Annotations[v1alpha1.SourceAnnotation])
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
// commit; where they do not, the range is the commit of the config alone.
func failedCommits(f *fleet, v *poolView, src *v1alpha1.GitSource, config string) (good, bad string) {
	applied := appliedHistory(src)
	newest, oldest := -1, -1
	for j := range applied {
		rendered := applied[j].Pools[v.object.Name]
		if rendered == "" {
			continue
		}
		if rendered == healthyConfig(v) {
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
	hash := hashOf(f.config(config).Revision)
	if hash == "" || config == healthyConfig(v) {
		return "", ""
	}
	if good := recordedCommit(f, v, healthyConfig(v)); good != "" && good != hash {
		return good, cmp.Or(hashOf(src.Status.AppliedRevision), hash)
	}
	return hash + "^", hash
}

// recordedCommit is the commit that asked last for a config, as the pool's records have it, or for which the config was rendered
// first; empty where neither is known.
func recordedCommit(f *fleet, v *poolView, config string) string {
	asked := v1alpha1.RequesterOf(v.object.Annotations, config)
	return hashOf(cmp.Or(asked.Revision, f.config(config).Revision))
}

// describe says which commits a range has, as far as the source remembers them.
func (r *commitRange) describe(v *poolView, src *v1alpha1.GitSource) {
	r.what = "back to the last good commit"
	history := src.Status.History
	at := func(hash string) int {
		return slices.IndexFunc(history, func(h v1alpha1.HistoryEntry) bool { return hash != "" && hashOf(h.Revision) == hash })
	}
	last, before := at(r.bad), at(r.good)
	switch {
	case last < 0:
		return
	case before == last+1, r.good == r.bad+"^":
		r.what = history[last].Subject
		return
	case before > last:
		r.what = "everything since " + source.Quote(history[before].Subject)
	default:
		before = len(history)
	}
	for j := last; j < before; j++ {
		rendered := history[j].Pools[v.object.Name]
		if rendered != "" && rendered == renderedBefore(history[j+1:], v.object.Name) {
			r.others++
		}
	}
}

// commands take the commits back. The list of all comes first, unless they are one commit: between two commits that a source looked
// at there may be others, which the cluster does not know.
func (r commitRange) commands(v *poolView) []string {
	commits := r.good + ".." + r.bad
	revert := "git revert --no-edit " + commits
	if r.good == r.bad+"^" {
		return []string{"git revert --no-edit " + r.bad + " && git push   # " + r.what + "; or push a fix"}
	}
	list := "git log --oneline " + commits + "   # the revert takes back all of these"
	if r.others > 0 {
		list += fmt.Sprintf(", also %s that did not change pool %s", count(r.others, "commit"), v.object.Name)
	}
	return []string{list, revert + " && git push   # " + r.what + "; or push a fix"}
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
