package rollout

import (
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// away after a node's name says that only its not being Ready is forgiven: it was not when it was told.
const away = "/away"

// again after a node's name says that somebody asked to try it again after it had failed: nobody else is told before it is
// well, for as long as patience. Whether its failure counts is said by its bare name.
const again = "/again"

// patience is how long after a retry a failure is taken for the one before it, where the daemon does not say which request its
// failure answers.
const patience = 5 * time.Minute

// forgive notes nodes whose failure does not count: they had failed when they were told, or when somebody asked to retry.
func (d court) forgive(names []string) {
	var add []string
	for _, name := range names {
		if !slices.Contains(d.record.Forgiven, name) {
			add = append(add, name)
		}
	}
	if len(add) > 0 {
		d.record.Forgiven = slices.Sorted(slices.Values(slices.Concat(d.record.Forgiven, add)))
	}
}

// retry forgives the nodes that failed the target, since somebody asked to try it again. Those that complain are waited for.
func (d court) retry() {
	var names []string
	for _, s := range d.failures() {
		names = append(names, s.Name)
		if s.kind&failedThis != 0 {
			names = append(names, s.Name+again)
		}
	}
	d.forgive(names)
}

// remind drops the forgiven nodes that were seen otherwise since, or are gone: from now on they count.
func (d court) remind() {
	late := !d.now.Before(patientUntil(d.decision))
	forgiven := slices.Clone(d.record.Forgiven) // as it was, while some are dropped
	otherwise := func(entry string) bool {
		name, mark, _ := strings.Cut(entry, "/")
		s := d.m.seats[name]
		switch {
		case s == nil || s.kind&told == 0:
			return true
		case mark == away[1:]:
			return s.Health.Trouble == ""
		case mark == again[1:]:
			anew := s.kind&failedThis != 0 && !slices.Contains(forgiven, name)
			return late || anew || s.kind&well != 0 || failedAgain(d.decision, s)
		}
		return !s.Failing() && !d.lostSince(s) || (late || failedAgain(d.decision, s)) && slices.Contains(forgiven, name+again)
	}
	if slices.ContainsFunc(forgiven, otherwise) {
		d.record.Forgiven = slices.DeleteFunc(slices.Clone(forgiven), otherwise)
		if len(d.record.Forgiven) == 0 {
			d.record.Forgiven = nil
		}
	}
	if len(retried(d.record)) > 0 {
		d.wakeAt(patientUntil(d.decision))
	}
}

// failedAgain reports whether a node failed the target once more after somebody asked to retry it, as its daemon says.
func failedAgain(d *decision, s *seat) bool {
	asked := d.f.Care.RetryAt
	return s.kind&failedThis != 0 && s.Failure.Config == d.target && s.Failure.Retry != nil && !asked.IsZero() && !s.Failure.Retry.Time.Before(asked)
}

// patientUntil is until when nodes are waited for that somebody asked to try again.
func patientUntil(d *decision) time.Time {
	if d.f.Care.RetryAt.IsZero() {
		return d.record.Began.Add(patience)
	}
	return d.f.Care.RetryAt.Add(patience)
}

// retried are the nodes that failed the target, are tried again, and are not well yet, by name.
func retried(r v1alpha1.RolloutRecord) (names []string) {
	for _, entry := range r.Forgiven {
		if name, is := strings.CutSuffix(entry, again); is {
			names = append(names, name)
		}
	}
	return names
}

// forgiven tells that a node's failure does not count now.
func (d *decision) forgiven(s *seat) bool {
	return slices.Contains(d.record.Forgiven, s.Name) || s.kind&failedThis == 0 && d.wasAway(s)
}

// wasAway tells that a node was not Ready when it was told, and has not been since.
func (d *decision) wasAway(s *seat) bool { return slices.Contains(d.record.Forgiven, s.Name+away) }
