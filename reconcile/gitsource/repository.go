package gitsource

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/verify"
)

// Repository is the repository of one GitSource. source/repository.Repository implements it.
type Repository interface {
	// List returns the refs of the repository, at least those that the spec needs, and when their listing began. The
	// listing may be that of another source with the same address and the same credentials.
	List(ctx context.Context, poll source.Poll) (source.Listing, error)
	// Evidence returns the objects of the commits that a commit adds to picked.Applied, and the relation of both
	// commits. It fetches no files.
	Evidence(ctx context.Context, picked source.Picked) (source.Evidence, error)
	// Tree returns the files of a commit below the source's path, from the disk if the commit was fetched before.
	Tree(ctx context.Context, picked source.Picked) (source.Tree, error)
}

// Open creates a Repository without a request to the remote. Only a repository of OCI artifacts checks signatures
// itself.
type Open func(spec v1alpha1.GitSourceSpec, secrets source.Secrets) (Repository, error)

// opened is a repository with the digest of the Secrets that its requests use, and with the policy for signatures; a
// nil policy requires none.
type opened struct {
	Repository
	secrets string
	policy  *verify.Policy
}

// repository connects to the repository of a source, with the Secrets that its spec names.
func (r *Controller) repository(ctx context.Context, src *v1alpha1.GitSource) (opened, error) {
	var secrets source.Secrets
	var policy *verify.Policy
	var err error
	if ref := src.Spec.SecretRef; ref != nil {
		if secrets.Credentials, err = r.readSecret(ctx, ref.Name, v1alpha1.ReasonAuthentication); err != nil {
			return opened{}, err
		}
	}
	if ref := src.Spec.ProxySecretRef; ref != nil {
		if secrets.Proxy, err = r.readSecret(ctx, ref.Name, v1alpha1.ReasonAuthentication); err != nil {
			return opened{}, err
		}
		if secrets.Proxy == nil {
			// An empty Secret of a proxy must be an error, and not lead to a direct connection.
			secrets.Proxy = map[string][]byte{}
		}
	}
	if v := src.Spec.Verify; v != nil {
		if secrets.Keys, err = r.readSecret(ctx, v.SecretRef.Name, v1alpha1.ReasonSignature); err != nil {
			return opened{}, err
		}
		if !source.IsArtifact(src.Spec) {
			required, err := verify.ParsePolicy(*v, src.Spec.Ref, secrets.Keys)
			if err != nil {
				return opened{}, err
			}
			policy = &required
		}
	}
	repo, err := r.Open(src.Spec, secrets)
	if err != nil {
		return opened{}, fault.Of(err, v1alpha1.ReasonInvalidSpec)
	}
	return opened{repo, digestOf(secrets), policy}, nil
}

// readSecret reads a Secret. The parameter reason is the reason of the returned failure.
func (r *Controller) readSecret(ctx context.Context, name, reason string) (map[string][]byte, error) {
	var s corev1.Secret
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, &s)
	if apierrors.IsNotFound(err) { // A user has to create it.
		return nil, fault.NewStalled(reason, noSecretError{r.Namespace, name})
	}
	if err != nil {
		return nil, fault.NewRetry(reason, fmt.Errorf("reading Secret %s/%s: %w", r.Namespace, name, err))
	}
	return s.Data, nil
}

// noSecretError says that a user has to create a Secret, of which the controller gets no event.
type noSecretError struct{ namespace, name string }

func (e noSecretError) Error() string { return "there is no Secret " + e.namespace + "/" + e.name }

