package rollout

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// remember makes the record that of the pool's target: one of another config is void, and a verdict is lifted where
// somebody asked to try again after it fell.
func (d *decision) remember() {
	r := &d.record
	if r.Config == "" {
		r.Healthy = d.f.Care.Healthy
	}
	if r.Config != d.f.Target {
		if reachedAllThatReport(d, *r) {
			r.Healthy = r.Config
		}
		*r = v1alpha1.RolloutRecord{Config: d.f.Target, Requester: d.f.Requester, Began: stamp(d.now), Healthy: r.Healthy}
		d.look(d.f.Target)
		r.UpdatedBefore = ranBefore(d.m, d.f.Target)
		r.Healthy = lastGood(d, r.Healthy)
		return
	}
	if r.Verdict != "" { // of an older controller, perhaps; while all goes well, nobody goes back
		r.Healthy = lastGood(d, r.Healthy)
	}
	if r.Began.After(d.now) { // the clock was set back
		r.Began = stamp(d.now)
	}
	if r.Verdict == "" || r.At != nil && !d.f.Care.RetryAt.After(r.At.Time) || d.f.Care.RetryAt.IsZero() {
		return
	}
	if r.Verdict == v1alpha1.RolloutReverted {
		r.Steps = 0 // its nodes went back
	}
	r.RolloutEnd, r.WellSince, r.Forgiven = v1alpha1.RolloutEnd{}, nil, nil
	d.look(d.f.Target)
	court{d}.retry()
}

// ranBefore is how many nodes run a config that becomes the target. A node that failed another config runs its current one.
func ranBefore(m *Members, target string) int {
	n := 0
	for _, s := range m.seats {
		if s.kind&updated != 0 || s.Config.Current == target && s.Failing() {
			n++
		}
	}
	return n
}

// lastGood is the last healthy config that a record names, or, where it names none, the one in use. Finding that looks at every node.
func lastGood(d *decision, recorded string) string {
	if recorded != "" {
		return recorded
	}
	return configInUse(d.m, d.f.Pool, d.f.Target)
}

// configInUse is the config of a pool, other than its target, that most nodes run; of two that as many run, the first by name. It is empty
// where nodes run no such config. It stands in for the last healthy config where no record names one: a deleted pool takes its record with it.
func configInUse(m *Members, pool, target string) string {
	runs := map[string]int{}
	for _, s := range m.seats {
		current := s.Config.Current
		if current == target || !isConfigOf(current, pool) {
			continue
		}
		// A node gets another config only while it runs its current one. A node that should keep its current one has to be healthy.
		if current != s.Config.Desired || s.State == v1alpha1.StateDone && s.Health.Trouble == "" {
			runs[current]++
		}
	}
	most := ""
	for config, n := range runs {
		if n > runs[most] || n == runs[most] && config < most {
			most = config
		}
	}
	return most
}

// isConfigOf reports whether a rendered config is one of the pool, as its name says. A node that joined the pool may still run one of its
// earlier pool.
func isConfigOf(config, pool string) bool {
	hash, ok := strings.CutPrefix(config, "rendered-"+pool+"-")
	return ok && hash != "" && !strings.Contains(hash, "-")
}

// reachedAllThatReport reports whether nodes run the config of a record well, and only nodes whose kubelets are silent do not. It is
// false where the config may be why a node is silent.
func reachedAllThatReport(d *decision, r v1alpha1.RolloutRecord) bool {
	if r.Config == "" || r.Verdict != "" {
		return false
	}
	d.m.look(lens{target: r.Config, goal: r.Config, host: d.f.Host})
	ran := d.m.tally.of(well)
	if ran == 0 {
		return false
	}
	silent := 0
	for _, s := range d.m.in(out) { // a node that is not Ready takes a place
		neverGot := s.kind&told == 0 || !s.Health.Since.IsZero() && s.Health.Since.Before(r.Began.Time)
		if s.Health.Silence != "" && s.kind&updated == 0 && neverGot {
			silent++
		}
	}
	return ran+silent == d.m.Len()
}

// mostOfOutcome is how much of the reason for a verdict the pool's history keeps, in runes.
const mostOfOutcome = 200

// pastOutcome is how the rollout of the pool's record ended, where the decision replaces that by one of another config, or lifts its
// verdict for a retry; else nil.
func pastOutcome(d *decision) *v1alpha1.RolloutOutcome {
	r := d.f.Care.Record
	lifted := r.Verdict != "" && r.At != nil && d.record.Ended == nil && (d.record.Verdict == "" || d.record.At != nil && d.record.At.After(r.At.Time))
	if r.Config == "" || r.Config == d.record.Config && !lifted {
		return nil
	}
	defer d.look(d.target)
	d.m.look(lens{target: r.Config, goal: r.Config, host: d.f.Host})
	o := &v1alpha1.RolloutOutcome{
		Requester: r.Requester, Config: r.Config, Result: v1alpha1.RolloutSuperseded, Nodes: d.m.Len(), Updated: d.m.tally.of(updated), Began: r.Began, Ended: stamp(d.now),
		Failed: d.m.tally.of(failedThis), UpdatedBefore: r.UpdatedBefore,
	}
	switch {
	case r.Ended != nil:
		o.Result, o.Updated, o.Ended = v1alpha1.RolloutCompleted, o.Nodes, *r.Ended
	case r.Verdict != "":
		o.Result, o.Back, o.Why, o.Updated = v1alpha1.RolloutResult(r.Verdict), r.Back, middle(r.Why, mostOfOutcome), max(o.Updated, r.Updated)
		if r.At != nil {
			o.Ended = *r.At
		}
	case o.Nodes > 0 && d.m.tally.of(well) == o.Nodes:
		o.Result = v1alpha1.RolloutCompleted
	}
	return o
}

// settled tells that the target is no news to the pool: it is what the whole pool was well with last, or is by now. Then nothing
// but the budget and the windows says who is next.
func (d *decision) settled() bool {
	return d.f.Target == d.record.Healthy || d.record.Ended != nil
}

// stamp is a time as a record keeps it: in whole seconds.
func stamp(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// stampUp is the first whole second from then on, so that what is counted from it is never too short.
func stampUp(t time.Time) *metav1.Time {
	up := stamp(t.Add(time.Second - 1))
	return &up
}
