package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/membership"
	"github.com/bunsen-os/bunsen/internal/schedule"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

const (
	// between two decisions, because the precision of a clock is limited
	minRequeue = time.Second
	// while the rollout waits for a job or a query
	recheckGates = 15 * time.Second
	// while a node is at work, because an event can be lost
	recheckNodes = time.Minute
	// while the rollout waits: a user can set the clock
	maxRequeue = 10 * time.Minute
)

// Next decides which configs a pool's nodes are assigned now: none while the pool is paused, has no target, or has a
// target with secrets that the server has not resolved.
//
// An assigned node takes a place in the budget until it is done. One that is already out of service, because it failed
// another config or changes to another, takes no new place, and so can be assigned the target at once. At most
// MaxUnavailable nodes are at work at a time.
func Next(f poolstate.Facts, now time.Time) poolstate.Decision {
	if f.Target.IsZero() {
		e := evaluate(f, now)
		return poolstate.Decision{Record: e.record, Counts: counts(e, settling{}), Blocks: invalidBlocks(f.Care)}
	}
	if f.Secrets.Unresolved != "" {
		return poolstate.Decision{
			Record: f.Care.Record, Counts: poolstate.Count(f),
			Blocks: append(invalidBlocks(f.Care),
				poolstate.Block{Cause: poolstate.CauseSecrets, Reason: f.Secrets.Unresolved}),
		}
	}
	p := newPlan(f, now)
	w := poolstate.Decision{
		Record: p.record, Ended: endedRollouts(p.evaluation), Target: p.nodes.Target, Assign: assignmentsOf(p),
		Release: p.released,
		Counts:  counts(p.evaluation, p.capacity.settling), Stage: p.step.Stage,
	}
	w.Marks = marksOf(p)
	blocks, again := poolBlocks(p)
	w.Blocks, again = blocks,
		earliest(p.again, again, content(p.evaluation).Late(p.nodes.Candidates[poolstate.CandidateInService]))
	if p.nodes.Total.Changing > 0 || len(w.Assign) > 0 {
		again = earliest(again, now.Add(recheckNodes))
	}
	if !again.IsZero() {
		w.RequeueAfter = min(max(again.Sub(now), minRequeue), maxRequeue)
	}
	return w
}

// plan has the results of all steps of a decision.
type plan struct {
	evaluation
	capacity capacity
	step     step
	blockers blockers
	assigned assignments
	released []poolstate.Release
}

func newPlan(f poolstate.Facts, now time.Time) plan {
	e := evaluate(f, now)
	c := measure(e)
	s := currentStep(e, c)
	e.record = s.record
	b := findBlockers(e, c)
	open := admit(e, b)
	a := assign(open, c, s)
	e.record = forgiveAssigned(e, a.members)
	e.again = earliest(open.again, c.again, s.again, b.again, a.again)
	p := plan{evaluation: e, capacity: c, step: s, blockers: b, assigned: a}
	if len(b.stops)+len(b.holds) == 0 {
		released, again := postponeDrains(open, c, s, a)
		p.released, p.again = released, earliest(p.again, again)
	}
	return p
}

// forgiveAssigned forgives the assigned nodes that already report a failure or are not Ready, if this could look like a
// failure of the target. A recorded one of another config does not.
func forgiveAssigned(e evaluation, assigned []*poolstate.Member) v1alpha1.RolloutRecord {
	if e.Care.Pace.Failures.After < 1 || e.nodes.Target != e.Target {
		return e.record
	}
	var names []string
	for _, m := range assigned {
		switch {
		case m.Failing() && m.Candidate != poolstate.CandidateCurrent && !m.FailedOther(e.nodes.Target):
			names = append(names, m.Name)
		case m.Health.Trouble != "":
			names = append(names, m.Name+away)
		}
	}
	return withForgiven(e.record, names)
}

// findBlockers is about the pool as a whole.
func findBlockers(e evaluation, c capacity) blockers {
	b := blockers{stops: findStops(e, c)}
	if e.nodes.Total.Behind == 0 {
		return b // No node waits for the target.
	}
	reverting := e.record.Verdict == v1alpha1.RolloutReverted
	if names := retriedNodes(e.record); len(names) > 0 {
		until := patientUntil(e)
		b.holds = append(b.holds, poolstate.Block{
			Cause: poolstate.CauseFailed, Reason: retryText(e.nodes.Target, names, until),
			Until: until,
		})
	}
	b.holds = slices.Concat(cycleBlocks(e.Care), b.holds, poolsBefore(e, reverting))
	w := checkWindow(e)
	b.holds, b.again = append(b.holds, w.holds...), w.again
	if g, closed := closedGate(e, queries); closed && !reverting && !settled(e) {
		b.holds = append(b.holds, g)
		b.again = earliest(b.again, e.now.Add(recheckGates))
	}
	return b
}

