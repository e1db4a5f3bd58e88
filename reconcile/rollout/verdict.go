package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// court is a decision that judges the rollout by its nodes.
type court struct{ *decision }

// sentence ends the rollout where too many nodes failed the target, or a job did, and notes where every node was well with
// it. Such a config is not at fault where a node fails it later, so no verdict falls on it; the node keeps its place in the
// budget.
func (d court) sentence() {
	r := &d.record
	if r.Ended == nil && r.Verdict != v1alpha1.RolloutReverted && d.allWell() {
		at := stamp(d.now)
		*r = v1alpha1.RolloutRecord{Config: r.Config, Requester: r.Requester, Began: r.Began, UpdatedBefore: r.UpdatedBefore, Steps: r.Steps, Healthy: r.Config, Ended: &at} // a halt is over with that, too
	}
	if r.Verdict != "" {
		return
	}
	d.remind()
	if d.settled() {
		return
	}
	end := d.failure()
	if end.Verdict == "" {
		return
	}
	end.Updated = d.m.tally.of(updated)
	r.RolloutEnd, r.WellSince, r.Forgiven = end, nil, nil
	if d.f.Care.Pace.Failures.Action == v1alpha1.FailureRevert && d.f.Care.Healthy != "" && r.Healthy != "" {
		r.Verdict, r.Back = v1alpha1.RolloutReverted, r.Healthy
	}
	at := stamp(d.now)
	if d.f.Care.RetryAt.After(at.Time) { // the clock was set back, or the asker's runs ahead: what he asked for was done
		at = *stampUp(d.f.Care.RetryAt)
	}
	r.At = &at
}

// allWell tells that there are nodes, and that all of them run the target and are well with it, as their gates say.
func (d court) allWell() bool {
	n := d.m.Len()
	return n > 0 && d.m.tally.of(well) == n && accounts(d).settling().held == 0
}

// failure halts the rollout where a job or too many nodes failed; the zero value where they did not.
func (d court) failure() v1alpha1.RolloutEnd {
	for _, g := range d.f.Care.Gates {
		if g.Verdict == GateFailed {
			return v1alpha1.RolloutEnd{Verdict: v1alpha1.RolloutHalted, Why: "gate " + g.Name + " failed" + quoted(g.Why, mostOfWhy)}
		}
	}
	guilty := slices.DeleteFunc(d.failures(), d.forgiven)
	after := d.f.Care.Pace.Failures.After
	if after < 1 || len(guilty) < after {
		return v1alpha1.RolloutEnd{}
	}
	end := v1alpha1.RolloutEnd{Verdict: v1alpha1.RolloutHalted}
	var texts []string
	for _, s := range guilty[:min(len(guilty), named)] {
		failed := v1alpha1.FailedNode{Node: s.Name, Why: words{d: d.decision, stable: true, most: mostOfWhy}.doing(&s.Node)}
		if !s.Failing() {
			failed.Cause = v1alpha1.FailureLost
			failed.Why += fmt.Sprintf(", longer than %s", short(d.f.Care.Pace.Failures.NodeDeadline))
		} else if s.Failure.Config == s.Config.Desired {
			failed.Cause = s.Failure.Cause
		}
		end.Failed, texts = append(end.Failed, failed), append(texts, s.Name+" "+failed.Why)
	}
	if more := len(guilty) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	end.Why = strings.Join(texts, "; ")
	return end
}

// failures are the nodes that failed the target, by name.
func (d court) failures() []*seat {
	var failed []*seat
	for _, s := range d.m.in(out) {
		if s.kind&told == 0 {
			continue
		}
		switch deadline := d.f.Care.Pace.Failures.NodeDeadline; {
		case s.Step.Draining: // its pods hold it up, and it has not tried the config yet
		case s.kind&failedThis != 0:
			failed = append(failed, s)
		case deadline > 0 && d.lostSince(s):
			if age(d.now, s.Health.Since) > deadline {
				failed = append(failed, s)
			} else {
				d.wakeAt(s.Health.Since.Add(deadline + time.Second))
			}
		}
	}
	return failed
}

// lostSince tells that a node that was told the target has not been well since a moment after the rollout began. What ailed
// it before is not the config's doing.
func (d court) lostSince(s *seat) bool {
	h := s.Health
	return h.Trouble != "" && !h.Since.IsZero() && !h.Since.Before(d.record.Began.Time)
}
