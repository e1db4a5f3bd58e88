package notify

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Facts are the objects of the cluster from which messages and statuses follow.
type Facts struct {
	// Cluster is the name of the cluster.
	Cluster string
	// sorted by name
	Sources []*v1alpha1.GitSource
	Pools   []*mcfgv1.MachineConfigPool
}

func (f Facts) pool(name string) *mcfgv1.MachineConfigPool {
	for _, p := range f.Pools {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// state is that of a config in one pool, or of a commit in all of its pools, of which the worst counts.
type state int

const (
	done state = iota
	replaced
	pending
	failed
)

// progress is about one commit in one pool.
type progress struct {
	pool, config string
	state        state
	// how many of the nodes run the config
	updated, nodes int
	// of a failure, or what the rollout waits for, in one line; empty for none
	why string
	// with the times of the rollout, if recorded
	outcome v1alpha1.RolloutOutcome
}

// rolloutOf returns the rollout of a revision in each of its pools that exists, sorted by name.
func (f Facts) rolloutOf(entry v1alpha1.HistoryEntry) []progress {
	var out []progress
	for _, name := range slices.Sorted(maps.Keys(entry.Pools)) {
		if pool := f.pool(name); pool != nil {
			out = append(out, progressOf(pool, entry.Pools[name], entry.Revision))
		}
	}
	return out
}

// progressOf returns the rollout of a commit's config in a pool. A later commit can bring the same config back; its
// rollout says nothing about the earlier one.
func progressOf(pool *mcfgv1.MachineConfigPool, config, revision string) progress {
	p := progress{pool: pool.Name, config: config, nodes: int(pool.Status.MachineCount)}
	past, err := v1alpha1.EarlierRollouts(pool.Annotations)
	if err != nil {
		past = nil // If the record cannot be read, the rollout controller reports that and begins a new rollout.
	}
	own := func(o v1alpha1.RolloutOutcome) bool { return o.Config == config && o.Revision == revision }
	if i := slices.IndexFunc(past, own); i >= 0 && recordOf(pool).Revision != revision {
		return p.as(past[i])
	}
	if pool.Spec.Configuration.Name != config {
		i := slices.IndexFunc(past, func(o v1alpha1.RolloutOutcome) bool { return o.Config == config })
		if i < 0 {
			p.state = pending // The pool does not have the config yet.
			return p
		}
		return p.as(past[i])
	}
	record := recordOf(pool)
	p.outcome = v1alpha1.RolloutOutcome{Began: record.Began, UpdatedBefore: record.UpdatedBefore}
	if record.Ended != nil {
		p.outcome.Ended = *record.Ended
	}
	if isFresh(pool) {
		p.updated = int(pool.Status.UpdatedMachineCount)
	}
	switch {
	case record.Verdict != "":
		p.state, p.why, p.updated = failed, string(record.Verdict)+": "+line(record.Why), record.Updated
		if record.At != nil {
			p.outcome.Ended = *record.At
		}
	case isFresh(pool) && pool.Status.DegradedMachineCount > 0:
		p.state, p.why = failed, line(message(pool, mcfgv1.MachineConfigPoolNodeDegraded))
	case isFresh(pool) && hasFinished(pool, record):
		p.state = done
	default:
		p.state, p.why = pending, line(message(pool, rolloutBlocked))
	}
	return p
}

func (p progress) as(o v1alpha1.RolloutOutcome) progress {
	p.outcome, p.updated, p.nodes, p.why = o, o.Updated, o.Nodes, line(o.Why)
	switch o.Result {
	case v1alpha1.RolloutCompleted:
		p.state = done
	case v1alpha1.RolloutSuperseded:
		p.state = replaced
	default:
		p.state = failed
	}
	return p
}

// rolloutBlocked: Bunsen adds it to pools.
const rolloutBlocked mcfgv1.MachineConfigPoolConditionType = "RolloutBlocked"

// isFresh reports whether the status belongs to the present target.
func isFresh(pool *mcfgv1.MachineConfigPool) bool {
	return pool.Status.ObservedGeneration >= pool.Generation && recordOf(pool).Config == pool.Spec.Configuration.Name
}

// hasFinished reports whether, at some time since the pool got its target, all nodes ran it and were healthy. A node
// that becomes unavailable or joins later does not begin the rollout again, nor do new secrets of the same config. A
// pool without nodes has finished.
func hasFinished(pool *mcfgv1.MachineConfigPool, record v1alpha1.RolloutRecord) bool {
	return record.Ended != nil || record.ChangesSecrets() || condition(pool, mcfgv1.MachineConfigPoolUpdated).
		Status == corev1.ConditionTrue && pool.Status.Configuration.Name == pool.Spec.Configuration.Name
}

// recordOf is zero if the record cannot be read.
func recordOf(pool *mcfgv1.MachineConfigPool) v1alpha1.RolloutRecord {
	record, err := v1alpha1.ParseRolloutRecord(pool.Annotations[v1alpha1.RolloutAnnotation])
	if err != nil || record.Config != pool.Spec.Configuration.Name {
		return v1alpha1.RolloutRecord{}
	}
	return record
}

func condition(pool *mcfgv1.MachineConfigPool,
	kind mcfgv1.MachineConfigPoolConditionType,
) mcfgv1.MachineConfigPoolCondition {
	for _, c := range pool.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return mcfgv1.MachineConfigPoolCondition{}
}

// message is empty unless the condition is True.
func message(pool *mcfgv1.MachineConfigPool, kind mcfgv1.MachineConfigPoolConditionType) string {
	c := condition(pool, kind)
	if c.Status != corev1.ConditionTrue {
		return ""
	}
	return cmp.Or(c.Message, c.Reason)
}

// maxLine limits a reason, in runes.
const maxLine = 300

// line returns the first line without hidden characters, shortened.
func line(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	return shorten(safetext.Visible(strings.ToValidUTF8(text, "\uFFFD")), maxLine)
}

// shorten marks the cut. most is in runes.
func shorten(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return itoa(n) + " " + noun + "s"
}