// poolsBefore has a block for each pool that comes first and has not finished.
func poolsBefore(e evaluation, reverting bool) []poolstate.Block {
	var blocks []poolstate.Block
	for _, a := range e.Care.Around.Ahead {
		switch {
		case a.Done, reverting, a.Pool == membership.Master && arbiterIsOut(e):
		case a.Missing: // The pool does not exist, so only a user can end this wait.
			blocks = append(blocks,
				poolstate.Block{
					Cause: poolstate.CauseInvalid,
					Reason: fmt.Sprintf("`after` of RolloutPolicy %s names pool %s, which "+
						"does not exist",
						strings.Join(e.Care.Pace.Policies, ", "), a.Pool), Policies: e.Care.Pace.Policies,
				})
		default:
			blocks = append(blocks, poolstate.Block{Cause: poolstate.CauseAfterPool, Reason: "pool " + a.Pool +
				" is updated first: " +
				a.Why})
		}
	}
	return blocks
}

// arbiterIsOut reports whether the arbiter is out of service with its current config. The masters then wait for it,
// because they need it for their quorum, and it does not wait for them.
func arbiterIsOut(e evaluation) bool {
	return e.Pool == poolstate.ArbiterPool && (len(e.nodes.Candidates[poolstate.CandidateDegraded]) > 0 ||
		slices.ContainsFunc(e.nodes.NotReady, func(m *poolstate.Member) bool { return !m.Changing() }))
}

// findStops is for every node.
func findStops(e evaluation, c capacity) []poolstate.Block {
	stops := slices.Clone(c.invalid)
	if e.Care.Invalid != "" {
		stops = append(stops, poolstate.Block{
			Cause: poolstate.CauseInvalid, Reason: e.Care.Invalid,
			Policies: e.Care.InvalidPolicies,
		})
	}
	if e.Paused {
		stops = append(stops, poolstate.Block{Cause: poolstate.CausePaused, Reason: pausedText(e.Facts)})
	}
	if e.record.Verdict == v1alpha1.RolloutHalted {
		stops = append(stops, verdictBlock(e.Pool, e.record))
	}
	if c.max < 1 {
		stops = append(stops, poolstate.Block{Cause: poolstate.CauseBudget, Reason: noBudgetText(e.Pool, c.max)})
	}
	return stops
}

// cycleBlocks names pools that wait for each other.
func cycleBlocks(c poolstate.Care) []poolstate.Block {
	if len(c.Around.Cycle) == 0 {
		return nil
	}
	return []poolstate.Block{{
		Cause: poolstate.CauseInvalid,
		Reason: fmt.Sprintf("pools %s wait for each other; remove one of them from "+
			"`after` of its RolloutPolicy",
			strings.Join(slices.Concat(c.Around.Cycle, c.Around.Cycle[:1]), ", ")), Policies: c.Pace.Policies,
	}}
}

// checkWindow blocks the pool outside its maintenance windows.
func checkWindow(e evaluation) (b blockers) {
	w := e.Care.Pace.Windows.At(e.now)
	if e.now.Before(e.Care.OpenUntil) {
		b.again = e.Care.OpenUntil
	}
	b.again = earliest(b.again, w.Until)
	if w.Open || e.now.Before(e.Care.OpenUntil) {
		return b
	}
	text := "no maintenance window is open"
	if w.Window != "" {
		text = "outside of the maintenance windows (" + w.Window + ")"
	}
	if w.Until.IsZero() {
		text += ", and none opens within a year"
	} else {
		text += "; the next opening is " + poolstate.FormatTime(w.Until)
	}
	b.holds = []poolstate.Block{{Cause: poolstate.CauseWindow, Reason: text, Until: w.Until}}
	return b
}

type step struct {
	poolstate.Stage
	// in the policy
	policy schedule.Step
	// The step limits which nodes are assigned; otherwise only the budget does.
	limited bool
	// when the nodes of the step will have been healthy for long enough; zero while they are not healthy
	soaked time.Time
	// with the number of completed steps
	record v1alpha1.RolloutRecord
	again  time.Time
}

