package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// RolloutBlocked is the one condition that Bunsen adds to a MachineConfigPool: True while the pool as a whole does not go
// on although it should. Its reason is a rollout.Cause.
const RolloutBlocked mcfgv1.MachineConfigPoolConditionType = "RolloutBlocked"

// PoolFacts are what a MachineConfigPool's status follows from, besides what it was before.
type PoolFacts struct {
	// Generation of the pool that was read.
	Generation int64
	// Configuration is the pool's spec.configuration; it becomes status.configuration once every node runs it.
	Configuration mcfgv1.MachineConfigPoolStatusConfiguration
	// Rollout has the pool's name, target and pause. Where it has Nodes, these are counted; else Wave and Degraded say all
	// that there is to know of them.
	Rollout rollout.Facts
	// Wave is what was decided.
	Wave rollout.Wave
	// Degraded are the nodes that report a failure.
	Degraded []rollout.Node
	// Commits are what people know the rendered configs by that nodes failed: `main@sha1:4f1c2ab1 "chrony: use site NTP"`.
	Commits map[string]string
}

// Pool gives the status of a pool from its nodes: counts, configuration, and the conditions Updated, Updating,
// NodeDegraded, Degraded and RolloutBlocked. RenderDegraded and the conditions of others stay as they are.
func Pool(old mcfgv1.MachineConfigPoolStatus, f PoolFacts, now time.Time) mcfgv1.MachineConfigPoolStatus {
	s := *old.DeepCopy()
	f.count()
	c := f.Wave.Counts
	s.ObservedGeneration = f.Generation
	s.MachineCount = int32(c.Machines)
	s.UpdatedMachineCount = int32(c.Updated)
	s.ReadyMachineCount = int32(c.Ready)
	s.UnavailableMachineCount = int32(c.Unavailable)
	s.DegradedMachineCount = int32(c.Degraded)
	converged := c.Converged() && f.Rollout.Target != "" && !f.isSilent()
	if healthy := f.Wave.Record.Healthy; converged {
		s.Configuration = *f.Configuration.DeepCopy()
	} else if s.Configuration.Name == "" && healthy != "" { // the pool was deleted and created again, with its record
		s.Configuration.ObjectReference = f.Configuration.ObjectReference
		s.Configuration.Name = healthy
	}
	set := setter(&s, now)
	updated, updating := progress(f, converged)
	set(updated)
	set(updating)
	set(nodeDegraded(f))
	set(blocked(f, converged))
	set(degraded(s.Conditions))
	return s
}

// isSilent reports whether the daemon of a node has stopped reporting: what the node runs is not known.
func (f *PoolFacts) isSilent() bool {
	return slices.ContainsFunc(f.Wave.Blocks, func(b rollout.Block) bool { return b.Cause == rollout.CauseSilent })
}

// count looks at the nodes where the facts have them.
func (f *PoolFacts) count() {
	if len(f.Rollout.Nodes) == 0 {
		return
	}
	f.Wave.Counts, f.Degraded = rollout.Count(f.Rollout), nil
	for i := range f.Rollout.Nodes {
		if f.Rollout.Nodes[i].Degraded() {
			f.Degraded = append(f.Degraded, f.Rollout.Nodes[i])
		}
	}
}

// Rendered gives the status of a pool after an attempt to render it: the conditions RenderDegraded and Degraded. A nil
// error is success.
func Rendered(old mcfgv1.MachineConfigPoolStatus, pool string, err error, now time.Time) mcfgv1.MachineConfigPoolStatus {
	s := *old.DeepCopy()
	c := poolCondition(mcfgv1.MachineConfigPoolRenderDegraded, false, "", "")
	if err != nil {
		c = poolCondition(mcfgv1.MachineConfigPoolRenderDegraded, true, fault.Of(err, "").Reason,
			message(fmt.Sprintf("Failed to render configuration for pool %s: %s", pool, err)))
	}
	set := setter(&s, now)
	set(c)
	set(degraded(s.Conditions))
	return s
}

