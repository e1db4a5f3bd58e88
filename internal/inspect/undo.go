package inspect

import (
	"cmp"
	"fmt"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// undoAPI reverts the changes through the API that a pool got since its last healthy config, and that are still there.
func undoAPI(f *fleet.Fleet, v *fleet.Pool, config, good string) []string {
	var out []string
	for _, c := range apiChangesSince(f, v, config, good) {
		out = append(out, UndoChange(c))
	}
	return out
}

// apiChangesSince are in force since the last healthy config, the newest first.
func apiChangesSince(f *fleet.Fleet, v *fleet.Pool, config, good string) []v1alpha1.APIChange {
	all := slices.Clone(f.ConfigNamed(config).API)
	if v.Decision.Record.Config != good {
		all = append(all, v.Decision.Record.API...)
	}
	past, err := v1alpha1.EarlierRollouts(v.Object.Annotations)
	if good == "" || err != nil {
		past = nil
	}
	for _, o := range past {
		if o.Config == good {
			break
		}
		all = append(all, o.API...)
	}
	target, err := v1alpha1.ParsePoolTarget(v.Object.Annotations[v1alpha1.TargetAnnotation])
	known := err == nil && (len(target.Inputs) > 0 || len(target.Sources) > 0)
	var out []v1alpha1.APIChange
	seen := map[string]bool{}
	for _, c := range all {
		key := c.Kind + "/" + c.Name
		if seen[key] {
			continue
		}
		seen[key] = true
		there := slices.ContainsFunc(target.Inputs, func(in v1alpha1.TargetInput) bool { return in.Name == c.Name })
		inForce := slices.ContainsFunc(target.InForce, func(o v1alpha1.ChangeInForce) bool {
			return o.Kind == c.Kind && o.Name == c.Name
		})
		if known && !inForce && c.Kind == fleet.KindMachineConfig && there == (c.Action == v1alpha1.APIDeleted) {
			continue
		}
		out = append(out, c)
	}
	return out
}

// UndoChange is the command that reverts one change through the API.
func UndoChange(c v1alpha1.APIChange) string {
	if c.Manager != "" { // Any program may choose any name.
		c.Manager = fleet.ShellWord(safetext.OneLine(c.Manager))
	}
	c.Name = fleet.ShellWord(safetext.OneLine(c.Name))
	why := "   # " + c.String()
	switch {
	case c.Kind != fleet.KindMachineConfig:
		return "kubectl edit mcp " + c.Name + "   # put spec.machineConfigSelector back: " + c.String()
	case c.Action == v1alpha1.APICreated:
		return "kubectl delete mc " + c.Name + why
	case c.Action == v1alpha1.APIDeleted:
		return "kubectl apply -f FILE   # FILE has MachineConfig " + c.Name + ", which was deleted through the API"
	}
	return "kubectl edit mc " + c.Name + why
}

// commitRange is the range of commits after good up to bad, both as a user types them.
type commitRange struct {
	good, bad string
	// a short text about the commits
	what string
	// those that did not change the pool's config, as far as the source's history shows
	others int
}

// undo returns the commands that revert one range of commits, from the pool's last healthy one to the newest bad one,
// and the later changes through the API. A revert of only the newest commit could bring back an earlier fault. If both
// may be the cause, the changes come first, unless nodes have failed a config that only commits produced. The others
// are alternatives.
func undo(f *fleet.Fleet, v *fleet.Pool, config string) []string {
	api := undoAPI(f, v, config, v.HealthyConfig().Config)
	commits := undoCommits(f, v, config)
	switch {
	case len(commits) > 0 && len(api) > 0 && commitFailed(f, v, config):
		for _, command := range api {
			commits = append(commits, fleet.Alternative("the commits are not the cause", command))
		}
		return commits
	case len(api) > 0:
		for _, command := range commits {
			api = append(api, fleet.Alternative("the change through the API is not the cause", command))
		}
		return api
	case len(commits) > 0:
		return commits
	case len(f.Sources) == 0:
		return fixWithoutSource(f, v)
	}
	return []string{"push a commit that fixes pool " + v.Object.Name}
}

// undoCommits is empty if no commit is the cause, or if the start of the range is unknown.
func undoCommits(f *fleet.Fleet, v *fleet.Pool, config string) []string {
	if config == v.HealthyConfig().Config {
		return nil
	}
	for i := range f.Sources {
		if r, ok := badCommits(f, v, &f.Sources[i], config); ok && gaveConfig(f, v, &f.Sources[i], config) {
			return r.commands(v)
		}
	}
	if gone := f.SourceOf(v, config); len(f.Sources) == 0 && gone != "" {
		r := commitRange{
			good: f.RecordedCommit(v, v.HealthyConfig().Config),
			bad:  f.RecordedCommit(v, config), what: "goes back to the last good commit",
		}
		if r.good != "" && r.bad != "" && r.good != r.bad {
			return append(r.commands(v), createSource(f, ""))
		}
	}
	return nil
}

// commitFailed reports whether nodes failed a config that only commits gave the pool, between its last healthy config
// and this one.
func commitFailed(f *fleet.Fleet, v *fleet.Pool, config string) bool {
	past, err := v1alpha1.EarlierRollouts(v.Object.Annotations)
	if err != nil {
		past = nil
	}
	for _, o := range past {
		if o.Config == v.HealthyConfig().Config {
			break
		}
		if o.Config != config && (o.HasVerdict() || o.Failed > 0) && len(o.API) == 0 && o.Revision != "" {
			return true
		}
	}
	return slices.ContainsFunc(v.Rows, func(row fleet.NodeRow) bool {
		other := row.Desired.Config != config && row.Desired.Config != v.HealthyConfig().Config &&
			row.Desired != row.Current
		of := f.Config(row.Desired)
		return row.Step == fleet.StepFailed && other && len(of.API) == 0 && of.Revision != "" &&
			blamesCommit(FailureCause(f, row))
	})
}

// gaveConfig reports whether a config of a pool came from a source, as far as the records show.
func gaveConfig(f *fleet.Fleet, v *fleet.Pool, src *v1alpha1.GitSource, config string) bool {
	if slices.ContainsFunc(src.Status.History, func(h v1alpha1.HistoryEntry) bool {
		return h.Pools[v.Object.Name] != ""
	}) {
		return true
	}
	of := f.SourceOf(v, config)
	return of == src.Name || of == "" && len(f.Sources) == 1
}

// badCommits returns one range of a source's commits to revert for a pool: those whose config nodes failed (config is
// empty if there are none), that cannot be rendered, or that the source refuses. It returns false if no commit is the
// cause.
func badCommits(f *fleet.Fleet, v *fleet.Pool, src *v1alpha1.GitSource, config string) (commitRange, bool) {
	var r commitRange
	if config != "" {
		r.good, r.bad = failedCommits(f, v, src, config)
	}
	if good := renderedCommit(v, src); good != "" {
		r.good, r.bad = cmp.Or(r.good, good), fleet.HashOf(src.Status.AppliedRevision)
	}
	earlier := r.good != ""
	if isUnusable(src) {
		r.good, r.bad = cmp.Or(r.good, fleet.HashOf(src.Status.AppliedRevision)),
			fleet.HashOf(src.Status.ObservedRevision)
	}
	r.describe(v, src)
	if isUnusable(src) && earlier { // Else the reason above the command says it.
		r.what += "; GitSource " + src.Name + " cannot use " + r.bad
	}
	return r, r.good != "" && r.bad != "" && r.good != r.bad
}

// renderedCommit returns the last commit of a source with which a pool could be rendered; "" if later commits are not
// why that failed.
func renderedCommit(v *fleet.Pool, src *v1alpha1.GitSource) string {
	c := v.Condition(mcfgv1.MachineConfigPoolRenderDegraded)
	good := fleet.HashOf(v.Object.Annotations[v1alpha1.RevisionAnnotation])
	switch {
	case c.Status != corev1.ConditionTrue, c.Reason == v1alpha1.ReasonNoMachineConfigs:
		return ""
	case v.Object.Annotations[v1alpha1.SourceAnnotation] != src.Name, good == fleet.HashOf(src.Status.AppliedRevision):
		return ""
	}
	return good
}

// isUnusable reports whether the content of the newest commit prevents its apply.
func isUnusable(src *v1alpha1.GitSource) bool {
	c := meta.FindStatusCondition(src.Status.Conditions, v1alpha1.ReadyCondition)
	if c == nil || c.Status != metav1.ConditionFalse || src.Status.ObservedRevision == src.Status.AppliedRevision {
		return false
	}
	switch c.Reason {
	case v1alpha1.ReasonTranspileFailed, v1alpha1.ReasonInvalidTree, v1alpha1.ReasonPoolMissing,
		v1alpha1.ReasonConflict:
		return true
	case v1alpha1.ReasonApplyFailed: // Unless the source is stalled, the API server is the cause.
		return meta.IsStatusConditionTrue(src.Status.Conditions, v1alpha1.StalledCondition)
	}
	return false
}

// failedCommits returns the range of commits that changed the pool's config since it last ran one without a failure:
// the commit before the first of them, and the last. If the source's history is too short, they come from the records
// of the pool and of the rendered configs. Without a record, both are empty, because a revert of only the last commit
// could bring back an earlier bad one.
func failedCommits(f *fleet.Fleet, v *fleet.Pool, src *v1alpha1.GitSource, config string) (good, bad string) {
	healthy := v.HealthyConfig().Config
	applied := fleet.AppliedHistory(src)
	newest, oldest := -1, -1
	for j := range applied {
		rendered := applied[j].Pools[v.Object.Name]
		if rendered == "" {
			continue
		}
		if rendered == healthy {
			if newest < 0 {
				break
			}
			return fleet.HashOf(applied[oldest+1].Revision), fleet.HashOf(applied[newest].Revision)
		}
		if next := fleet.RenderedBefore(applied[j+1:], v.Object.Name); next != "" && next != rendered {
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
	good, bad = f.RecordedCommit(v, healthy), f.RecordedCommit(v, config)
	if good == "" || bad == "" || good == bad {
		return "", ""
	}
	return good, cmp.Or(fleet.HashOf(src.Status.AppliedRevision), bad)
}

// firstCommits is for a pool that never had a healthy config: the commit before the first one that gave it a config,
// and the newest one. applied has the commits of a source, newest first.
func firstCommits(v *fleet.Pool, applied []v1alpha1.HistoryEntry) (good, bad string) {
	gives := func(h v1alpha1.HistoryEntry) bool { return h.Pools[v.Object.Name] != "" }
	for j := len(applied) - 1; j > 0; j-- {
		if gives(applied[j-1]) && !gives(applied[j]) {
			return fleet.HashOf(applied[j].Revision), fleet.HashOf(applied[0].Revision)
		}
		if gives(applied[j]) {
			break // The history does not have the commit before this one.
		}
	}
	return "", ""
}

// mostUndone are named in the note of a revert: it may undo what others pushed.
const mostUndone = 3

// describe names the commits as far as the source's history has them.
func (r *commitRange) describe(v *fleet.Pool, src *v1alpha1.GitSource) {
	r.what = "goes back to the last good commit"
	history := src.Status.History
	at := func(hash string) int {
		return slices.IndexFunc(history, func(h v1alpha1.HistoryEntry) bool {
			return hash != "" && fleet.HashOf(h.Revision) == hash
		})
	}
	last, before := at(r.bad), at(r.good)
	if last < 0 {
		return
	}
	if before > last {
		var undone []string
		for _, h := range history[last:before] {
			undone = append(undone, fleet.ShellNote(h.Subject))
		}
		r.what = "undoes " + fleet.Names(undone, mostUndone) + ", back to " + fleet.ShellNote(history[before].Subject)
	} else {
		before = len(history)
	}
	for j := last; j < before; j++ {
		rendered := history[j].Pools[v.Object.Name]
		if rendered != "" && rendered == fleet.RenderedBefore(history[j+1:], v.Object.Name) {
			r.others++
		}
	}
}

// commands reverts the commits. The first command lists all of the range, because the source may not have read each of
// them.
func (r commitRange) commands(v *fleet.Pool) []string {
	commits := r.good + ".." + r.bad
	list := "git log --oneline " + commits + "   # what the revert undoes"
	if r.others > 0 {
		list += fmt.Sprintf(", also %s that did not change pool %s", fleet.Count(r.others, "commit"), v.Object.Name)
	}
	return []string{list, "git revert --no-edit " + commits + " && git push   # " + r.what + "; a pushed fix does too"}
}