// currentStep finds the current step, and starts the next one if it has ended: its nodes run the target and have been
// healthy for the soak, and its jobs and queries succeed. At most one ends at a time, because the answer of a job is
// about one step only.
func currentStep(e evaluation, c capacity) step {
	r := e.record
	s := stepNumber(min(r.Steps, len(e.Care.Pace.Steps)), e, c)
	s.record = r
	if !s.limited || s.Healthy < s.Want || s.Want == 0 {
		s.record.WellSince = nil
		return s
	}
	// Otherwise the clock was set back.
	if r.WellSince == nil || r.WellSince.After(e.now.Add(time.Second)) {
		s.record.WellSince = stampUp(e.now)
	}
	s.soaked = s.record.WellSince.Add(s.policy.Soak)
	if e.now.Before(s.soaked) && s.policy.Soak > 0 {
		s.again = earliest(s.again, s.soaked)
		return s
	}
	s.Due = true
	if _, closed := closedGate(e, anyGate); closed {
		s.again = earliest(s.again, e.now.Add(recheckGates))
		return s
	}
	r.Steps, r.WellSince = s.Step+1, nil
	next := stepNumber(r.Steps, e, c)
	next.record, next.again = r, earliest(s.again, next.again, e.now.Add(minRequeue))
	return next
}

// stepNumber counts the nodes of one step. There is no limit in a pool that has completed its steps, was reverted, or
// returns to its last config.
func stepNumber(number int, e evaluation, c capacity) step {
	steps, total := e.Care.Pace.Steps, e.nodes.Total
	s := step{Stage: poolstate.Stage{
		Step: len(steps), Of: len(steps), Want: total.Nodes, Assigned: total.Assigned,
		Healthy: total.Healthy - c.settling.nodes,
	}}
	if number >= len(steps) || e.record.Verdict != "" || settled(e) {
		return s
	}
	s.policy, s.limited = steps[number], true
	s.Step, s.Canary = number, s.policy.Canary
	absent, again := countAbsent(e)
	s.again = again
	if s.policy.Selector != nil {
		canary := e.nodes.Canary
		s.Want, s.Assigned, s.Healthy = canary.Nodes, canary.Assigned, canary.Healthy-c.settling.canaries
		return s
	}
	s.Want = min(s.policy.Size(total.Nodes), total.Nodes)
	s.Assigned -= total.Failed + absent // Nodes that did not fail replace as many failed nodes as the policy allows.
	return s
}

// lets reports whether the step allows the assignment of a node, after others of this decision. Nodes that failed
// another config do not wait for a step.
func (s step) lets(m *poolstate.Member, others int) bool {
	switch {
	case !s.limited || m.Failing():
		return true
	case s.policy.Selector != nil:
		return m.Canary
	}
	return s.Assigned+others < s.Want
}

// countAbsent counts the nodes that were assigned the target and cannot try it, for other reasons. Others are assigned
// it in their place.
func countAbsent(e evaluation) (n int, again time.Time) {
	for _, m := range e.nodes.Occupying {
		if !m.Assigned || !m.Unavailable() || m.Failed {
			continue
		}
		before := m.Health.Trouble != "" && (wasNotReady(e.record, m) || !notReadySinceStart(e.record, m))
		dead := before && age(e.now, m.Health.Since) > slow
		if before && !dead {
			again = earliest(again, m.Health.Since.Add(slow+time.Second))
		}
		if dead || m.Cordon.ByAdministrator() && !m.Changing() {
			n++
		}
	}
	return n, again
}

// admit removes the candidates that must wait before assign picks a node, so that no rule can reach them.
func admit(e evaluation, b blockers) evaluation {
	if len(b.stops)+len(b.holds) == 0 && e.Care.Around.Quorum == "" {
		return e
	}
	late := e.again
	e.nodes = e.nodes.Only(func(m *poolstate.Member) bool {
		switch {
		case len(b.stops) > 0:
			return false
		case m.Candidate == poolstate.CandidateCurrent:
			return true
		case keepsQuorum(e, m):
			return false
		case len(b.holds) == 0, m.Candidate == poolstate.CandidateFailed:
			return true
		}
		lost, again := isLost(e, m)
		late = earliest(late, again)
		return lost
	})
	e.again = late
	return e
}

