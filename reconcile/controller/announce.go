package controller

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
	"github.com/bunsen-os/bunsen/policy/window"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/reconcile/status"
)

// transition is one look at a pool, of which people are told what changed by it. What was, is read off the pool itself
// where it says so, so that a restart tells nothing twice.
type transition struct {
	before, after *mcfgv1.MachineConfigPool
	was           v1alpha1.RolloutRecord
	decision      decision
	// target is the rendered config that the pool should run; nil where it is not there.
	target *mcfgv1.MachineConfig
	events Events
}

// said is what was told and cannot be read off a pool.
type said struct {
	troubles sync.Map // pool name → trouble told last
	failed   sync.Map // pool name → the config that each failed node failed, by node, as told last
	waiting  sync.Map // pool name → true while it waits for a window
}

// announceDone makes an event of what is done and recorded, before the status is written: where that fails, the next look
// does not know of it any more. What ends a rollout is told in the look that puts it into the status, so that a crash after
// the record does not keep it from people; where the status is refused it is told twice.
func (r *Rollout) announceDone(ctx context.Context, t transition, done map[string]bool) {
	d := t.decision
	for _, x := range d.wave.Release {
		if done[x.Node] {
			t.warn(d.nodes[x.Node], "DrainPostponed", "Release", "drain of node %s postponed: its pods cannot be evicted; other nodes go first", x.Node)
		}
	}
	commit := bracketed(r.commit(ctx, t.after, d.facts.Target))
	back := commit
	if d.wave.Target != d.facts.Target {
		back = bracketed(r.commit(ctx, t.after, d.wave.Target))
	}
	t.assigned(done, back)
	for _, l := range d.wave.Label {
		if l.Attest {
			continue
		}
		if done[l.Node] {
			t.tell(d.nodes[l.Node], "LabelsApplied", "Label", "node %s booted for another pool and got its labels", l.Node)
		}
	}
	t.ended(commit)
	t.superseded(commit)
	t.verdict(commit)
	t.steps(commit)
}

// announce makes an event of what the status says for the first time, and tells the metrics.
func (r *Rollout) announce(ctx context.Context, t transition) {
	now, d := r.Now(), t.decision
	commit := bracketed(r.commit(ctx, t.after, d.facts.Target))
	t.measure(r.Metrics, now)
	if failed := r.said.failures(t); len(failed) > 0 {
		failing := d
		failing.degraded = failed
		t.degraded(failed, status.NodeFailures(r.summary(ctx, t.after, failing)))
	}
	if updating(t.after) && !updating(t.before) {
		t.tell(t.config(), "Updating", "Rollout", "pool %s is updating to %s%s", t.after.Name, d.facts.Target, commit)
	}
	r.said.trouble(t)
	r.said.window(t, now)
	r.Metrics.Pool(t.after.Name, d.wave.Counts, d.wave.Blocks, d.facts.Care.Pace.Windows.At(now))
}

// fewNodes are told of one by one; a wave of more is one event.
const fewNodes = 10

// assigned tells who was told what. The action is the config, since events that differ in their text alone are counted as
// one.
func (t transition) assigned(done map[string]bool, commit string) {
	var names []string
	for _, a := range t.decision.wave.Assign {
		if done[a.Node] {
			names = append(names, a.Node)
		}
	}
	config := t.decision.wave.Target
	if len(names) > fewNodes {
		t.tell(t.decision.nodes[names[0]], "SetDesiredConfig", config, "told %d nodes to update to %s%s: %s and %d more",
			len(names), config, commit, strings.Join(names[:fewNodes], ", "), len(names)-fewNodes)
		return
	}
	for _, name := range names {
		t.tell(t.decision.nodes[name], "SetDesiredConfig", config, "told node %s to update to %s%s", name, config, commit)
	}
}

// tell makes an event of the pool. Events of the same pool, related object, reason and action within some minutes are
// counted as one, with the text of the first.
func (t transition) tell(related runtime.Object, reason, action, note string, args ...any) {
	t.events.Eventf(t.after, related, corev1.EventTypeNormal, reason, action, "%s", clip(fmt.Sprintf(note, args...)))
}