// progress words Updated and Updating; `oc`, alerts and people match these texts.
func progress(f PoolFacts, converged bool) (updated, updating mcfgv1.MachineConfigPoolCondition) {
	target := f.Rollout.Target
	updated = poolCondition(mcfgv1.MachineConfigPoolUpdated, false, "", "")
	updating = poolCondition(mcfgv1.MachineConfigPoolUpdating, false, "", "")
	switch {
	case converged:
		updated = poolCondition(updated.Type, true, "", "All nodes are updated with MachineConfig "+target)
	case target == "":
		updated.Message = "No MachineConfig is rendered for this pool yet"
	case f.Rollout.Paused:
		updating.Message = "Pool is paused; will not update to MachineConfig " + target
	case f.Wave.Record.Verdict == v1alpha1.RolloutHalted:
		updating.Message = "Rollout is halted; will not update to MachineConfig " + target
	case f.Wave.Record.Verdict == v1alpha1.RolloutReverted:
		updating.Message = fmt.Sprintf("Rollout is reverted to MachineConfig %s; will not update to MachineConfig %s", f.Wave.Record.Back, target)
	case len(f.Wave.Blocks) > 0:
		updating = poolCondition(updating.Type, true, "", waitsText(f))
	case f.Wave.Counts.Updated == f.Wave.Counts.Machines:
		updating = poolCondition(updating.Type, true, "", unavailableText(f))
	default:
		updating = poolCondition(updating.Type, true, "", "All nodes are updating to MachineConfig "+target+howFar(f.Wave.Counts))
	}
	return updated, updating
}

// howFar adds to the original's text how many nodes are not updating: those that are done, and those that failed. It is empty where
// there are none.
func howFar(c rollout.Counts) string {
	if c.Updated+c.Degraded == 0 {
		return ""
	}
	text := fmt.Sprintf(": %d of %d run it", c.Updated, c.Machines)
	if c.Unavailable > 0 {
		text += fmt.Sprintf(", %d unavailable", c.Unavailable)
	}
	if c.Degraded > 0 {
		text += fmt.Sprintf(", %d degraded", c.Degraded)
	}
	return text
}

// unavailableText says that nothing is left to update, and that nodes do not serve pods.
func unavailableText(f PoolFacts) string {
	c := f.Wave.Counts
	return fmt.Sprintf("All nodes run MachineConfig %s; %d of %d are unavailable", f.Rollout.Target, c.Unavailable, c.Machines)
}

// waitsText is the message of Updating while the rollout does not proceed: the original's text would be wrong then.
func waitsText(f PoolFacts) string {
	c, cause := f.Wave.Counts, string(f.Wave.Blocks[0].Cause)
	if c.Converged() {
		return fmt.Sprintf("All nodes ran MachineConfig %s when they last reported (%s), see RolloutBlocked", f.Rollout.Target, cause)
	}
	if c.Updated == c.Machines {
		return unavailableText(f) + " (" + cause + "), see RolloutBlocked"
	}
	return fmt.Sprintf("%d of %d nodes run MachineConfig %s; the rollout waits (%s), see RolloutBlocked", c.Updated, c.Machines, f.Rollout.Target, cause)
}

// nodeDegraded names every node that reports a failure, with its daemon's own words, the config that it failed with its
// commit, and in the end what to do.
func nodeDegraded(f PoolFacts) mcfgv1.MachineConfigPoolCondition {
	if len(f.Degraded) == 0 {
		return poolCondition(mcfgv1.MachineConfigPoolNodeDegraded, false, "", "")
	}
	nodes := slices.Clone(f.Degraded) // a cache lists nodes in any order, and the text must not change with it
	slices.SortFunc(nodes, func(a, b rollout.Node) int { return strings.Compare(a.Name, b.Name) })
	texts, failing := make([]string, len(nodes)), ""
	for i := range nodes {
		n := &nodes[i]
		reason := n.Reason
		if n.Failing() { // its config and commit are named once
			failing = cmp.Or(failing, n.Name)
			reason = rollout.Complaint(reason)
		}
		reason = strings.ReplaceAll(cut(cmp.Or(reason, "no reason given"), mostReason), `"`, "'")
		texts[i] = fmt.Sprintf(`Node %s is reporting: "%s"`, n.Name, reason)
		if n.Failing() {
			texts[i] += " (" + cut(n.Config.Desired+from(f.Commits[n.Config.Desired]), mostSubject) + ")"
		}
	}
	advice := ""
	if failing != "" {
		advice = "; for what to do: bunsen why node/" + failing
	}
	return poolCondition(mcfgv1.MachineConfigPoolNodeDegraded, true,
		fmt.Sprintf("%d nodes are reporting degraded status on sync", len(nodes)), list(texts, ", ", mostMessage-len(advice))+advice)
}

