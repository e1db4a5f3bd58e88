package rollout

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"
	"github.com/bunsen-os/bunsen/reconcile/health"
	"github.com/bunsen-os/bunsen/reconcile/kube"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"

	"github.com/bunsen-os/bunsen/reconcile/status"
)

// transition is the change of a pool by one reconciliation. Events report each change once: the pool shows the state
// before it, so a restart repeats none.
type transition struct {
	before, after *mcfgv1.MachineConfigPool
	was           v1alpha1.RolloutRecord
	decision      decision
	// what the pool should run; nil if it does not exist
	target *mcfgv1.MachineConfig
	events kube.Events
}

// reported are events about facts that no pool shows. If it is lost, one is repeated.
type reported struct {
	invalid sync.Map // pool name → why the pool cannot be rolled out, as last reported
	failed  sync.Map // pool name → the config that each failed node failed, by node, as last reported
	waiting sync.Map // pool name → true while the pool waits for a maintenance window
}

// reportWrites sends events about the writes to nodes and the changes of the record, before the status is written:
// otherwise a failed write of the status would hide them from the next reconciliation. The reconciliation that writes
// the end of a rollout into the status also reports it, so that a crash after the write of the record does not hide it,
// and a failed write of the status sends it twice.
func (r *Controller) reportWrites(ctx context.Context, t transition, done map[string]bool) {
	d := t.decision
	for _, x := range d.next.Release {
		if done[x.Node] {
			t.send(kube.Event{
				Related: d.nodes[x.Node], Warning: true, Reason: "DrainPostponed", Action: "Release",
				Note: fmt.Sprintf("drain of node %s postponed: its pods cannot be evicted; other nodes go first",
					x.Node),
			})
		}
	}
	commit := inParentheses(r.commit(ctx, t.after, d.facts.Target.Config))
	assignedCommit := commit
	if d.next.Target != d.facts.Target {
		assignedCommit = inParentheses(r.commit(ctx, t.after, d.next.Target.Config))
	}
	t.reportAssigned(done, assignedCommit)
	for _, l := range d.next.Label {
		if l.Attest {
			continue
		}
		if done[l.Node] {
			t.send(kube.Event{
				Related: d.nodes[l.Node], Reason: "LabelsApplied", Action: "Label",
				Note: fmt.Sprintf("node %s booted for another pool and got its labels", l.Node),
			})
		}
	}
	t.reportCompleted(commit)
	t.reportSuperseded(commit)
	// Also before the status: a node that this reconciliation puts back shows no failure to the next one.
	if failed := r.reported.newFailures(t); len(failed) > 0 {
		failing := d
		failing.degraded = failed
		t.reportDegraded(failed, status.NodeFailures(r.summary(ctx, t.after, failing)))
	}
	t.reportVerdict(commit)
	t.reportStep(commit)
}

// reportStatus sends events about facts that the status shows for the first time, and updates the metrics.
func (r *Controller) reportStatus(ctx context.Context, t transition) {
	now, d := r.Now(), t.decision
	commit := inParentheses(r.commit(ctx, t.after, d.facts.Target.Config))
	t.measure(r.Metrics, now)
	if isUpdating(t.after) && !isUpdating(t.before) {
		t.send(kube.Event{
			Related: t.config(), Reason: "Updating", Action: "Rollout",
			Note: fmt.Sprintf("pool %s is updating to %s%s", t.after.Name, d.facts.Target, commit),
		})
	}
	r.reported.reportInvalid(t)
	r.reported.reportWindow(t, now)
	r.Metrics.Pool(t.after.Name, d.next.Counts, d.next.Blocks, d.facts.Care.Pace.Windows.At(now))
}

// maxNodeEvents have one each; for more nodes, one event is for all.
const maxNodeEvents = 10

// reportAssigned has the name of the config as the action, because Kubernetes merges events that differ only in their
// text.
func (t transition) reportAssigned(done map[string]bool, commit string) {
	var names []string
	for _, a := range t.decision.next.Assign {
		if done[a.Node] {
			names = append(names, a.Node)
		}
	}
	config := t.decision.next.Target
	if len(names) > maxNodeEvents {
		t.send(kube.Event{
			Related: t.decision.nodes[names[0]], Reason: "SetDesiredConfig", Action: config.String(),
			Note: fmt.Sprintf("updating %d nodes to %s%s: %s and %d more",
				len(names), config, commit, strings.Join(names[:maxNodeEvents], ", "), len(names)-maxNodeEvents),
		})
		return
	}
	for _, name := range names {
		t.send(kube.Event{
			Related: t.decision.nodes[name], Reason: "SetDesiredConfig", Action: config.String(),
			Note: fmt.Sprintf("updating node %s to %s%s", name, config, commit),
		})
	}
}

// send: Kubernetes merges events of a few minutes with the same pool, related object, reason and action, and keeps the
// first text.
func (t transition) send(e kube.Event) {
	e.Object = t.after
	t.events.Send(e)
}