func (t transition) warn(related runtime.Object, reason, action, note string, args ...any) {
	t.events.Eventf(t.after, related, corev1.EventTypeWarning, reason, action, "%s", clip(fmt.Sprintf(note, args...)))
}

// config is the target as an object that an event relates to; untyped nil where there is none.
func (t transition) config() runtime.Object {
	if t.target == nil {
		return nil
	}
	return t.target
}

// completed reports whether every node, at least one, runs the target, and did not before: also where a rollout that was halted or
// replaced was undone, and the pool is back in what it was healthy with. The status of a pool that was created again may name an earlier
// config, and no rollout completed then.
func (t transition) completed() bool {
	is, now := t.after.Status.Configuration.Name, t.decision.wave.Record
	undone := t.was.Config == now.Config && t.was.Healthy == now.Config && t.was.Ended == nil && now.Ended != nil
	return is != "" && is == t.decision.facts.Target && t.after.Status.MachineCount > 0 && (is != t.before.Status.Configuration.Name || undone)
}

// ended tells that every node runs the target.
func (t transition) ended(commit string) {
	if t.completed() {
		t.tell(t.config(), "Completed", "Rollout", "pool %s is updated to %s%s", t.after.Name, t.after.Status.Configuration.Name, commit)
	}
}

// superseded tells that another config became the target before all nodes ran the one before.
func (t transition) superseded(commit string) {
	past := t.decision.wave.Past
	if past == nil || past.Result != v1alpha1.RolloutSuperseded || past.Updated == past.Nodes {
		return
	}
	t.tell(t.config(), "RolloutSuperseded", past.Config, "the rollout of %s ended at %d of %d nodes of pool %s: it was replaced by %s%s",
		past.Config, past.Updated, past.Nodes, t.after.Name, t.decision.facts.Target, commit)
}

// measure tells the metrics how long the way from the commit to all nodes was.
func (t transition) measure(m *Metrics, now time.Time) {
	if !t.completed() || t.target == nil || t.decision.wave.Record.ByAPI() || t.target.Annotations[v1alpha1.RevisionAnnotation] != t.after.Annotations[v1alpha1.RevisionAnnotation] {
		return // a config that came back was brought by another commit than it names
	}
	if made, err := time.Parse(time.RFC3339, t.target.Annotations[v1alpha1.CommitTimeAnnotation]); err == nil {
		m.RolledOut(t.after.Name, now.Sub(made))
	}
}

// failures returns the nodes whose failure is new: one that no event has named yet. A node that still reports the failure of an older
// config is left out: it has not answered to the config that it should run now.
func (s *said) failures(t transition) []rollout.Node {
	pool, now := t.after.Name, map[string]string{}
	last, known := s.failed.Load(pool)
	told, _ := last.(map[string]string)
	// After a restart the pool's status says whether the failures were told before.
	restarted := !known && condition(t.before, mcfgv1.MachineConfigPoolNodeDegraded) != "" && t.before.Status.DegradedMachineCount == t.after.Status.DegradedMachineCount
	var out []rollout.Node
	for _, n := range t.decision.degraded {
		if of := n.Failure.Config; of != "" && of != n.Config.Desired {
			continue
		}
		now[n.Name] = n.Config.Desired
		if !restarted && told[n.Name] != n.Config.Desired {
			out = append(out, n)
		}
	}
	s.failed.Store(pool, now)
	return out
}

// degraded tells of nodes that failed. The message names the configs that they failed, with their commits.
func (t transition) degraded(failed []rollout.Node, message string) {
	const most = 100 // an action has at most 128 characters
	action := fmt.Sprintf("%d-%s", len(failed), failed[0].Name)
	t.warn(t.config(), "NodeDegraded", action[:min(len(action), most)], "%s", message)
}