// NodeFailures names the degraded nodes of the facts as the condition NodeDegraded does; empty where there are none.
func NodeFailures(f PoolFacts) string { return nodeDegraded(f).Message }

func from(commit string) string {
	if commit == "" {
		return ""
	}
	return " from " + commit
}

// blocked says why a pool as a whole does not go on. A budget that is used up is the ordinary course of a rollout while
// nodes are at work.
func blocked(f PoolFacts, converged bool) mcfgv1.MachineConfigPoolCondition {
	var texts []string
	var reason rollout.Cause
	verdict := false
	for _, b := range f.Wave.Blocks {
		texts = append(texts, b.Reason)
		verdict = verdict || isVerdict(string(b.Cause))
		if reason == "" || isVerdict(string(b.Cause)) && reason != rollout.CauseInvalid { // Degraded goes by the reason
			reason = b.Cause
		}
	}
	if converged && reason != rollout.CauseApplying || len(texts) == 0 { // what cannot be rendered blocks an updated pool, too
		return poolCondition(RolloutBlocked, false, "", "")
	}
	advice := ""
	if verdict {
		advice = "; for what to do: bunsen why pool/" + f.Rollout.Pool
	}
	return poolCondition(RolloutBlocked, true, string(reason), list(texts, "; ", mostMessage-len(advice))+advice)
}

// causes are the conditions that make a pool Degraded, in the order in which their messages are shown.
var causes = []mcfgv1.MachineConfigPoolConditionType{
	mcfgv1.MachineConfigPoolNodeDegraded,
	mcfgv1.MachineConfigPoolRenderDegraded,
	mcfgv1.MachineConfigPoolImageBuildDegraded,
	mcfgv1.MachineConfigPoolPinnedImageSetsDegraded,
	RolloutBlocked,
}

// degraded sums up the causes, and repeats what they say.
func degraded(conditions []mcfgv1.MachineConfigPoolCondition) mcfgv1.MachineConfigPoolCondition {
	is := false
	var texts []string
	for _, cause := range causes {
		for _, c := range conditions {
			if c.Type != cause || c.Status != corev1.ConditionTrue || c.Type == RolloutBlocked && !isVerdict(c.Reason) {
				continue
			}
			is = true
			if c.Message != "" {
				texts = append(texts, c.Message)
			}
		}
	}
	return poolCondition(mcfgv1.MachineConfigPoolDegraded, is, "", list(texts, "; ", mostMessage))
}

// isVerdict tells the blocks that are failures from those that are patience.
func isVerdict(reason string) bool {
	return reason == string(rollout.CauseHalted) || reason == string(rollout.CauseReverted)
}

func poolCondition(kind mcfgv1.MachineConfigPoolConditionType, is bool, reason, text string) mcfgv1.MachineConfigPoolCondition {
	status := corev1.ConditionFalse
	if is {
		status = corev1.ConditionTrue
	}
	return mcfgv1.MachineConfigPoolCondition{Type: kind, Status: status, Reason: reason, Message: text}
}

// setter returns a function that puts a condition in place of the one of its type. Nothing happens where status, reason
// and message are the same; the transition time moves only where the status does.
func setter(s *mcfgv1.MachineConfigPoolStatus, now time.Time) func(mcfgv1.MachineConfigPoolCondition) {
	return func(c mcfgv1.MachineConfigPoolCondition) {
		c.LastTransitionTime = metav1.NewTime(now)
		for i, was := range s.Conditions {
			if was.Type != c.Type {
				continue
			}
			if was.Status == c.Status {
				c.LastTransitionTime = was.LastTransitionTime
			}
			s.Conditions[i] = c
			return
		}
		s.Conditions = append(s.Conditions, c)
	}
}
