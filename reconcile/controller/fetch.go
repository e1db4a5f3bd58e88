package controller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// listing is what a remote said last, and under which question; it spares the remote while only the cluster moved.
type listing struct {
	refs []source.Ref
	err  error
	// at is when it was asked, and wait for how long the answer, or the failure, counts.
	at         time.Time
	wait       time.Duration
	generation int64
	request    string
}

// Pauses after a failure: between two questions to a remote that does not answer, doubling up to the interval; and
// before another try of everything else.
const (
	firstPause = 5 * time.Second
	retryPause = 15 * time.Second
)

// longer is the pause after another failure: twice the one before, from firstPause up to the interval.
func longer(before, interval time.Duration) time.Duration {
	return min(max(2*before, firstPause), interval)
}

// failedFetch is a fetch that failed, and under which question. A remote that answers a listing may fail each fetch: the
// pauses between fetches grow as those between listings do.
type failedFetch struct {
	of   fetchKey
	err  error
	at   time.Time
	wait time.Duration
}

// fetchKey is all that the outcome of a fetch depends on, but for the remote.
type fetchKey struct {
	commit     string
	generation int64
	request    string
	secrets    string
}

// settles reports whether the same question has the same answer for ever: what a commit holds and who signed it never changes.
func (f failedFetch) settles() bool {
	why := fault.Of(f.err, "")
	return why.Kind == fault.Stalled && (why.Reason == v1alpha1.ReasonInvalidTree || why.Reason == v1alpha1.ReasonSignature)
}

// pauseAt is how long not to fetch from now on; 0 where no fetch failed.
func (f failedFetch) pauseAt(now time.Time) time.Duration {
	if f.err == nil {
		return 0
	}
	return max(f.at.Add(f.wait).Sub(now), time.Second)
}

func (r *Source) failedFetch(name string) failedFetch {
	if v, ok := r.failed.Load(name); ok {
		return v.(failedFetch)
	}
	return failedFetch{}
}

// readTree reads a commit's files within the source's timeout.
func readTree(ctx context.Context, src *v1alpha1.GitSource, repo Repository, picked source.Picked) (source.Tree, error) {
	ctx, cancel := context.WithTimeout(ctx, timeoutOf(src))
	defer cancel()
	return repo.Tree(ctx, picked)
}

// fetch reads the files of the newest commit, unless the same fetch failed a short while ago, or is known to fail each time.
func (r *Source) fetch(ctx context.Context, src *v1alpha1.GitSource, at fetched) (source.Tree, error) {
	now := failedFetch{of: fetchKey{at.picked.Hash, src.Generation, src.Annotations[v1alpha1.ReconcileAnnotation], at.repo.secrets}, at: at.now}
	last := r.failedFetch(src.Name)
	same := last.err != nil && last.of == now.of
	if same && (last.settles() || at.now.Before(last.at.Add(last.wait))) {
		return source.Tree{}, last.err
	}
	tree, err := readTree(ctx, src, at.repo, at.picked)
	if err == nil {
		r.failed.Delete(src.Name)
		return tree, nil
	}
	if same {
		now.wait = last.wait
	}
	now.err, now.wait = err, longer(now.wait, intervalOf(src))
	r.failed.Store(src.Name, now)
	return source.Tree{}, err
}

// digest tells Secrets apart without holding them.
func (s Secrets) digest() string {
	h := sha256.New()
	for _, data := range []map[string][]byte{s.Credentials, s.Keys} {
		for _, key := range slices.Sorted(maps.Keys(data)) {
			fmt.Fprintf(h, "%d:%s=%d:%s,", len(key), key, len(data[key]), data[key])
		}
		fmt.Fprint(h, ";")
	}
	return hex.EncodeToString(h.Sum(nil))
}

// turns lets so many work at a time as its buffer holds; a nil one lets all.
type turns chan struct{}

// take waits for a turn.
func (t turns) take(ctx context.Context) error {
	if t == nil {
		return nil
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for other sources to be applied: %w", context.Cause(ctx))
	}
}

// give ends a turn.
func (t turns) give() {
	if t != nil {
		<-t
	}
}

// listings are the last listings of the repositories.
type listings struct {
	sync.Map // GitSource name → listing
	// first is sent to after the first listing of a repository; nil: nobody waits for it.
	first chan struct{}
}

// put stores the last listing of a source.
func (l *listings) put(name string, asked listing) {
	if _, known := l.Swap(name, asked); known {
		return
	}
	select {
	case l.first <- struct{}{}:
	default: // the heartbeat has yet to take the one before
	}
}

// list asks the remote, unless it was asked a short while ago about this very spec and request: within the interval
// where it answered, within a pause that grows up to the interval where it did not.
func (r *Source) list(ctx context.Context, repo Repository, src *v1alpha1.GitSource, now time.Time) ([]source.Ref, error) {
	asked := listing{at: now, generation: src.Generation, request: src.Annotations[v1alpha1.ReconcileAnnotation], wait: intervalOf(src)}
	last := r.listing(src)
	same := last.generation == asked.generation && last.request == asked.request
	if same && now.Before(last.at.Add(last.wait)) {
		return last.refs, last.err
	}
	ctx, cancel := context.WithTimeout(ctx, timeoutOf(src))
	defer cancel()
	asked.refs, asked.err = repo.List(ctx)
	if asked.err != nil {
		asked.err = fault.Of(asked.err, v1alpha1.ReasonUnreachable)
		failedBefore := time.Duration(0)
		if same && last.err != nil {
			failedBefore = last.wait
		}
		asked.wait = longer(failedBefore, asked.wait)
	}
	r.listings.put(src.Name, asked)
	return asked.refs, asked.err
}

// listing is the last one, or the zero value before the first.
func (r *Source) listing(src *v1alpha1.GitSource) listing {
	if v, ok := r.listings.Load(src.Name); ok {
		return v.(listing)
	}
	return listing{}
}

// next is when to look again by itself; a request, a changed spec and changed objects come sooner by their events.
func (r *Source) next(src *v1alpha1.GitSource, failed error, now time.Time) time.Duration {
	if src.Spec.Suspend {
		return 0
	}
	wait := intervalOf(src)
	spread := wait // of the pause, not of the interval: a look that is due in seconds must not come in minutes
	last := r.listing(src)
	if !last.at.IsZero() {
		wait, spread = max(last.at.Add(last.wait).Sub(now), time.Second), last.wait
	}
	if failed != nil && last.err == nil && fault.Of(failed, "").Kind == fault.Retry {
		pause := r.failedFetch(src.Name).pauseAt(now)
		if pause == 0 {
			pause = retryPause
		}
		wait, spread = min(wait, pause), min(wait, pause)
	}
	return wait + source.Jitter(spread, src.Name+src.Status.ObservedRevision)
}

func intervalOf(src *v1alpha1.GitSource) time.Duration {
	if d := src.Spec.Interval.Duration; d > 0 {
		return max(d, 5*time.Second)
	}
	return time.Minute
}

func timeoutOf(src *v1alpha1.GitSource) time.Duration {
	if d := src.Spec.Timeout.Duration; d > 0 {
		return d
	}
	return time.Minute
}