// config is untyped nil if there is none.
func (t transition) config() runtime.Object {
	if t.target == nil {
		return nil
	}
	return t.target
}

// isCompleted reports whether every node runs the target now and did not before, never for an empty pool. New secrets
// count too, and a pool that returns to its healthy config after a halted or replaced rollout. If a pool was created
// again, its status may name an earlier config although no rollout completed, and its nodes may run the target although
// nothing was rolled out.
func (t transition) isCompleted() bool {
	is, now := t.after.Status.Configuration.Name, t.decision.next.Record
	undone := t.was.Target() == now.Target() && t.was.Healthy == now.Config && t.was.Ended == nil && now.Ended != nil
	moved := is != t.before.Status.Configuration.Name && now.UpdatedBefore < int(t.after.Status.MachineCount)
	return is != "" && is == t.decision.facts.Target.Config && t.after.Status.MachineCount > 0 &&
		(moved || undone)
}

func (t transition) reportCompleted(commit string) {
	if t.isCompleted() {
		t.send(kube.Event{
			Related: t.config(), Reason: "Completed", Action: "Rollout",
			Note: fmt.Sprintf("pool %s is updated to %s%s", t.after.Name, t.decision.facts.Target, commit),
		})
	}
}

// reportSuperseded: the target changed before all nodes ran the previous one.
func (t transition) reportSuperseded(commit string) {
	for _, past := range t.decision.next.Ended {
		if past.Result != v1alpha1.RolloutSuperseded || past.Updated == past.Nodes {
			continue
		}
		t.send(kube.Event{
			Related: t.config(), Reason: "RolloutSuperseded", Action: past.Config,
			Note: fmt.Sprintf("the rollout of %s ended at %d of %d nodes of pool %s: it was replaced by %s%s",
				v1alpha1.NewConfigVersion(past.Config, past.Secrets), past.Updated, past.Nodes, t.after.Name,
				t.decision.facts.Target, commit),
		})
	}
}

// measure adds the time from the commit to the update of all nodes.
func (t transition) measure(m *health.Metrics, now time.Time) {
	if !t.isCompleted() || t.target == nil || t.decision.next.Record.ByAPI() ||
		t.target.Annotations[v1alpha1.RevisionAnnotation] != t.after.Annotations[v1alpha1.RevisionAnnotation] {
		return // A config that is used again names the commit of its first render, so the time would be wrong.
	}
	if committed, err := time.Parse(time.RFC3339, t.target.Annotations[v1alpha1.CommitTimeAnnotation]); err == nil {
		m.RolledOut(t.after.Name, now.Sub(committed))
	}
}

// newFailures are reported by no event yet, without nodes that still report the failure of an older config: they have
// not tried their new one.
func (s *reported) newFailures(t transition) []poolstate.Node {
	pool, now := t.after.Name, map[string]v1alpha1.ConfigVersion{}
	last, known := s.failed.Load(pool)
	before, _ := last.(map[string]v1alpha1.ConfigVersion)
	// After a restart, the pool's status shows whether the failures were already reported.
	restarted := !known && kube.ConditionMessage(t.before, mcfgv1.MachineConfigPoolNodeDegraded) != "" &&
		t.before.Status.DegradedMachineCount == t.after.Status.DegradedMachineCount
	var out []poolstate.Node
	for _, n := range t.decision.degraded {
		if n.FailedOther(n.Config.Desired) {
			continue
		}
		now[n.Name] = n.Config.Desired
		if !restarted && before[n.Name] != n.Config.Desired {
			out = append(out, n)
		}
	}
	s.failed.Store(pool, now)
	return out
}

// reportDegraded names the configs that the nodes failed, with their commits.
func (t transition) reportDegraded(failed []poolstate.Node, message string) {
	const maxAction = 100 // The API allows 128 characters.
	action := fmt.Sprintf("%d-%s", len(failed), failed[0].Name)
	t.send(kube.Event{
		Related: t.config(), Warning: true, Reason: "NodeDegraded",
		Action: action[:min(len(action), maxAction)], Note: message,
	})
}

