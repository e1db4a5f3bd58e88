package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/revision"
	"github.com/bunsen-os/bunsen/reconcile/status"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// Repository is one remote repository, as a GitSource describes it.
type Repository interface {
	// List returns the remote's refs; it costs one ref listing.
	List(ctx context.Context) ([]source.Ref, error)
	// Tree returns the files of a commit below the source's path; a commit that was fetched before costs no network.
	Tree(ctx context.Context, picked source.Picked) (source.Tree, error)
	// Descends tells whether the commit newer has older among its ancestors, as far as that is known.
	Descends(ctx context.Context, older, newer string) (source.Descent, error)
}

// Secrets are the contents of the Secrets that a spec names; nil where it names none.
type Secrets struct {
	// Credentials for the remote, and Keys whose signature commits must bear.
	Credentials, Keys map[string][]byte
}

// Open makes a Repository. It touches nothing yet.
type Open func(spec v1alpha1.GitSourceSpec, secrets Secrets) (Repository, error)

// Source follows repositories.
//
// Reads: GitSource, Secret, the remote, MachineConfig, MachineConfigPool
// Writes: RevisionContent, GitSource.status.applying, then fragments as MachineConfig objects and the objects of cluster/ (server-side apply), GitSource.status last
type Source struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Live reads past the cache, so that the controller keeps no Secret in memory.
	Live client.Reader
	// Applier writes to the cluster what the repository has.
	Applier *Applier
	// Open connects to repositories.
	Open Open
	// Transpiler turns trees into fragments and remembers what it made.
	Transpiler *transpile.Transpiler
	// Namespace holds the Secrets.
	Namespace string
	// Now is the clock.
	Now func() time.Time
	// Events tells people.
	Events Events

	listings sync.Map // GitSource name → listing
	known    sync.Map // GitSource name → known
}

// known are the warnings of the revision in force, which stay in the status. Losing them costs one more pass over the tree.
type known struct {
	revision string
	warnings []string
}

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