// verdict tells that a rollout ended before its time, or goes on after that.
func (t transition) verdict(commit string) {
	now, target := t.decision.wave.Record, t.decision.facts.Target
	was := t.was
	if was.Config != now.Config {
		was = v1alpha1.RolloutRecord{}
	}
	again := was.Verdict != "" && now.Verdict != "" && !was.At.Equal(now.At) // somebody asked to retry, and it failed before this look
	if was.Verdict != "" && now.Verdict == "" || again {
		t.tell(t.config(), "RolloutResumed", "Retry", "pool %s tries %s%s again", t.after.Name, target, commit)
	}
	news := now.Verdict != was.Verdict || again
	for _, cause := range []rollout.Cause{rollout.CauseHalted, rollout.CauseReverted} {
		news = news || blockedBy(t.after, cause) && !blockedBy(t.before, cause)
	}
	switch {
	case !news:
	case now.Verdict == v1alpha1.RolloutHalted:
		t.warn(t.config(), "RolloutHalted", "Judge", "%s%s is halted in pool %s: %s; for what to do: bunsen why pool/%s", target, commit, t.after.Name, now.Why, t.after.Name)
	case now.Verdict == v1alpha1.RolloutReverted:
		t.warn(t.config(), "RolloutReverted", "Judge", "pool %s is reverted from %s%s to %s: %s; for what to do: bunsen why pool/%s", t.after.Name, target, commit, now.Back, now.Why, t.after.Name)
	}
}

// steps tells that a step of the pool's policy is over.
func (t transition) steps(commit string) {
	now := t.decision.wave.Record
	if now.Config != t.was.Config || now.Steps <= t.was.Steps {
		return
	}
	step, of := "step", len(t.decision.facts.Care.Pace.Steps)
	if t.was.Steps == 0 && of > 0 && t.decision.facts.Care.Pace.Steps[0].Canary {
		step = "canary"
	}
	t.tell(t.config(), "StepDone", fmt.Sprintf("Step%d", now.Steps), "%s %d of %d of pool %s is well with %s%s", step, now.Steps, of+1, t.after.Name, t.decision.facts.Target, commit)
}

// trouble tells once of a pool that cannot be rolled out as it is written.
func (s *said) trouble(t transition) {
	c := t.decision.facts.Care
	text := strings.TrimSpace(c.Invalid + "\n" + c.Lost)
	if text == "" {
		s.troubles.Delete(t.after.Name)
		return
	}
	if told, _ := s.troubles.Swap(t.after.Name, text); told != text {
		reason := "RolloutInvalid"
		if rollout.SelectingAll(t.after) != nil {
			reason = "SelectingAll"
		}
		t.warn(nil, reason, "Rollout", "%s", text)
	}
}

// window tells once that a rollout waits for its window, and once that it goes on.
func (s *said) window(t transition, now time.Time) {
	was := blockedBy(t.before, rollout.CauseWindow)
	var block *rollout.Block
	for i := range t.decision.wave.Blocks {
		if b := &t.decision.wave.Blocks[i]; b.Cause == rollout.CauseWindow {
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
			t.tell(t.config(), "WindowClosed", "Rollout", "pool %s waits: %s", t.after.Name, block.Reason)
		}
	case was:
		s.waiting.Delete(t.after.Name)
		if windowOpen(state, t.decision.facts.Care, now) {
			t.tell(t.config(), "WindowOpened", "Rollout", "pool %s may be rolled out%s", t.after.Name, until(state))
		}
	}
}

func windowOpen(s window.State, c rollout.Care, now time.Time) bool {
	return s.Open || now.Before(c.OpenUntil)
}

func until(s window.State) string {
	if !s.Open || s.Until.IsZero() {
		return ""
	}
	return fmt.Sprintf(" until %s (window %s)", s.Until.UTC().Format(time.RFC3339), s.Window)
}

func bracketed(commit string) string {
	if commit == "" {
		return ""
	}
	return " (" + commit + ")"
}

// condition is the message of a condition that is True, or empty.
func condition(p *mcfgv1.MachineConfigPool, kind mcfgv1.MachineConfigPoolConditionType) string {
	for _, c := range p.Status.Conditions {
		if c.Type == kind && c.Status == corev1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

// blockedBy tells whether a pool's status names a cause as the first that blocks it.
func blockedBy(p *mcfgv1.MachineConfigPool, cause rollout.Cause) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == status.RolloutBlocked && c.Status == corev1.ConditionTrue {
			return c.Reason == string(cause)
		}
	}
	return false
}

func updating(p *mcfgv1.MachineConfigPool) bool {
	return condition(p, mcfgv1.MachineConfigPoolUpdating) != ""
}
