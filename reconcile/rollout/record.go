package rollout

import (
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
		*r = v1alpha1.RolloutRecord{Config: d.f.Target, Began: stamp(d.now), Healthy: r.Healthy}
		return
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
	r.Verdict, r.Back, r.Why, r.At, r.WellSince, r.Forgiven = "", "", "", nil, nil, nil
	d.look(d.f.Target)
	court{d}.retry()
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
