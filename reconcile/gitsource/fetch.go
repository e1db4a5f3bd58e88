package gitsource

import (
	"context"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/source"
)

// The pauses after a failure. firstPause is the first pause between two listings of a remote that does not answer. Each
// further pause is twice as long, up to the interval. retryPause is the pause before the retry of any other failure.
const (
	firstPause = 5 * time.Second
	retryPause = 15 * time.Second
)

// nextPause returns the pause after another failure: twice the last pause, from firstPause up to the interval. If the
// remote asks for a longer pause, nextPause returns that pause.
func nextPause(before, interval time.Duration, failed error) time.Duration {
	return max(min(max(2*before, firstPause), interval), fault.Of(failed, "").After)
}

// failedFetch is a fetch that failed. A fetch may fail although the remote answers listings, so the pauses between
// fetches grow like those between listings.
type failedFetch struct {
	of   fetchKey
	err  error
	at   time.Time
	wait time.Duration
}

// fetchKey has all settings on which the result of a fetch from a remote depends.
type fetchKey struct {
	commit     string
	generation int64
	request    string
	secrets    string
	applied    string
}

func keyOf(src *v1alpha1.GitSource, at candidate) fetchKey {
	return fetchKey{
		at.picked.Hash, src.Generation, src.Annotations[v1alpha1.ReconcileAnnotation], at.repo.secrets,
		at.picked.Applied,
	}
}

// isPermanent reports whether a retry must fail in the same way, because the content and the signature of a commit
// never change.
func (f failedFetch) isPermanent() bool {
	why := fault.Of(f.err, "")
	return why.Kind == fault.Stalled && (why.Reason == v1alpha1.ReasonInvalidTree ||
		why.Reason == v1alpha1.ReasonSignature)
}

// remainingPause returns how long to wait before the next fetch; 0 if no fetch failed.
func (f failedFetch) remainingPause(now time.Time) time.Duration {
	if f.err == nil {
		return 0
	}
	return max(f.at.Add(f.wait).Sub(now), time.Second)
}

// readTree reads a commit's files within the source's timeout.
func readTree(ctx context.Context, src *v1alpha1.GitSource, repo Repository,
	picked source.Picked,
) (source.Tree, error) {
	ctx, cancel := context.WithTimeout(ctx, timeoutOf(src))
	defer cancel()
	return repo.Tree(ctx, picked)
}

// fetch checks the newest commit and reads its files. fetch does not repeat a fetch that failed a short while ago or
// that fails permanently.
func (r *Controller) fetch(ctx context.Context, src *v1alpha1.GitSource,
	at candidate,
) (source.Tree, checkedCommit, error) {
	attempt := failedFetch{of: keyOf(src, at), at: at.now}
	last := r.memory.failedFetch(src.Name)
	same := last.err != nil && last.of == attempt.of
	if same && (last.isPermanent() || at.now.Before(last.at.Add(last.wait))) {
		return source.Tree{}, checkedCommit{}, last.err
	}
	var tree source.Tree
	commit, err := r.memory.check(ctx, src, at)
	if err == nil {
		tree, err = readTree(ctx, src, at.repo, at.picked)
	}
	if err == nil {
		r.memory.failures.Delete(src.Name)
		if at.repo.policy != nil {
			tree.Commit.Signer = commit.signer
		}
		return tree, commit, nil
	}
	if same {
		attempt.wait = last.wait
	}
	attempt.err, attempt.wait = err, nextPause(attempt.wait, kube.PollInterval(src), err)
	r.memory.failures.Store(src.Name, attempt)
	return source.Tree{}, checkedCommit{}, err
}

func timeoutOf(src *v1alpha1.GitSource) time.Duration {
	if d := src.Spec.Timeout.Duration; d > 0 {
		return d
	}
	return time.Minute
}
