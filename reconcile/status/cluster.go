package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterFacts are the input for the status of the whole cluster, besides the old status.
type ClusterFacts struct {
	// of the BunsenStatus that was read
	Generation int64
	// of the controller that leads
	Version string
	// of the running programs
	Versions []v1alpha1.ComponentVersion
	// all of the cluster
	Pools   []*mcfgv1.MachineConfigPool
	Sources []*v1alpha1.GitSource
	// the number of nodes, and those whose daemons have stopped reporting, with their last heartbeats
	Nodes  int
	Silent map[string]time.Time
	// Servers have reported before, and none reports now.
	ServersGone bool
	// on all pools and GitSources; nil if nothing judges them
	Verdicts []v1alpha1.Verdict
}

// finding is one cause of a condition.
type finding struct{ reason, message string }

// Cluster returns the status of the whole cluster: the versions of the programs, and the conditions Available,
// Progressing, Degraded and Upgradeable, which repeat the messages of pools and sources, and the outcome for kstatus.
func Cluster(old v1alpha1.ClusterStatus, f ClusterFacts, now time.Time) v1alpha1.ClusterStatus {
	s := *old.DeepCopy()
	s.ObservedGeneration, s.Version = f.Generation, f.Version
	s.Versions = slices.Clone(f.Versions)
	unavailable, progressing, degraded, differing := f.unavailable(), f.progressing(), f.degraded(), f.differing()
	for i := range f.Pools {
		if message, is := poolMessage(f.Pools[i], mcfgv1.MachineConfigPoolDegraded); is {
			differing = append(differing, finding{v1alpha1.ReasonPoolsDegraded, message})
		}
	}
	s.Outcome, s.Verdicts = f.verdicts()
	want := []metav1.Condition{
		clusterCondition(v1alpha1.AvailableCondition, metav1.ConditionFalse, unavailable,
			"the controller leads, and daemons report"),
		clusterCondition(v1alpha1.ProgressingCondition, metav1.ConditionTrue, progressing,
			"no commit is being applied, and no pool is updating"),
		clusterCondition(v1alpha1.DegradedCondition, metav1.ConditionTrue, degraded,
			"no pool, GitSource or daemon reports a problem"),
		clusterCondition(v1alpha1.UpgradeableCondition, metav1.ConditionFalse, differing, "all programs run version "+
			f.Version),
	}
	if kind := kstatus(s.Outcome); kind != "" {
		want = append(want, metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: string(s.Outcome),
			Message: "the worst of status.verdicts is " + string(s.Outcome),
		})
	}
	s.Conditions = replace(s.Conditions, want, f.Generation, now)
	s.Message = want[1].Message
	switch {
	case len(unavailable) > 0:
		s.Message = want[0].Message
	case len(degraded) > 0:
		s.Message = want[2].Message
	}
	return s
}

// kstatus returns the condition that says an outcome to kstatus: Stalled while somebody has to look or to act,
// Reconciling while it goes on by itself; "" for what is Fine, or not known.
func kstatus(o v1alpha1.Outcome) string {
	switch {
	case o.NeedsUser():
		return v1alpha1.StalledCondition
	case o != "" && o != v1alpha1.OutcomeFine:
		return v1alpha1.ReconcilingCondition
	}
	return ""
}

// In one status, and for the message of one in bytes.
const (
	mostVerdicts = 100
	mostVerdict  = 1024
)

// verdicts returns the worst outcome, and the verdicts that are not Fine, the worst first.
func (f ClusterFacts) verdicts() (worst v1alpha1.Outcome, out []v1alpha1.Verdict) {
	if f.Verdicts == nil {
		return "", nil
	}
	worst = v1alpha1.OutcomeFine
	for _, v := range f.Verdicts {
		if worst = worst.Worse(v.Outcome); v.Outcome != v1alpha1.OutcomeFine {
			v.Message = cut(v.Message, mostVerdict)
			out = append(out, v)
		}
	}
	slices.SortStableFunc(out, func(a, b v1alpha1.Verdict) int {
		return cmp.Compare(b.Outcome.Rank(), a.Outcome.Rank())
	})
	return worst, out[:min(len(out), mostVerdicts)]
}

