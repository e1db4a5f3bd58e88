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

	listings listings
	known    sync.Map // GitSource name → known
	failed   sync.Map // GitSource name → failedFetch
	// turns bounds how many sources are transpiled and applied at a time. Who waits for a remote holds none.
	turns turns
}

// known are the warnings of the revision in force, which stay in the status. Losing them costs one more pass over the tree.
type known struct {
	revision string
	warnings []string
}

// Reconcile looks at one GitSource.
func (r *Source) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	src := &v1alpha1.GitSource{}
	if err := r.Client.Get(ctx, req.NamespacedName, src); err != nil {
		r.listings.Delete(req.Name)
		r.known.Delete(req.Name)
		r.failed.Delete(req.Name)
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
	r.advance(ctx, src, fetched{repo, picked, now}, out)
}

// fetched is a commit of a repository, and when it was asked for.
type fetched struct {
	repo   opened
	picked source.Picked
	now    time.Time
}

// advance fetches one commit and applies it, or says why not.
func (r *Source) advance(ctx context.Context, src *v1alpha1.GitSource, at fetched, out *status.SourceFacts) {
	tree, err := r.fetch(ctx, src, at)
	if err != nil {
		out.Err = err
		return
	}
	if out.Err = r.turns.take(ctx); out.Err != nil {
		return
	}
	defer r.turns.give()
	c := tree.Commit
	out.Tried = &v1alpha1.CommitInfo{Revision: out.Observed, Subject: c.Subject, Author: c.Author, Time: metav1.NewTime(c.Time), VerifiedBy: c.Signer}
	rewritten, err := checkHistory(ctx, src, at.repo, at.picked)
	if err != nil {
		out.Err = err
		return
	}
	res, err := r.Transpiler.FragmentsUntil(tree, ctx.Err)
	if err != nil {
		out.Err = fmt.Errorf("transpiling %s: %w", tree.Commit.Revision().Short(), err)
		return
	}
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

func listPools(ctx context.Context, c client.Reader) ([]mcfgv1.MachineConfigPool, error) {
	var list mcfgv1.MachineConfigPoolList
	if err := c.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing MachineConfigPools: %w", err)
	}
	return list.Items, nil
}

// opened is a repository, and the digest of the Secrets with which it is reached.
type opened struct {
	Repository
	secrets string
}

func (r *Source) repository(ctx context.Context, src *v1alpha1.GitSource) (opened, error) {
	var secrets Secrets
	var err error
	if ref := src.Spec.SecretRef; ref != nil {
		if secrets.Credentials, err = r.secret(ctx, ref.Name, v1alpha1.ReasonAuthentication); err != nil {
			return opened{}, err
		}
	}
	if v := src.Spec.Verify; v != nil {
		if secrets.Keys, err = r.secret(ctx, v.SecretRef.Name, v1alpha1.ReasonSignature); err != nil {
			return opened{}, err
		}
	}
	repo, err := r.Open(src.Spec, secrets)
	if err != nil {
		return opened{}, fault.Of(err, v1alpha1.ReasonInvalidSpec)
	}
	return opened{repo, secrets.digest()}, nil
}

func (r *Source) secret(ctx context.Context, name, reason string) (map[string][]byte, error) {
	var s corev1.Secret
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, &s); err != nil {
		return nil, fault.NewRetry(reason, fmt.Errorf("reading Secret %s/%s: %w", r.Namespace, name, err))
	}
	return s.Data, nil
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
	tree, err := readTree(ctx, src, repo, source.Picked{Ref: at.Ref, Hash: at.Hash})
	if err != nil {
		return revision.Content{}, err
	}
	res, err := r.Transpiler.FragmentsUntil(tree, ctx.Err)
	if err != nil {
		return revision.Content{}, fmt.Errorf("transpiling %s: %w", at.Short(), err)
	}
	content, _, err := contentOf(res)
	return content, err
}
