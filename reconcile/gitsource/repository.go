package gitsource

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/verify"
	"github.com/bunsen-os/bunsen/transpile"
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

// noSecretError says that a user has to create a Secret, of which the controller gets no event.
type noSecretError struct{ namespace, name string }

func (e noSecretError) Error() string { return "there is no Secret " + e.namespace + "/" + e.name }

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
	switch last := m.checkedCommit(src.Name); {
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

// Transpile fetches an earlier revision of a source and transpiles it as when it was applied. The files of the revision
// usually are on disk.
func (r *Controller) Transpile(ctx context.Context, src *v1alpha1.GitSource,
	revision source.Revision,
) (transpile.Result, error) {
	repo, err := r.repository(ctx, src)
	if err != nil {
		return transpile.Result{}, fmt.Errorf("opening the repository of GitSource %q: %w", src.Name, err)
	}
	tree, err := fetchEarlier(ctx, src, repo, revision, r.Now())
	if err != nil {
		return transpile.Result{}, fmt.Errorf("fetching %s: %w", revision.Short(), err)
	}
	res, err := r.Transpiler.FragmentsUntil(tree, ctx.Err)
	if err != nil {
		return transpile.Result{}, fmt.Errorf("transpiling %s: %w", revision.Short(), err)
	}
	if res.Report.Fatal() {
		return transpile.Result{}, fmt.Errorf("transpiling %s: %w", revision.Short(),
			reportError{res.Report, tree.Commit})
	}
	return res, nil
}

// fetchEarlier reads the files of an earlier commit from the disk. If the files are not on disk, fetchEarlier fetches
// the commit by its hash or, if the remote does not serve single commits, with the whole history of its ref.
func fetchEarlier(ctx context.Context, src *v1alpha1.GitSource, repo Repository,
	revision source.Revision, now time.Time,
) (source.Tree, error) {
	picked := source.Picked{Ref: revision.Ref, Hash: revision.Hash}
	tree, err := readTree(ctx, src, repo, picked)
	if err == nil || revision.Ref == "" {
		return tree, err
	}
	limited, cancel := context.WithTimeout(ctx, timeoutOf(src))
	defer cancel()
	listed, listErr := repo.List(limited, source.Poll{
		Source: src.Name, Now: now, Interval: kube.PollInterval(src), NotBefore: now,
	})
	if listErr != nil {
		return source.Tree{}, err
	}
	for _, ref := range listed.Refs {
		if source.ShortRef(ref.Name) == revision.Ref {
			picked.FullName = ref.Name
			return readTree(ctx, src, repo, picked)
		}
	}
	return source.Tree{}, err
}
