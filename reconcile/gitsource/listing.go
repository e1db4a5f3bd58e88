package gitsource

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/source"
)

// listing is the last answer of a remote, and the state of the GitSource at that time. If only objects of the cluster
// change, the controller does not list the remote again.
type listing struct {
	// picked is the commit to follow, and pickErr why there is none. The refs are not stored, because a server decides
	// how many it has.
	picked  source.Picked
	pickErr error
	err     error
	// at is when the remote was listed. wait is how long the answer, or the failure, is valid.
	at         time.Time
	wait       time.Duration
	generation int64
	request    string
	push       string
	// awaits is true if the repository has not listed an announced commit yet.
	awaits bool
	// polled is when the controller asked the remote. at is earlier if it used the listing of another source.
	polled time.Time
}

// list picks the commit to follow from the refs of the remote. It lists the remote, unless the last listing for the
// same spec, request and announced push is still valid. An answer is valid for the interval, and a failure for a pause
// that grows up to the interval.
func (r *Controller) list(ctx context.Context, repo Repository, src *v1alpha1.GitSource,
	now time.Time,
) (source.Picked, error) {
	next := listing{
		at: now, generation: src.Generation, request: src.Annotations[v1alpha1.ReconcileAnnotation],
		push: pushKey(src), wait: kube.PollInterval(src), polled: now,
	}
	last := r.memory.listing(src.Name)
	same := last.generation == next.generation && last.request == next.request && last.push == next.push
	if same && now.Before(last.at.Add(last.wait)) {
		return last.answer()
	}
	if last.generation == next.generation && last.request == next.request && last.pushPause(next.push, now) > 0 {
		return last.answer() // nextPoll polls after the pause.
	}
	ctx, cancel := context.WithTimeout(ctx, timeoutOf(src))
	defer cancel()
	found, err := repo.List(ctx, source.Poll{
		Source: src.Name, Now: now, Interval: next.wait,
		NotBefore: notBefore(src, last, same, now),
	})
	next.err = err
	if err == nil {
		next.at = found.At
		next.picked, next.pickErr = source.Pick(found.Refs, src.Spec.Ref)
	}
	if next.err != nil {
		next.err = fault.Of(next.err, v1alpha1.ReasonUnreachable)
		failedBefore := time.Duration(0)
		if same && last.err != nil {
			failedBefore = last.wait
		}
		next.wait = nextPause(failedBefore, next.wait, next.err)
	} else if pause, waits := awaitPush(src.Status.LastPush, found.Refs, now); waits {
		next.wait, next.awaits = min(next.wait, pause), true
	}
	if _, listedBefore := r.memory.listings.Swap(src.Name, next); !listedBefore {
		select {
		case r.FirstListing <- struct{}{}:
		default: // The channel is full: the heartbeat has not received the previous listing yet.
		}
	}
	return next.answer()
}

// answer returns the commit to follow.
func (l listing) answer() (source.Picked, error) {
	if l.err != nil {
		return source.Picked{}, l.err
	}
	return l.picked, l.pickErr
}

// notBefore returns the earliest time at which a listing of another source may have begun so that a poll may use it.
// After a change of the spec, a request of a user or an announced push, only a new listing counts, because an earlier
// listing may lack the newest push. The parameter same means that spec, request and announced push are those of the
// last poll. If there was no last poll, notBefore compares the spec and the requests with the status.
func notBefore(src *v1alpha1.GitSource, last listing, same bool, now time.Time) time.Time {
	isFirst := last.at.IsZero()
	handled := src.Status.ObservedGeneration == src.Generation &&
		src.Status.LastHandledReconcileAt == src.Annotations[v1alpha1.ReconcileAnnotation]
	switch {
	case !isFirst && same && !last.awaits:
		return last.at.Add(1)
	case isFirst && handled && !isRecent(src.Status.LastPush, now):
		return time.Time{}
	}
	return now
}

// awaitPush returns the pause until the next listing, and true, if the repository does not list an announced commit
// yet. The pauses grow with the age of the push, so the controller lists the repository about eight times.
func awaitPush(p *v1alpha1.AnnouncedPush, refs []source.Ref, now time.Time) (time.Duration, bool) {
	if p == nil || p.Ref == "" || p.Commit == "" || !isRecent(p, now) {
		return 0, false
	}
	for _, r := range refs {
		if r.Name == p.Ref && (r.Hash == p.Commit || r.Commit() == p.Commit) {
			return 0, false
		}
	}
	return max(time.Second, now.Sub(p.Received.Time)/2), true
}

// nextPoll returns when a source is due for its next reconciliation without an event. A request of a user, a changed
// spec or a changed object triggers an earlier reconciliation.
func (r *Controller) nextPoll(src *v1alpha1.GitSource, failed error, now time.Time) time.Duration {
	if src.Spec.IsSuspended(now) {
		if until := src.Spec.SuspendUntil; until != nil {
			return until.Sub(now)
		}
		return 0
	}
	if pause := r.memory.listing(src.Name).pushPause(pushKey(src), now); pause > 0 {
		return pause
	}
	wait := kube.PollInterval(src)
	// The spread is a part of the pause, not of the interval, because a poll that is due in seconds must not wait for
	// minutes.
	spread := wait
	last := r.memory.listing(src.Name)
	if !last.at.IsZero() {
		wait, spread = max(last.at.Add(last.wait).Sub(now), time.Second), last.wait
	}
	why := fault.Of(failed, "")
	isSoon := failed != nil && (why.Kind == fault.Retry || why.Reason == v1alpha1.ReasonRepositoryDamaged ||
		errors.As(failed, new(noSecretError)))
	if isSoon && last.err == nil {
		pause := r.memory.failedFetch(src.Name).remainingPause(now)
		if pause == 0 {
			pause = retryPause
		}
		wait, spread = min(wait, pause), min(wait, pause)
	}
	return wait + source.Jitter(spread, src.Name+src.Status.ObservedRevision)
}

// pushPause returns how long the poll for an announced push waits after the last poll; 0 if the push was polled for or
// need not wait.
func (l listing) pushPause(push string, now time.Time) time.Duration {
	if push == l.push || l.polled.IsZero() {
		return 0
	}
	return min(pushPause, max(0, l.polled.Add(pushPause).Sub(now)))
}

// report returns the listing in the form that the controller's heartbeat reports.
func (l listing) report() v1alpha1.SourceLook {
	const maxProblem = 500
	out := v1alpha1.SourceLook{At: metav1.NewTime(l.at)}
	if l.err != nil {
		text := []rune(l.err.Error())
		out.Problem = string(text[:min(len(text), maxProblem)])
	}
	return out
}

// LastListings returns the last listing of each repository, by the name of the GitSource.
func (r *Controller) LastListings() map[string]v1alpha1.SourceLook { return r.memory.lastListings() }

// maxPushWait is how long the controller polls more often because the repository has not listed an announced commit
// yet.
const maxPushWait = 2 * time.Minute

// pushKey identifies the last announced push of a source; empty if there is none.
func pushKey(src *v1alpha1.GitSource) string {
	p := src.Status.LastPush
	if p == nil {
		return ""
	}
	return p.Received.UTC().Format(time.RFC3339Nano) + " " + p.Ref + " " + p.Commit
}

// pushPause is the shortest time between two polls that announced pushes cause. Whoever can send requests of a webhook
// again causes no more polls.
const pushPause = time.Second

// isRecent reports whether a push was announced less than maxPushWait ago.
func isRecent(p *v1alpha1.AnnouncedPush, now time.Time) bool {
	return p != nil && now.Sub(p.Received.Time).Abs() <= maxPushWait
}