// digestOf identifies Secrets without storing them.
func digestOf(s source.Secrets) string {
	h := sha256.New()
	for _, data := range []map[string][]byte{s.Credentials, s.Keys, s.Proxy} {
		for _, key := range slices.Sorted(maps.Keys(data)) {
			fmt.Fprintf(h, "%d:%s=%d:%s,", len(key), key, len(data[key]), data[key])
		}
		fmt.Fprint(h, ";")
	}
	return hex.EncodeToString(h.Sum(nil))
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
	last := r.memory.listings.of(src.Name)
	same := last.generation == next.generation && last.request == next.request && last.push == next.push
	if same && now.Before(last.at.Add(last.wait)) {
		return last.answer()
	}
	if last.generation == next.generation && last.request == next.request && last.pushPause(next.push, now) > 0 {
		return last.answer() // nextPoll polls after the pause.
	}
	limited, cancel := context.WithTimeout(ctx, timeoutOf(src))
	defer cancel()
	found, err := repo.List(limited, source.Poll{
		Source: src.Name, Now: now, Interval: next.wait,
		NotBefore: notBefore(src, last, same, now),
	})
	if err != nil && ctx.Err() != nil {
		return source.Picked{}, err // Nobody waits for the answer any more, which says nothing about the repository.
	}
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
	if pause := r.memory.listings.of(src.Name).pushPause(pushKey(src), now); pause > 0 {
		return pause
	}
	wait := kube.PollInterval(src)
	// The spread is a part of the pause, not of the interval, because a poll that is due in seconds must not wait for
	// minutes.
	spread := wait
	last := r.memory.listings.of(src.Name)
	if !last.at.IsZero() {
		wait, spread = max(last.at.Add(last.wait).Sub(now), time.Second), last.wait
	}
	why := fault.Of(failed, "")
	isSoon := failed != nil && (why.Kind == fault.Retry || why.Reason == v1alpha1.ReasonRepositoryDamaged ||
		errors.As(failed, new(noSecretError)))
	if isSoon && last.err == nil {
		pause := r.memory.failures.of(src.Name).remainingPause(now)
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
func (r *Controller) LastListings() map[string]v1alpha1.SourceLook {
	out := map[string]v1alpha1.SourceLook{}
	r.memory.listings.Range(func(name, value any) bool {
		out[name.(string)] = value.(listing).report()
		return true
	})
	return out
}

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

// fetch checks the newest commit and reads its files. fetch does not repeat a fetch that failed a short while ago or
// that fails permanently.
func (r *Controller) fetch(ctx context.Context, src *v1alpha1.GitSource,
	at candidate,
) (source.Tree, checkedCommit, error) {
	attempt := failedFetch{of: keyOf(src, at), at: at.now}
	last := r.memory.failures.of(src.Name)
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
	if ctx.Err() != nil { // As in list.
		return source.Tree{}, checkedCommit{}, err
	}
	if same {
		attempt.wait = last.wait
		err = damagedAgain(last.err, err)
	}
	attempt.err, attempt.wait = err, nextPause(attempt.wait, kube.PollInterval(src), err)
	r.memory.failures.Store(src.Name, attempt)
	return source.Tree{}, checkedCommit{}, err
}

// damagedAgain returns the error of a fetch. If this fetch and the one before it found the repository damaged, only a
// person can repair it. A single such fetch may have met a repository that was being repacked, or a damaged copy of its
// objects on this machine, which is fetched anew.
func damagedAgain(before, err error) error {
	isDamage := func(err error) bool { return fault.Of(err, "").Reason == v1alpha1.ReasonRepositoryDamaged }
	if !isDamage(before) || !isDamage(err) {
		return err
	}
	return fault.NewStalled(v1alpha1.ReasonRepositoryDamaged, err)
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

// checkedCommit is a commit whose signatures and history the controller has checked. The result of a check is valid for
// one interval of the source, because keys expire.
type checkedCommit struct {
	of     fetchKey
	at     time.Time
	signer string
	source.Descent
}

// check checks the signatures of a commit and reads its history, before any file is fetched. check sends no request if
// the spec requires neither signatures nor a check of the history.
func (m *memory) check(ctx context.Context, src *v1alpha1.GitSource, at candidate) (checkedCommit, error) {
	out := checkedCommit{of: keyOf(src, at), at: at.now}
	isApplied := at.picked.Applied == at.picked.Hash
	switch last := m.checks.of(src.Name); {
	case last.of == out.of && at.now.Before(last.at.Add(kube.PollInterval(src))):
		return last, nil
	case isApplied && src.Status.AppliedGeneration == src.Generation && src.Status.AppliedCommit != nil &&
		(at.repo.policy == nil) == (src.Status.AppliedCommit.VerifiedBy == ""):
		// The applied commit stays in force, even if its key has expired.
		out.signer = src.Status.AppliedCommit.VerifiedBy
		return out, nil
	case at.repo.policy == nil &&
		(isApplied || at.picked.Applied == "" || src.Spec.HistoryPolicy == v1alpha1.HistoryAllow):
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeoutOf(src))
	defer cancel()
	evidence, err := at.repo.Evidence(ctx, at.picked)
	if err != nil {
		return checkedCommit{}, err
	}
	out.Descent = evidence.Descent
	if at.repo.policy != nil {
		if out.signer, err = at.repo.policy.Check(evidence, at.now); err != nil {
			return checkedCommit{}, fmt.Errorf("verifying %s: %w", at.picked.Revision().Short(), err)
		}
	}
	m.checks.Store(src.Name, out)
	return out, nil
}

// readTree reads a commit's files within the source's timeout.
func readTree(ctx context.Context, src *v1alpha1.GitSource, repo Repository,
	picked source.Picked,
) (source.Tree, error) {
	ctx, cancel := context.WithTimeout(ctx, timeoutOf(src))
	defer cancel()
	return repo.Tree(ctx, picked)
}

func timeoutOf(src *v1alpha1.GitSource) time.Duration {
	if d := src.Spec.Timeout.Duration; d > 0 {
		return d
	}
	return time.Minute
}

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

// memory is the state of the sources between reconciliations. If this state is lost, the controller sends more
// requests.
type memory struct {
	listings bySource[listing]
	warnings bySource[appliedWarnings]
	// failures are the last fetches that failed.
	failures bySource[failedFetch]
	checks   bySource[checkedCommit]
}

// bySource has one value for each GitSource, by its name.
type bySource[T any] struct{ sync.Map }

// of returns the value of a source; the zero value if it has none.
func (m *bySource[T]) of(source string) T {
	v, _ := m.Load(source)
	value, _ := v.(T)
	return value
}

// appliedWarnings are the warnings about the applied revision, which stay in the GitSource's status.
type appliedWarnings struct {
	revision string
	warnings []string
}

// forget removes the state of a deleted source.
func (m *memory) forget(name string) {
	m.listings.Delete(name)
	m.warnings.Delete(name)
	m.failures.Delete(name)
	m.checks.Delete(name)
}