// endedRollouts end with this decision, the newest first. A record that has ended already is in the pool's history, and
// nothing is added about it: not when another replaces it, and not when a retry lifts its verdict.
func endedRollouts(e evaluation) (ended []v1alpha1.RolloutOutcome) {
	was, now := e.Care.Record, e.record
	over := func(r v1alpha1.RolloutRecord) bool { return r.Ended != nil || r.Verdict != "" }
	if over(now) && (e.begins || !over(was)) {
		ended = append(ended, outcomeOf(e, now))
	}
	if e.begins && was.Config != "" && !over(was) {
		o := outcomeOf(e, was)
		if o.Result == v1alpha1.RolloutSuperseded {
			o.Next = &v1alpha1.NextRollout{Cause: now.Cause, Revision: now.Revision}
			if now.Cause == v1alpha1.RolloutCauseAPI {
				o.Next = &v1alpha1.NextRollout{Cause: now.Cause}
				if changes := slices.Concat(now.API, now.After); len(changes) > 0 {
					o.Next.API = &changes[0]
				}
			}
		}
		ended = append(ended, o)
	}
	return ended
}

// outcomeOf has the numbers of nodes of this moment.
func outcomeOf(e evaluation, r v1alpha1.RolloutRecord) v1alpha1.RolloutOutcome {
	total := classifyFor(e.Facts, r.Target()).Total
	o := v1alpha1.RolloutOutcome{
		Requester: r.Requester, Config: r.Config, Secrets: r.Secrets, Before: r.Before,
		Result: v1alpha1.RolloutSuperseded, Nodes: total.Nodes, Updated: total.Nodes - total.Behind,
		Failed: total.Failed, Began: r.Began, Ended: stamp(e.now), UpdatedBefore: r.UpdatedBefore,
	}
	switch {
	case r.Verdict != "":
		o.Result, o.Back, o.Why, o.Updated = v1alpha1.RolloutResult(r.Verdict), r.Back,
			poolstate.Shorten(r.Why, mostOfOutcome), max(o.Updated, r.Updated)
	case r.Ended != nil || o.Nodes > 0 && total.Healthy == o.Nodes:
		o.Result = v1alpha1.RolloutCompleted
	}
	return o
}

// CountAt counts the nodes of a pool at a point in time, as Next does.
func CountAt(f poolstate.Facts, now time.Time) poolstate.Counts {
	if f.Target.IsZero() {
		return counts(evaluate(f, now), settling{})
	}
	if f.Secrets.Unresolved != "" {
		return poolstate.Count(f)
	}
	p := newPlan(f, now)
	return counts(p.evaluation, p.capacity.settling)
}

func assignmentsOf(p plan) []poolstate.Assignment {
	var out []poolstate.Assignment
	for _, m := range p.assigned.members {
		out = append(out, poolstate.Assignment{
			Node: m.Name, Config: p.Care.NodeConfigs.Own(p.nodes.Target, m.Name),
			Was: p.Care.NodeConfigs.Own(m.Config.Desired, m.Name), DropImage: m.Config.DesiredImage != "" ||
				m.Config.CurrentImage != "",
			Untaint:  m.Tainted,
			Recovery: m.Failing() && m.Candidate != poolstate.CandidateInService,
		})
	}
	return out
}

// marksOf is for nodes without an assignment. Those of a paused pool get no new taints and labels, and are told nothing
// to download.
func marksOf(p plan) poolstate.Marks {
	written := p.assigned.set()
	for _, r := range p.released {
		written[p.nodes.ByName(r.Node)] = true
	}
	return MarksFor(MarkedPool{
		Nodes: p.nodes, Customs: p.Care.Around.Customs, Content: content(p.evaluation),
		Written: func(m *poolstate.Member) bool { return written[m] },
		Frozen:  p.Paused || p.Care.Invalid != "", Stopped: len(p.blockers.stops) > 0,
		Canaries: p.step.policy.Selector != nil, Max: p.capacity.max,
	})
}

// content is downloaded before the assignment; in a reverted pool, that of the config to which it returns.
func content(e evaluation) NextContent {
	return NextContent{
		Needed: e.record.Fetches && e.nodes.Target == e.Target, Images: e.nodes.Target == e.Target,
		Target: e.nodes.Target, Configs: e.Care.NodeConfigs, Now: e.now,
	}
}