// Reconcile looks at one GitSource.
func (r *Source) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	src := &v1alpha1.GitSource{}
	if err := r.Client.Get(ctx, req.NamespacedName, src); err != nil {
		r.listings.Delete(req.Name)
		r.known.Delete(req.Name)
		r.Applier.Forget(req.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	now := r.Now()
	facts := r.follow(ctx, src, now)
	if apierrors.IsConflict(facts.Err) {
		return reconcile.Result{}, facts.Err // the GitSource that was read is an old one
	}
	pools, err := listPools(ctx, r.Client)
	if err != nil {
		return reconcile.Result{}, err
	}
	facts.Warnings = append(facts.Warnings, unrendered(pools)...)
	before := src.DeepCopy()
	src.Status = status.Source(before.Status, facts, now)
	applied := src.Status.AppliedRevision
	src.Status = status.Gave(src.Status, applied, renderedUnder(applied, pools), notRenderedUnder(applied, pools))
	if err := writeStatus(ctx, r.Client, src, before); err != nil {
		return reconcile.Result{}, fmt.Errorf("writing the status of GitSource %q: %w", src.Name, err)
	}
	r.tell(before, src, facts)
	if facts.Applied != nil || facts.Restored {
		if err := dropContents(ctx, r.Client, r.Live, src); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{RequeueAfter: r.next(src, facts.Err, now)}, nil
}

// follow does everything but the last status: list, pick, and where anything differs fetch, transpile and apply. Where that
// fails, the revision in force is restored.
func (r *Source) follow(ctx context.Context, src *v1alpha1.GitSource, now time.Time) status.SourceFacts {
	out := status.SourceFacts{Generation: src.Generation, Suspended: src.Spec.Suspend}
	if !src.Spec.Suspend {
		out.Handled = src.Annotations[v1alpha1.ReconcileAnnotation]
		r.catchUp(ctx, src, now, &out)
	}
	if apierrors.IsConflict(out.Err) || out.Err == nil && !src.Spec.Suspend {
		return out
	}
	restored, err := r.Applier.Restore(ctx, src, out.Err, func() (revision.Content, error) { return r.appliedContent(ctx, src) })
	out.Restored = restored
	if err != nil {
		out.Err = err
	}
	if restored || src.Status.Applying == nil {
		out.Err = namingCommit(src, out)
	}
	return out
}

// catchUp brings the newest commit to the cluster, where it is not there.
func (r *Source) catchUp(ctx context.Context, src *v1alpha1.GitSource, now time.Time, out *status.SourceFacts) {
	repo, err := r.repository(ctx, src)
	if err != nil {
		out.Err = err
		return
	}
	refs, err := r.list(ctx, repo, src, now)
	if err != nil {
		out.Err = err
		return
	}
	picked, err := source.Pick(refs, src.Spec.Ref)
	if err != nil {
		out.Err = err
		return
	}
	out.Observed = picked.Revision().String()
	settled, err := r.settled(ctx, src, out.Observed)
	if err != nil || settled {
		out.Err, out.Warnings = err, r.recall(src.Name).warnings
		return
	}
	r.advance(ctx, src, fetched{repo, picked}, out)
}

// fetched is a commit of a repository.
type fetched struct {
	repo   Repository
	picked source.Picked
}

// advance fetches one commit and applies it, or says why not.
func (r *Source) advance(ctx context.Context, src *v1alpha1.GitSource, at fetched, out *status.SourceFacts) {
	tree, err := fetch(ctx, src, at.repo, at.picked)
	if err != nil {
		out.Err = err
		return
	}
	c := tree.Commit
	out.Tried = &v1alpha1.CommitInfo{Revision: out.Observed, Subject: c.Subject, Author: c.Author, Time: metav1.NewTime(c.Time), VerifiedBy: c.Signer}
	rewritten, err := checkHistory(ctx, src, at.repo, at.picked)
	if err != nil {
		out.Err = err
		return
	}
	res := r.Transpiler.Fragments(tree)
	out.Warnings = warnings(res.Report)
	if rewritten != "" {
		out.Warnings = append(out.Warnings, rewritten)
	}
	if res.Report.Fatal() {
		out.Err = fault.NewStalled(v1alpha1.ReasonTranspileFailed, reportError{res.Report, tree.Commit})
		return
	}
	pools, err := listPools(ctx, r.Client)
	if err != nil {
		out.Err = err
		return
	}
	if err := missingPools(res, pools); err != nil {
		out.Err = fault.NewStalled(v1alpha1.ReasonPoolMissing, err)
		return
	}
	applied, err := r.Applier.Apply(ctx, src, out.Observed, res)
	if err != nil {
		out.Err = err
		return
	}
	r.known.Store(src.Name, known{out.Observed, out.Warnings})
	applied.Commit = *out.Tried
	out.Applied = &applied
}

// fetch reads a commit's files within the source's timeout.
func fetch(ctx context.Context, src *v1alpha1.GitSource, repo Repository, picked source.Picked) (source.Tree, error) {
	ctx, cancel := context.WithTimeout(ctx, timeoutOf(src))
	defer cancel()
	return repo.Tree(ctx, picked)
}

func listPools(ctx context.Context, c client.Reader) ([]mcfgv1.MachineConfigPool, error) {
	var list mcfgv1.MachineConfigPoolList
	if err := c.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing MachineConfigPools: %w", err)
	}
	return list.Items, nil
}

func (r *Source) repository(ctx context.Context, src *v1alpha1.GitSource) (Repository, error) {
	var secrets Secrets
	var err error
	if ref := src.Spec.SecretRef; ref != nil {
		if secrets.Credentials, err = r.secret(ctx, ref.Name, v1alpha1.ReasonAuthentication); err != nil {
			return nil, err
		}
	}
	if v := src.Spec.Verify; v != nil {
		if secrets.Keys, err = r.secret(ctx, v.SecretRef.Name, v1alpha1.ReasonSignature); err != nil {
			return nil, err
		}
	}
	repo, err := r.Open(src.Spec, secrets)
	if err != nil {
		return nil, fault.Of(err, v1alpha1.ReasonInvalidSpec)
	}
	return repo, nil
}

func (r *Source) secret(ctx context.Context, name, reason string) (map[string][]byte, error) {
	var s corev1.Secret
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, &s); err != nil {
		return nil, fault.NewRetry(reason, fmt.Errorf("reading Secret %s/%s: %w", r.Namespace, name, err))
	}
	return s.Data, nil
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
		pause := firstPause
		if same && last.err != nil {
			pause = 2 * last.wait
		}
		asked.wait = min(pause, asked.wait)
	}
	r.listings.Store(src.Name, asked)
	return asked.refs, asked.err
}

// listing is the last one, or the zero value before the first.
func (r *Source) listing(src *v1alpha1.GitSource) listing {
	if v, ok := r.listings.Load(src.Name); ok {
		return v.(listing)
	}
	return listing{}
}

// recall returns what is known of the revision in force.
func (r *Source) recall(name string) known {
	if v, ok := r.known.Load(name); ok {
		return v.(known)
	}
	return known{}
}

// settled reports whether the revision is applied and everything that it put on the cluster is as it was applied.
func (r *Source) settled(ctx context.Context, src *v1alpha1.GitSource, revisionName string) (bool, error) {
	if src.Status.AppliedRevision != revisionName || src.Status.AppliedGeneration != src.Generation ||
		src.Status.AppliedContent == "" || r.recall(src.Name).revision != revisionName {
		return false, nil
	}
	differs, err := r.Applier.differences(ctx, src)
	return err == nil && len(differs) == 0 && src.Status.Applying == nil, err
}

// appliedContent makes the content of the revision in force from the repository again.
func (r *Source) appliedContent(ctx context.Context, src *v1alpha1.GitSource) (revision.Content, error) {
	at, err := source.ParseRevision(src.Status.AppliedRevision)
	if err != nil {
		return revision.Content{}, err
	}
	repo, err := r.repository(ctx, src)
	if err != nil {
		return revision.Content{}, err
	}
	tree, err := fetch(ctx, src, repo, source.Picked{Ref: at.Ref, Hash: at.Hash})
	if err != nil {
		return revision.Content{}, err
	}
	content, _, err := contentOf(r.Transpiler.Fragments(tree))
	return content, err
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
		wait, spread = min(wait, retryPause), retryPause
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
