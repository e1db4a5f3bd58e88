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

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// PoolFacts are the input for a MachineConfigPool's status, besides the old status.
type PoolFacts struct {
	// of the pool that was read
	Generation int64
	// spec.configuration, which becomes status.configuration when every node runs it
	Configuration mcfgv1.MachineConfigPoolStatusConfiguration
	// the pool's name, target and pause. With Nodes, these are counted; otherwise Decision and Degraded have all about
	// the nodes.
	Rollout poolstate.Facts
	// the last one
	Decision poolstate.Decision
	// nodes that report a failure
	Degraded []poolstate.Node
	// the text of the commit of each rendered config that nodes failed: `main@sha1:4f1c2ab1 "chrony: use site NTP"`
	Commits map[v1alpha1.ConfigVersion]string
	// how far the nodes are with the images of PinnedImageSets
	Images ImageFacts
}

// Pool returns the status of a pool from its nodes: counts, configuration, and the conditions Updated, Updating,
// NodeDegraded, PinnedImageSetsDegraded, Degraded and RolloutBlocked. RenderDegraded and conditions of other programs
// stay.
func Pool(old mcfgv1.MachineConfigPoolStatus, f PoolFacts, now time.Time) mcfgv1.MachineConfigPoolStatus {
	s := *old.DeepCopy()
	f.count()
	c := f.Decision.Counts
	s.ObservedGeneration = f.Generation
	s.MachineCount = int32(c.Machines)
	s.UpdatedMachineCount = int32(c.Updated)
	s.ReadyMachineCount = int32(c.Ready)
	s.UnavailableMachineCount = int32(c.Unavailable)
	s.DegradedMachineCount = int32(c.Degraded)
	converged := c.Converged() && !f.Rollout.Target.IsZero() && f.Rollout.Secrets.Unresolved == "" && !f.isSilent()
	if healthy := f.Decision.Record.Healthy; converged {
		s.Configuration = *f.Configuration.DeepCopy()
	} else if s.Configuration.Name == "" && healthy != "" { // The pool was deleted and created again, with its record.
		s.Configuration.ObjectReference = f.Configuration.ObjectReference
		s.Configuration.Name = healthy
	}
	set := setter(&s, now)
	updated, updating := progress(f, converged)
	set(updated)
	set(updating)
	set(nodeDegraded(f))
	set(blocked(f, converged))
	setImages(&s, f.Images, set)
	set(degraded(s.Conditions))
	if s.ObservedGeneration != old.ObservedGeneration && !converged && !f.Rollout.Target.IsZero() {
		setOutcome(&s, v1alpha1.ReconcilingCondition, v1alpha1.ReasonProgressing, "pool "+f.Rollout.Pool+
			" begins an update", now)
	}
	return s
}

// setImages sets PinnedImageSetsDegraded and the counts of nodes. A pool that never had a set has neither, and the
// condition of another program stays.
func setImages(s *mcfgv1.MachineConfigPoolStatus, f ImageFacts, set func(mcfgv1.MachineConfigPoolCondition)) {
	before := len(s.PoolSynchronizersStatus)
	s.PoolSynchronizersStatus = slices.DeleteFunc(s.PoolSynchronizersStatus,
		func(p mcfgv1.PoolSynchronizerStatus) bool {
			return p.PoolSynchronizerType == mcfgv1.PinnedImageSets
		})
	if f.HasSets || len(s.PoolSynchronizersStatus) < before {
		set(imagesDegraded(f))
	}
	if !f.HasSets {
		return
	}
	available := max(s.MachineCount-s.UnavailableMachineCount, s.ReadyMachineCount)
	s.PoolSynchronizersStatus = append(s.PoolSynchronizersStatus, mcfgv1.PoolSynchronizerStatus{
		PoolSynchronizerType: mcfgv1.PinnedImageSets, MachineCount: int64(s.MachineCount),
		UpdatedMachineCount: min(int64(f.Updated), int64(s.MachineCount)),
		ReadyMachineCount:   int64(s.ReadyMachineCount), AvailableMachineCount: int64(available),
		UnavailableMachineCount: int64(s.UnavailableMachineCount),
	})
}

