package inspect

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// undo is the command that takes back what gave a pool a config: the commits since the pool's last good one. A revert of the
// newest commit alone could bring back what an earlier one broke.
func undo(f *fleet, v *poolView, config string) []string {
	good := v.wave.Record.Healthy
	if good == "" {
		good = v.object.Status.Configuration.Name
	}
	for i := range f.Sources {
		applied := appliedHistory(&f.Sources[i])
		newest, oldest := -1, -1 // of the commits since the good one that changed the pool's config
		found := false
		for j := range applied {
			rendered := applied[j].Pools[v.object.Name]
			if rendered == "" {
				continue
			}
			if rendered == good && good != config {
				found = true
				break
			}
			if next := renderedBefore(applied[j+1:], v.object.Name); next != "" && next != rendered {
				if oldest = j; newest < 0 {
					newest = j
				}
			}
		}
		if !found || newest < 0 {
			continue
		}
		subject := applied[newest].Subject
		if newest != oldest {
			subject = "everything since " + source.Quote(applied[oldest+1].Subject)
		}
		return []string{revert(applied[oldest+1].Revision, applied[newest].Revision) + "   # " + subject + "; or push a fix"}
	}
	row := f.config(config)
	if h := hashOf(row.Revision); h != "" && config != good {
		return []string{"git revert --no-edit " + h + "   # " + row.Subject + "; or push a fix"}
	}
	return []string{"push a commit that fixes pool " + v.object.Name}
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

// revert is the command that takes back the commits after one up to another.
func revert(good, bad string) string {
	return "git revert --no-edit " + hashOf(good) + ".." + hashOf(bad)
}

// hashOf is the short hash of a revision; empty where it has none.
func hashOf(revision string) string {
	r, err := source.ParseRevision(revision)
	if err != nil {
		return ""
	}
	return r.Hash[:min(len(r.Hash), 8)]
}

// sourceActions are the commands for a GitSource that cannot use its newest commit, by the reason of its condition Ready.
func sourceActions(src *v1alpha1.GitSource) []string {
	c := meta.FindStatusCondition(src.Status.Conditions, v1alpha1.ReadyCondition)
	if c == nil {
		return nil
	}
	edit, describe := "kubectl edit gitsource "+src.Name, "kubectl describe gitsource "+src.Name
	switch c.Reason {
	case v1alpha1.ReasonTranspileFailed, v1alpha1.ReasonInvalidTree, v1alpha1.ReasonPoolMissing, v1alpha1.ReasonApplyFailed:
		good, bad := hashOf(src.Status.AppliedRevision), hashOf(src.Status.ObservedRevision)
		switch {
		case good != "" && bad != "" && good != bad:
			return []string{fmt.Sprintf("git revert --no-edit %s..%s   # back to the last good commit; or push a fix", good, bad), describe}
		default:
			return []string{"push a commit that fixes it", describe}
		}
	case v1alpha1.ReasonUnreachable, v1alpha1.ReasonAuthentication:
		return []string{describe, edit + "   # spec.url and spec.secretRef"}
	case v1alpha1.ReasonRefNotFound:
		return []string{edit + "   # spec.ref"}
	case v1alpha1.ReasonPathNotFound:
		return []string{edit + "   # spec.path"}
	case v1alpha1.ReasonHistoryRewritten:
		return []string{fmt.Sprintf("push a branch that contains %s", hashOf(src.Status.AppliedRevision)), edit + "   # spec.historyPolicy: Warn"}
	case v1alpha1.ReasonSignature:
		return []string{"push a commit that is signed with an allowed key", edit + "   # spec.verify"}
	case v1alpha1.ReasonInvalidSpec:
		return []string{edit}
	}
	return []string{describe}
}
