package status

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// PoolFacts are what a MachineConfigPool's status follows from, besides what it was before.
type PoolFacts struct {
	// Generation of the pool that was read.
	Generation int64
	// Configuration is the pool's spec.configuration; it becomes status.configuration once every node runs it.
	Configuration mcfgv1.MachineConfigPoolStatusConfiguration
	// Rollout has the pool's name, target, pause and nodes.
	Rollout rollout.Facts
}

// Pool gives the status of a pool from its nodes: counts, configuration, and the conditions Updated, Updating,
// NodeDegraded and Degraded. RenderDegraded and the conditions of others stay as they are.
func Pool(old mcfgv1.MachineConfigPoolStatus, f PoolFacts, now time.Time) mcfgv1.MachineConfigPoolStatus {
	s := *old.DeepCopy()
	c := rollout.Count(f.Rollout)
	s.ObservedGeneration = f.Generation
	s.MachineCount = int32(c.Machines)
	s.UpdatedMachineCount = int32(c.Updated)
	s.ReadyMachineCount = int32(c.Ready)
	s.UnavailableMachineCount = int32(c.Unavailable)
	s.DegradedMachineCount = int32(c.Degraded)
	converged := c.Converged() && f.Rollout.Target != ""
	if converged {
		s.Configuration = *f.Configuration.DeepCopy()
	}
	set := setter(&s, now)
	updated, updating := progress(f.Rollout, converged)
	set(updated)
	set(updating)
	set(nodeDegraded(f.Rollout, c.Degraded))
	set(degraded(s.Conditions))
	return s
}

// Rendered gives the status of a pool after an attempt to render it: the conditions RenderDegraded and Degraded. A nil
// error is success.
func Rendered(old mcfgv1.MachineConfigPoolStatus, pool string, err error, now time.Time) mcfgv1.MachineConfigPoolStatus {
	s := *old.DeepCopy()
	c := poolCondition(mcfgv1.MachineConfigPoolRenderDegraded, false, "", "")
	if err != nil {
		c = poolCondition(mcfgv1.MachineConfigPoolRenderDegraded, true, "",
			message(fmt.Sprintf("Failed to render configuration for pool %s: %s", pool, err)))
	}
	set := setter(&s, now)
	set(c)
	set(degraded(s.Conditions))
	return s
}

// progress words Updated and Updating; `oc`, alerts and people match these texts.
func progress(f rollout.Facts, converged bool) (updated, updating mcfgv1.MachineConfigPoolCondition) {
	updated = poolCondition(mcfgv1.MachineConfigPoolUpdated, false, "", "")
	updating = poolCondition(mcfgv1.MachineConfigPoolUpdating, false, "", "")
	switch {
	case converged:
		updated = poolCondition(updated.Type, true, "", "All nodes are updated with MachineConfig "+f.Target)
	case f.Target == "":
		updated.Message = "No MachineConfig is rendered for this pool yet"
	case f.Paused:
		updating.Message = "Pool is paused; will not update to MachineConfig " + f.Target
	default:
		updating = poolCondition(updating.Type, true, "", "All nodes are updating to MachineConfig "+f.Target)
	}
	return updated, updating
}

// nodeDegraded names every node that reports a failure, with its daemon's own words.
func nodeDegraded(f rollout.Facts, count int) mcfgv1.MachineConfigPoolCondition {
	if count == 0 {
		return poolCondition(mcfgv1.MachineConfigPoolNodeDegraded, false, "", "")
	}
	texts := make([]string, 0, count)
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.Degraded() {
			texts = append(texts, fmt.Sprintf("Node %s is reporting: %q", n.Name, cut(cmp.Or(n.Reason, "no reason given"), mostReason)))
		}
	}
	slices.Sort(texts) // a cache lists nodes in any order, and the text must not change with it
	return poolCondition(mcfgv1.MachineConfigPoolNodeDegraded, true,
		fmt.Sprintf("%d nodes are reporting degraded status on sync", count), list(texts, ", ", mostMessage))
}

// causes are the conditions that make a pool Degraded, in the order in which their messages are shown.
var causes = []mcfgv1.MachineConfigPoolConditionType{
	mcfgv1.MachineConfigPoolNodeDegraded,
	mcfgv1.MachineConfigPoolRenderDegraded,
	mcfgv1.MachineConfigPoolImageBuildDegraded,
	mcfgv1.MachineConfigPoolPinnedImageSetsDegraded,
}

// degraded sums up the causes, and repeats what they say.
func degraded(conditions []mcfgv1.MachineConfigPoolCondition) mcfgv1.MachineConfigPoolCondition {
	is := false
	var texts []string
	for _, cause := range causes {
		for _, c := range conditions {
			if c.Type != cause || c.Status != corev1.ConditionTrue {
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