// imagesDegraded names the sets that do not exist, and the nodes that cannot pull or pin an image.
func imagesDegraded(f ImageFacts) mcfgv1.MachineConfigPoolCondition {
	var texts []string
	if len(f.Missing) > 0 {
		texts = append(texts, "there is no PinnedImageSet "+strings.Join(f.Missing, ", ")+": create it, or remove it "+
			"from spec.pinnedImageSets of the pool")
	}
	for i := range f.Failing {
		texts = append(texts, "node "+f.Failing[i].Name+": "+cut(firstLine(f.Failing[i].Pinned.Problem), mostReason))
	}
	if len(texts) == 0 {
		return poolCondition(mcfgv1.MachineConfigPoolPinnedImageSetsDegraded, false, "AsExpected", "")
	}
	return poolCondition(mcfgv1.MachineConfigPoolPinnedImageSetsDegraded, true, "PrefetchFailed",
		list(texts, "; ", mostMessage))
}

// isSilent reports whether the daemon of a node has stopped reporting, so that its config is unknown.
func (f *PoolFacts) isSilent() bool {
	return slices.ContainsFunc(f.Decision.Blocks,
		func(b poolstate.Block) bool { return b.Cause == poolstate.CauseSilent })
}

// count does nothing if the facts have no nodes.
func (f *PoolFacts) count() {
	if len(f.Rollout.Nodes) == 0 {
		return
	}
	f.Decision.Counts, f.Degraded = poolstate.Count(f.Rollout), nil
	for i := range f.Rollout.Nodes {
		if f.Rollout.Nodes[i].Degraded() {
			f.Degraded = append(f.Degraded, f.Rollout.Nodes[i])
		}
	}
}

// Rendered returns the status of a pool after an attempt to render it: the conditions RenderDegraded, Degraded and
// ImageWithoutDigest. After success, images says which images of the config have no digest.
func Rendered(old mcfgv1.MachineConfigPoolStatus, pool string, images []string, err error,
	now time.Time,
) mcfgv1.MachineConfigPoolStatus {
	s := *old.DeepCopy()
	c := poolCondition(mcfgv1.MachineConfigPoolRenderDegraded, false, "", "")
	if err != nil {
		c = poolCondition(mcfgv1.MachineConfigPoolRenderDegraded, true, fault.Of(err, "").Reason,
			message(v1alpha1.RenderDegradedMessage(pool, err.Error())))
	}
	set := setter(&s, now)
	set(c)
	had := slices.ContainsFunc(s.Conditions, func(c mcfgv1.MachineConfigPoolCondition) bool {
		return c.Type == v1alpha1.ImageWithoutDigestCondition
	})
	switch {
	case err != nil: // The config in force stays, and so does what is known of its images.
	case len(images) > 0:
		set(poolCondition(v1alpha1.ImageWithoutDigestCondition, true, v1alpha1.ReasonNoDigest,
			list(images, "; ", mostMessage)))
	case had:
		set(poolCondition(v1alpha1.ImageWithoutDigestCondition, false, "", ""))
	}
	set(degraded(s.Conditions))
	return s
}

// progress returns Updated and Updating. `oc`, alerts and users compare these texts.
func progress(f PoolFacts, converged bool) (updated, updating mcfgv1.MachineConfigPoolCondition) {
	target := f.Rollout.Target.String()
	updated = poolCondition(mcfgv1.MachineConfigPoolUpdated, false, "", "")
	updating = poolCondition(mcfgv1.MachineConfigPoolUpdating, false, "", "")
	switch {
	case converged:
		updated = poolCondition(updated.Type, true, "", "All nodes are updated with MachineConfig "+target)
	case target == "":
		updated.Message = "No MachineConfig is rendered for this pool yet"
	case f.Rollout.Paused:
		updating.Message = "Pool is paused; will not update to MachineConfig " + target
	case f.Decision.Record.Verdict == v1alpha1.RolloutHalted:
		updating.Message = "Rollout is halted; will not update to MachineConfig " + target
	case f.Decision.Record.Verdict == v1alpha1.RolloutReverted:
		updating.Message = fmt.Sprintf("Rollout is reverted to MachineConfig %s; will not update to MachineConfig %s",
			f.Decision.Record.ReturnsTo(), target)
	case len(f.Decision.Blocks) > 0:
		updating = poolCondition(updating.Type, true, "", waitsText(f))
	case f.Decision.Counts.Updated == f.Decision.Counts.Machines:
		updating = poolCondition(updating.Type, true, "", unavailableText(f))
	default:
		updating = poolCondition(updating.Type, true, "", updatingText(f)+howFar(f.Decision.Counts))
	}
	return updated, updating
}