// clusterCondition has the status abnormal and the reason of the first finding, or without any the opposite status.
func clusterCondition(kind string, abnormal metav1.ConditionStatus, findings []finding,
	normal string,
) metav1.Condition {
	if len(findings) == 0 {
		status := metav1.ConditionTrue
		if abnormal == metav1.ConditionTrue {
			status = metav1.ConditionFalse
		}
		return metav1.Condition{Type: kind, Status: status, Reason: v1alpha1.ReasonAsExpected, Message: normal}
	}
	texts := make([]string, len(findings))
	for i := range findings {
		texts[i] = findings[i].message
	}
	return metav1.Condition{
		Type: kind, Status: abnormal, Reason: findings[0].reason,
		Message: list(texts, "; ", mostMessage),
	}
}

// unavailable says why Bunsen cannot update nodes or start new machines.
func (f ClusterFacts) unavailable() (out []finding) {
	reporting := int32(0)
	for _, v := range f.Versions {
		if v.Component == v1alpha1.DaemonComponent {
			reporting += v.Count
		}
	}
	if f.Nodes > 0 && reporting == 0 {
		out = append(out, finding{v1alpha1.ReasonNoDaemons, fmt.Sprintf("no machine-config-daemon of %d nodes reports",
			f.Nodes)})
	}
	if f.ServersGone {
		out = append(out, finding{v1alpha1.ReasonNoServers, "no machine-config-server reports any more: new machines " +
			"get no config"})
	}
	return out
}

// progressing are pools that are updating and sources that are being applied.
func (f ClusterFacts) progressing() (out []finding) {
	for _, src := range f.Sources {
		if c := meta.FindStatusCondition(src.Status.Conditions, v1alpha1.ReadyCondition); c != nil &&
			c.Status == metav1.ConditionUnknown {
			out = append(out, finding{v1alpha1.ReasonSourcesApplying, "GitSource " + src.Name + ": " + c.Message})
		} else if p := src.Status.Progress; p != nil {
			out = append(out, finding{v1alpha1.ReasonSourcesApplying, fmt.Sprintf("GitSource %s applies %s", src.Name,
				cmp.Or(p.Revision, "the state before its first revision"))})
		}
	}
	for _, p := range f.Pools {
		if message, is := poolMessage(p, mcfgv1.MachineConfigPoolUpdating); is {
			out = append(out, finding{v1alpha1.ReasonPoolsUpdating, message})
		}
	}
	return out
}

// degraded are problems that need a user.
func (f ClusterFacts) degraded() (out []finding) {
	for _, p := range f.Pools {
		if message, is := poolMessage(p, mcfgv1.MachineConfigPoolDegraded); is {
			out = append(out, finding{v1alpha1.ReasonPoolsDegraded, message})
		}
	}
	for _, src := range f.Sources {
		if c := meta.FindStatusCondition(src.Status.Conditions, v1alpha1.ReadyCondition); c != nil &&
			c.Status == metav1.ConditionFalse && c.Reason != v1alpha1.ReasonSuspended {
			out = append(out, finding{v1alpha1.ReasonSourcesFailing, sourceFailure(src.Name, c.Message)})
		}
	}
	if len(f.Silent) > 0 {
		out = append(out, finding{v1alpha1.ReasonDaemonsSilent, poolstate.SilentBlock(f.Silent).Reason})
	}
	if f.ServersGone {
		out = append(out, finding{v1alpha1.ReasonNoServers, "no machine-config-server reports any more"})
	}
	return out
}

// sourceFailure is on one line: a column of kubectl shows only the first line of a text. The GitSource has the whole
// text.
func sourceFailure(name, message string) string {
	lines := strings.Split(strings.TrimSpace(message), "\n")
	return "GitSource " + name + ": " + list(lines, "; ", mostVerdict) +
		"; for what to do: bunsen why gitsource/" + name
}

// differing run another version than the controller that leads.
func (f ClusterFacts) differing() (out []finding) {
	for _, v := range f.Versions {
		if v.Version != f.Version {
			out = append(out, finding{
				v1alpha1.ReasonVersionsDiffer,
				fmt.Sprintf("%d %s with version %s, the controller has %s", v.Count, v.Component, v.Version,
					f.Version),
			})
		}
	}
	return out
}

// poolMessage has the pool's name, and whether the condition is True.
func poolMessage(p *mcfgv1.MachineConfigPool, kind mcfgv1.MachineConfigPoolConditionType) (string, bool) {
	for _, c := range p.Status.Conditions {
		if c.Type == kind && c.Status == corev1.ConditionTrue {
			return "pool " + p.Name + ": " + cmp.Or(strings.TrimSpace(c.Message), string(kind)), true
		}
	}
	return "", false
}