// reportVerdict: a rollout was halted or reverted, or continues after that.
func (t transition) reportVerdict(commit string) {
	now, target := t.decision.next.Record, t.decision.facts.Target
	was := t.was
	if was.Target() != now.Target() {
		was = v1alpha1.RolloutRecord{}
	}
	// A user has retried the rollout, and it failed again before this reconciliation.
	again := was.Verdict != "" && now.Verdict != "" && !was.At.Equal(now.At)
	if was.Verdict != "" && now.Verdict == "" || again {
		t.send(kube.Event{
			Related: t.config(), Reason: "RolloutResumed", Action: "Retry",
			Note: fmt.Sprintf("pool %s tries %s%s again", t.after.Name, target, commit),
		})
	}
	isNew := now.Verdict != was.Verdict || again
	for _, cause := range []poolstate.Cause{poolstate.CauseHalted, poolstate.CauseReverted} {
		isNew = isNew || blockedBy(t.after, cause) && !blockedBy(t.before, cause)
	}
	switch {
	case !isNew:
	case now.Verdict == v1alpha1.RolloutHalted:
		t.send(kube.Event{
			Related: t.config(), Warning: true, Reason: "RolloutHalted", Action: "Judge",
			Note: fmt.Sprintf("%s%s is halted in pool %s: %s; for what to do: bunsen why pool/%s", target, commit,
				t.after.Name, now.Why, t.after.Name),
		})
	case now.Verdict == v1alpha1.RolloutReverted:
		t.send(kube.Event{
			Related: t.config(), Warning: true, Reason: "RolloutReverted", Action: "Judge",
			Note: fmt.Sprintf("pool %s is reverted from %s%s to %s: %s; for what to do: bunsen why pool/%s",
				t.after.Name, target, commit, now.ReturnsTo(), now.Why, t.after.Name),
		})
	}
}

func (t transition) reportStep(commit string) {
	now := t.decision.next.Record
	if now.Target() != t.was.Target() || now.Steps <= t.was.Steps {
		return
	}
	kind, of := "", len(t.decision.facts.Care.Pace.Steps)
	if t.was.Steps == 0 && of > 0 && t.decision.facts.Care.Pace.Steps[0].Canary {
		kind = " (canary)"
	}
	t.send(kube.Event{
		Related: t.config(), Reason: "StepDone", Action: fmt.Sprintf("Step%d", now.Steps),
		Note: fmt.Sprintf("step %d of %d%s of pool %s is healthy with %s%s", now.Steps, of, kind, t.after.Name,
			t.decision.facts.Target, commit),
	})
}

// reportInvalid reports settings that prevent the rollout, once.
func (s *reported) reportInvalid(t transition) {
	c := t.decision.facts.Care
	text := strings.TrimSpace(c.Invalid + "\n" + c.Lost)
	if text == "" {
		s.invalid.Delete(t.after.Name)
		return
	}
	if last, _ := s.invalid.Swap(t.after.Name, text); last != text {
		reason := "RolloutInvalid"
		if poolstate.SelectingAll(t.after) != nil {
			reason = "SelectingAll"
		}
		t.send(kube.Event{Warning: true, Reason: reason, Action: "Rollout", Note: text})
	}
}

// reportWindow reports once that a rollout waits for its maintenance window, and once that it continues.
func (s *reported) reportWindow(t transition, now time.Time) {
	was := blockedBy(t.before, poolstate.CauseWindow)
	var block *poolstate.Block
	for i := range t.decision.next.Blocks {
		if b := &t.decision.next.Blocks[i]; b.Cause == poolstate.CauseWindow {
			block = b
		}
	}
	if _, waits := s.waiting.Load(t.after.Name); waits {
		was = true
	}
	state := t.decision.facts.Care.Pace.Windows.At(now)
	switch {
	case block != nil:
		s.waiting.Store(t.after.Name, true)
		if !was {
			t.send(kube.Event{
				Related: t.config(), Reason: "WindowClosed", Action: "Rollout",
				Note: fmt.Sprintf("pool %s waits: %s", t.after.Name, block.Reason),
			})
		}
	case was:
		s.waiting.Delete(t.after.Name)
		if isWindowOpen(state, t.decision.facts.Care, now) {
			t.send(kube.Event{
				Related: t.config(), Reason: "WindowOpened", Action: "Rollout",
				Note: fmt.Sprintf("pool %s may be rolled out%s", t.after.Name, untilText(state)),
			})
		}
	}
}

func (s *reported) forget(pool string) {
	s.invalid.Delete(pool)
	s.waiting.Delete(pool)
}

func isWindowOpen(s schedule.WindowState, c poolstate.Care, now time.Time) bool {
	return s.Open || now.Before(c.OpenUntil)
}

// untilText is empty if the window does not end.
func untilText(s schedule.WindowState) string {
	if !s.Open || s.Until.IsZero() {
		return ""
	}
	return fmt.Sprintf(" until %s (window %s)", s.Until.UTC().Format(time.RFC3339), s.Window)
}

func inParentheses(commit string) string {
	if commit == "" {
		return ""
	}
	return " (" + commit + ")"
}

// blockedBy reports whether a cause is the first in a pool's status.
func blockedBy(p *mcfgv1.MachineConfigPool, cause poolstate.Cause) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1alpha1.RolloutBlockedCondition && c.Status == corev1.ConditionTrue {
			return c.Reason == string(cause)
		}
	}
	return false
}

func isUpdating(p *mcfgv1.MachineConfigPool) bool {
	return kube.ConditionMessage(p, mcfgv1.MachineConfigPoolUpdating) != ""
}