// updatingText begins each message of a pool under update, as the machine-config-operator has it, because programs
// compare it.
func updatingText(f PoolFacts) string {
	return "All nodes are updating to MachineConfig " + f.Rollout.Target.String()
}

// howFar adds to Updating how many nodes are done, and how many failed; empty if none.
func howFar(c poolstate.Counts) string {
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

// unavailableText is for a pool whose nodes are all updated, but do not all serve pods.
func unavailableText(f PoolFacts) string {
	c := f.Decision.Counts
	return fmt.Sprintf("%s: all run it, %d of %d are unavailable", updatingText(f), c.Unavailable, c.Machines)
}

// waitsText is for Updating while the rollout makes no progress.
func waitsText(f PoolFacts) string {
	c, cause := f.Decision.Counts, string(f.Decision.Blocks[0].Cause)
	if c.Converged() {
		return fmt.Sprintf("%s: all ran it when they last reported (%s), see RolloutBlocked", updatingText(f), cause)
	}
	if c.Updated == c.Machines {
		return unavailableText(f) + " (" + cause + "), see RolloutBlocked"
	}
	return fmt.Sprintf("%s: %d of %d run it, the rollout waits (%s), see RolloutBlocked", updatingText(f), c.Updated,
		c.Machines, cause)
}

// nodeDegraded names every node that reports a failure, with its daemon's text, and the config and commit that it
// failed, and then what to do.
func nodeDegraded(f PoolFacts) mcfgv1.MachineConfigPoolCondition {
	if len(f.Degraded) == 0 {
		return poolCondition(mcfgv1.MachineConfigPoolNodeDegraded, false, "", "")
	}
	nodes := slices.Clone(f.Degraded) // A cache lists nodes in any order, and the text must not depend on this order.
	slices.SortFunc(nodes, func(a, b poolstate.Node) int { return strings.Compare(a.Name, b.Name) })
	texts, failing := make([]string, len(nodes)), ""
	for i := range nodes {
		n := &nodes[i]
		reason := n.Reason
		if n.Failing() { // The text names each config and its commit only once.
			failing = cmp.Or(failing, n.Name)
			reason = n.Problem()
		}
		reason = strings.ReplaceAll(cut(cmp.Or(reason, "no reason given"), mostReason), `"`, "'")
		texts[i] = fmt.Sprintf(`Node %s is reporting: "%s"`, n.Name, reason)
		if n.Failing() {
			failed := n.Config.Desired
			texts[i] += " (" + cut(failed.String()+from(f.Commits[failed]), mostSubject) + ")"
		}
	}
	advice := ""
	if failing != "" {
		advice = "; for what to do: bunsen why node/" + failing
	}
	return poolCondition(mcfgv1.MachineConfigPoolNodeDegraded, true,
		fmt.Sprintf("%d nodes are reporting degraded status on sync", len(nodes)),
		list(texts, ", ", mostMessage-len(advice))+advice)
}

// NodeFailures returns the message of the condition NodeDegraded; empty if no node is degraded.
func NodeFailures(f PoolFacts) string { return nodeDegraded(f).Message }

func from(commit string) string {
	if commit == "" {
		return ""
	}
	return " from " + commit
}

// blocked returns why a pool as a whole makes no progress. A used budget is normal during a rollout, and does not block
// it while nodes are at work.
func blocked(f PoolFacts, converged bool) mcfgv1.MachineConfigPoolCondition {
	var texts []string
	var reason poolstate.Cause
	verdict := false
	for _, b := range f.Decision.Blocks {
		texts = append(texts, b.Reason)
		verdict = verdict || isVerdict(string(b.Cause))
		// The condition Degraded depends on the exact reason.
		if reason == "" || isVerdict(string(b.Cause)) && reason != poolstate.CauseInvalid {
			reason = b.Cause
		}
	}
	if converged && reason != poolstate.CauseApplying ||
		len(texts) == 0 { // A failed render blocks an updated pool, too.
		// Newer commits do not reach a held pool, even if every node runs its config.
		if f.Rollout.Held != "" {
			return poolCondition(v1alpha1.RolloutBlockedCondition, true, string(poolstate.CauseHeld),
				message("pool "+f.Rollout.Pool+" is "+f.Rollout.Held))
		}
		return poolCondition(v1alpha1.RolloutBlockedCondition, false, "", "")
	}
	if f.Rollout.Held != "" {
		texts = append(texts, "pool "+f.Rollout.Pool+" is "+f.Rollout.Held)
	}
	advice := ""
	if verdict {
		advice = "; for what to do: bunsen why pool/" + f.Rollout.Pool
	}
	return poolCondition(v1alpha1.RolloutBlockedCondition,
		true, string(reason), list(texts, "; ", mostMessage-len(advice))+advice)
}

// causes: they make a pool Degraded, and their messages are shown in this order.
var causes = []mcfgv1.MachineConfigPoolConditionType{
	mcfgv1.MachineConfigPoolNodeDegraded,
	mcfgv1.MachineConfigPoolRenderDegraded,
	mcfgv1.MachineConfigPoolImageBuildDegraded,
	mcfgv1.MachineConfigPoolPinnedImageSetsDegraded,
	v1alpha1.RolloutBlockedCondition,
}

// degraded summarizes causes, and repeats their messages.
func degraded(conditions []mcfgv1.MachineConfigPoolCondition) mcfgv1.MachineConfigPoolCondition {
	is := false
	var texts []string
	for _, cause := range causes {
		for _, c := range conditions {
			if c.Type != cause || c.Status != corev1.ConditionTrue ||
				c.Type == v1alpha1.RolloutBlockedCondition && !isVerdict(c.Reason) {
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

// isVerdict reports whether a block is a failure; others are normal waits.
func isVerdict(reason string) bool {
	return reason == string(poolstate.CauseHalted) || reason == string(poolstate.CauseReverted)
}

func poolCondition(kind mcfgv1.MachineConfigPoolConditionType, is bool, reason,
	text string,
) mcfgv1.MachineConfigPoolCondition {
	status := corev1.ConditionFalse
	if is {
		status = corev1.ConditionTrue
	}
	return mcfgv1.MachineConfigPoolCondition{Type: kind, Status: status, Reason: reason, Message: text}
}

// setter returns a function that replaces the condition of the same type, unless status, reason and message are equal.
// The transition time changes only with the status.
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

// ImageFacts say how far the nodes of a pool are with the images of its PinnedImageSets.
type ImageFacts struct {
	// the pool has sets
	HasSets bool
	// nodes that have and pin all images
	Updated int
	// nodes that cannot pull or pin an image now
	Failing []poolstate.Node
	// sets that the pool names and that do not exist
	Missing []string
}

// NewImageFacts reads the facts from the nodes of a pool.
func NewImageFacts(nodes []poolstate.Node, missing []string) (f ImageFacts) {
	f.Missing, f.HasSets = missing, len(missing) > 0
	for i := range nodes {
		n := &nodes[i]
		switch {
		case n.Images == "":
			continue
		case n.ImagesFail():
			f.Failing = append(f.Failing, *n)
		case n.Pinned.Digest == n.Images:
			f.Updated++
		}
		f.HasSets = true
	}
	return f
}

// Judged returns the status of a pool with the condition that says its outcome to kstatus: the verdict of the whole
// cluster, so that `kubectl wait`, Flux and Argo CD come to the same result as `bunsen why`. Until the verdict on a new
// generation, Pool says that the pool is reconciling.
func Judged(old mcfgv1.MachineConfigPoolStatus, v v1alpha1.Verdict, now time.Time) mcfgv1.MachineConfigPoolStatus {
	s := *old.DeepCopy()
	// The message of the verdict changes with each node, and would be written as often.
	setOutcome(&s, kstatus(v.Outcome), cmp.Or(v.Cause, string(v.Outcome)), "pool "+v.Name+" is "+
		strings.ToLower(string(v.Outcome))+"; for the reason: bunsen why pool/"+v.Name, now)
	return s
}

// setOutcome sets Reconciling or Stalled and removes the other one; an empty kind removes both.
func setOutcome(s *mcfgv1.MachineConfigPoolStatus, kind, reason, text string, now time.Time) {
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c mcfgv1.MachineConfigPoolCondition) bool {
		return string(c.Type) != kind && (c.Type == v1alpha1.StalledCondition ||
			c.Type == v1alpha1.ReconcilingCondition)
	})
	if kind != "" {
		setter(s, now)(poolCondition(mcfgv1.MachineConfigPoolConditionType(kind), true, reason, text))
	}
}
