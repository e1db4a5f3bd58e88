package gitsource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	reconcilepools "github.com/bunsen-os/bunsen/reconcile/pools"
	"github.com/bunsen-os/bunsen/reconcile/status"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// Controller follows the repositories of GitSources.
//
// Reads: GitSource, Secret, the remote, MachineConfig, MachineConfigPool
// Writes: RevisionContent, GitSource.status.applying, then fragments as MachineConfig objects and the objects of
// cluster/ (server-side apply), GitSource.status last
type Controller struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Live reads from the API server, so that the process stores no Secret in its cache.
	Live client.Reader
	// Applier writes the objects of a revision.
	Applier *Applier
	// Open connects to repositories.
	Open Open
	// Transpiler turns trees into fragments and caches its results.
	Transpiler *transpile.Transpiler
	// Namespace is the namespace of the Secrets.
	Namespace string
	// Now is the clock.
	Now func() time.Time
	// Events sends events.
	Events kube.Events
	// Slots limits how many sources are transpiled and applied at a time; nil: no limit. A source that waits for its
	// remote uses no slot.
	Slots Slots
	// LookEvery is how often the controller looks for a newer commit while it applies one; 0 means each second.
	LookEvery time.Duration
	// Newer, if set, replaces the look for a newer commit. The channel is closed when there is one, and the controller
	// calls the function at the end of the apply.
	Newer func(src *v1alpha1.GitSource) (<-chan struct{}, func())
	// FirstListing receives a value after the first listing of a repository. FirstListing may be nil.
	FirstListing chan<- struct{}

	memory memory
}

// maxConcurrentSources is how many GitSources wait for their remotes at a time: a remote that does not answer delays
// its own source only.
const maxConcurrentSources = 200

// specOrRequest passes changes of a GitSource by users: changes of its spec and annotations, its creation and its
// deletion. Status writes of the controller must not trigger a reconciliation: a failure whose text varies would cause
// endless retries without a pause. An announced push triggers one, although the webhook receiver writes it to the
// status.
var specOrRequest = predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{},
	predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*v1alpha1.GitSource)
			after, also := e.ObjectNew.(*v1alpha1.GitSource)
			return ok && also && pushKey(before) != pushKey(after)
		},
	})

// SetupWithManager lets the controller reconcile a GitSource after each change of the GitSource, of the objects that it
// owns, and of the pools.
func (r *Controller) SetupWithManager(mgr ctrl.Manager, source reconcile.Reconciler) error {
	owner := handler.EnqueueRequestsFromMapFunc(kube.OwnerSource)
	return ctrl.NewControllerManagedBy(mgr).Named("source").For(&v1alpha1.GitSource{},
		builder.WithPredicates(specOrRequest)).
		Watches(&mcfgv1.MachineConfig{}, owner).
		Watches(&mcfgv1.MachineConfigPool{}, kube.EverySource(r.Client),
			builder.WithPredicates(kube.PoolSettingsChanged(kube.RendersAlike))).
		Watches(&operatorv1.MachineConfiguration{}, owner).
		Watches(&v1alpha1.DriftPolicy{}, owner).
		Watches(&v1alpha1.RolloutPolicy{}, owner).
		Watches(&mcfgv1.PinnedImageSet{}, owner).
		WithOptions(controller.Options{MaxConcurrentReconciles: maxConcurrentSources}).Complete(source)
}

// Reconcile follows one repository and writes the status of its GitSource.
func (r *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	src := &v1alpha1.GitSource{}
	if err := r.Client.Get(ctx, req.NamespacedName, src); err != nil {
		r.memory.forget(req.Name)
		r.Applier.Forget(req.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	now := r.Now()
	facts := r.follow(ctx, src, now)
	if apierrors.IsConflict(facts.Err) {
		return reconcile.Result{}, facts.Err // A conflict means that the cached GitSource is stale.
	}
	pools, err := listPools(ctx, r.Client)
	if err != nil {
		return reconcile.Result{}, err
	}
	facts.Warnings = append(facts.Warnings, renderProblems(pools)...)
	facts.Warnings = append(facts.Warnings, webhookProblems(ctx, r.Live, r.Namespace, src)...)
	before := src.DeepCopy()
	src.Status = status.Source(before.Status, facts, now)
	applied := src.Status.AppliedRevision
	src.Status = status.Gave(src.Status, applied, status.Given{
		Rendered: renderedUnder(applied, pools), Failed: notRenderedUnder(applied, pools),
		Held: heldElsewhere(applied, pools),
	})
	if err := kube.WriteStatus(ctx, r.Client, src, before); err != nil {
		return reconcile.Result{}, fmt.Errorf("writing the status of GitSource %q: %w", src.Name, err)
	}
	r.reportTransition(before, src, facts)
	if facts.Applied != nil || facts.Restored {
		if err := DeleteUnusedContents(ctx, r.Client, r.Live, src); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{RequeueAfter: r.nextPoll(src, facts.Err, now)}, nil
}

// webhookProblems returns a warning if the Secret of the webhook cannot be used: without a usable Secret, the receiver
// refuses every request.
func webhookProblems(ctx context.Context, live client.Reader, namespace string, src *v1alpha1.GitSource) []string {
	if src.Spec.Webhook == nil {
		return nil
	}
	name := src.Spec.Webhook.SecretRef.Name
	var s corev1.Secret
	err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &s)
	if err == nil {
		_, err = WebhookToken(s.Data)
	} else if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return nil // The API server does not answer, and other requests report this problem.
	}
	if err == nil {
		return nil
	}
	return []string{fmt.Sprintf("every request of the webhook is refused: reading Secret %s/%s: %v", namespace, name,
		err)}
}

// follow applies the newest commit of a source: it lists, picks, fetches, transpiles and applies. If the commit cannot
// be applied, follow restores the applied revision. Reconcile writes the status.
func (r *Controller) follow(ctx context.Context, src *v1alpha1.GitSource, now time.Time) status.SourceFacts {
	out := status.SourceFacts{
		Generation: src.Generation, Verify: src.Spec.Verify != nil,
		Suspended: src.Spec.IsSuspended(now), SuspendUntil: src.Spec.SuspendUntil,
	}
	if !out.Suspended {
		a, err := r.followRemote(ctx, src, now)
		out.Handled, out.Observed, out.Tried, out.Applied = a.handled, a.observed, a.tried, a.applied
		out.Warnings, out.Err = a.warnings, err
	}
	if apierrors.IsConflict(out.Err) || out.Err == nil && !out.Suspended {
		return out
	}
	restored, err := r.Applier.Restore(ctx, src, out.Err)
	out.Restored = restored
	if err != nil {
		out.Err = err
	}
	if restored || src.Status.Applying == nil {
		out.Err = withCommit(src, out)
	}
	return out
}

// attempt is how far the controller came with the newest commit of a repository. The parts are as in
// status.SourceFacts.
type attempt struct {
	handled, observed string
	tried             *v1alpha1.CommitInfo
	applied           *status.Applied
	warnings          []string
}

// followRemote applies the newest commit of the repository, unless that commit is already applied. If a newer commit
// appears meanwhile, followRemote applies that one.
func (r *Controller) followRemote(ctx context.Context, src *v1alpha1.GitSource, now time.Time) (attempt, error) {
	observed := ""
	for overtaken := 0; ; overtaken++ {
		handled := src.Annotations[v1alpha1.ReconcileAnnotation]
		a, err := r.followNewest(ctx, src, now, overtaken < mostOvertaken)
		a.handled, a.observed = handled, cmp.Or(a.observed, observed)
		if !errors.Is(err, ErrOvertaken) {
			return a, err
		}
		if err := r.readAgain(ctx, src); err != nil {
			return a, err
		}
		observed, now = a.observed, r.Now()
	}
}

// readAgain reads a GitSource from the API server, because a push that was announced meanwhile changed it. If users
// changed its spec, the error is a conflict, and the next reconciliation follows the new spec.
func (r *Controller) readAgain(ctx context.Context, src *v1alpha1.GitSource) error {
	now := &v1alpha1.GitSource{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(src), now); err != nil {
		return fault.NewRetry(v1alpha1.ReasonApplyFailed, fmt.Errorf("reading GitSource %q: %w", src.Name, err))
	}
	if now.UID != src.UID || now.Generation != src.Generation {
		return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("gitsources").GroupResource(), src.Name,
			errors.New("its spec has changed"))
	}
	*src = *now
	return nil
}

// followNewest applies the newest commit of the repository, unless that commit is already applied. If mayOvertake is
// true, the error is ErrOvertaken once a newer commit is ready to be applied.
func (r *Controller) followNewest(ctx context.Context, src *v1alpha1.GitSource, now time.Time,
	mayOvertake bool,
) (attempt, error) {
	repo, err := r.repository(ctx, src)
	if err != nil {
		return attempt{}, err
	}
	picked, err := r.list(ctx, repo.Repository, src, now)
	if err != nil {
		return attempt{}, err
	}
	observed := picked.Revision().String()
	applied, err := r.isApplied(ctx, src, observed)
	if err != nil || applied {
		return attempt{observed: observed, warnings: r.memory.warnings.of(src.Name).warnings}, err
	}
	picked.Applied = appliedBefore(src, picked)
	return r.applyCommit(ctx, src, candidate{repo, picked, now}, mayOvertake)
}

// candidate is a commit of a repository, and the time at which the repository listed it.
type candidate struct {
	repo   opened
	picked source.Picked
	now    time.Time
}

// applyCommit fetches one commit, transpiles it and applies it.
func (r *Controller) applyCommit(ctx context.Context, src *v1alpha1.GitSource, at candidate,
	mayOvertake bool,
) (attempt, error) {
	out := attempt{observed: at.picked.Revision().String()}
	tree, checked, err := r.fetch(ctx, src, at)
	if err != nil {
		return out, err
	}
	if err := r.Slots.acquire(ctx); err != nil {
		return out, err
	}
	defer r.Slots.release()
	c := tree.Commit
	out.tried = &v1alpha1.CommitInfo{
		Revision: out.observed, Subject: c.Subject, Author: c.Author,
		Time: metav1.NewTime(c.Time), VerifiedBy: c.Signer,
	}
	past := compare(src, at.picked, checked.Descent)
	doubts, err := past.decide(src.Spec, at.picked.Hash)
	if err != nil {
		return out, err
	}
	res, err := r.Transpiler.FragmentsUntil(tree, ctx.Err)
	if err != nil {
		return out, fmt.Errorf("transpiling %s: %w", c.Revision().Short(), err)
	}
	out.warnings = append(doubts, warnings(res.Report)...)
	if res.Report.Fatal() {
		return out, fault.NewStalled(v1alpha1.ReasonTranspileFailed, reportError{res.Report, c})
	}
	pools, err := listPools(ctx, r.Client)
	if err != nil {
		return out, err
	}
	if err := missingPools(res, pools); err != nil {
		return out, fault.NewStalled(v1alpha1.ReasonPoolMissing, err)
	}
	var overtaken <-chan struct{}
	done := func() {}
	if mayOvertake {
		overtaken, done = r.watchNewer(ctx, src, at)
	}
	applied, err := r.Applier.Apply(ctx, src, out.observed, res, overtaken)
	done()
	if err != nil {
		return out, err
	}
	r.memory.warnings.Store(src.Name, appliedWarnings{out.observed, out.warnings})
	applied.Commit, applied.From = *out.tried, followedRef(src.Spec)
	if len(doubts) > 0 {
		applied.Rewritten = past.event()
	}
	out.applied = &applied
	return out, nil
}

// missingPools returns an error that names each directory below pools/ without a MachineConfigPool.
func missingPools(res transpile.Result, pools []mcfgv1.MachineConfigPool) error {
	have := map[string]bool{}
	for _, name := range reconcilepools.StandardNames() {
		have[name] = true
	}
	for i := range pools {
		have[pools[i].Name] = true
	}
	for _, o := range res.Cluster {
		if o.Object.GetKind() == "MachineConfigPool" {
			have[o.Object.GetName()] = true
		}
	}
	var errs []error
	for _, p := range res.Pools {
		if !have[p] {
			errs = append(errs, fmt.Errorf("pools/%s: there is no MachineConfigPool %q on the cluster or in "+
				"cluster/; add cluster/%s.yaml with one, or rename the directory", p, p, p))
		}
	}
	return errors.Join(errs...)
}

// isApplied reports whether a revision is applied and its objects are unchanged since then.
func (r *Controller) isApplied(ctx context.Context, src *v1alpha1.GitSource, revisionName string) (bool, error) {
	if src.Status.AppliedRevision != revisionName || src.Status.AppliedGeneration != src.Generation ||
		r.memory.warnings.of(src.Name).revision != revisionName {
		return false, nil
	}
	differs, err := r.Applier.Differences(ctx, src)
	return err == nil && len(differs) == 0 && src.Status.Applying == nil, err
}

func listPools(ctx context.Context, c client.Reader) ([]mcfgv1.MachineConfigPool, error) {
	var list mcfgv1.MachineConfigPoolList
	if err := c.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing MachineConfigPools: %w", err)
	}
	return list.Items, nil
}

// Slots is a semaphore. The capacity of Slots is the number of goroutines that may hold a slot at a time. A nil Slots
// means no limit.
type Slots chan struct{}

// acquire waits for a slot.
func (s Slots) acquire(ctx context.Context) error {
	if s == nil {
		return nil
	}
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for other sources to be applied: %w", context.Cause(ctx))
	}
}

// release returns a slot.
func (s Slots) release() {
	if s != nil {
		<-s
	}
}

const (
	// lookEvery is how often the controller looks for a reason to list the repository again while it applies a commit.
	// The interval of the source, announced pushes and requests of users decide when it lists.
	lookEvery = time.Second
	// mostOvertaken is how many commits in a row a newer commit may overtake. Otherwise no commit would ever be applied
	// from a repository with a push every few seconds.
	mostOvertaken = 3
)

// overtaking looks for a newer commit during the apply of a commit.
type overtaking struct {
	controller *Controller
	// src is the GitSource when the apply began, and at the commit that is applied.
	src *v1alpha1.GitSource
	at  candidate
	// found is closed once there is a newer commit that the controller can apply.
	found chan struct{}
	// refused is the hash of a newer commit that cannot be applied.
	refused string
}

// watchNewer looks for a newer commit until the returned function is called. The channel is closed once the repository
// has a commit that the controller can apply: it is fetched, its signature is checked, and it is transpiled. A commit
// with an error does not stop the apply of the one before.
func (r *Controller) watchNewer(ctx context.Context, src *v1alpha1.GitSource, at candidate) (<-chan struct{}, func()) {
	if r.Newer != nil {
		return r.Newer(src)
	}
	o := &overtaking{controller: r, src: src.DeepCopy(), at: at, found: make(chan struct{})}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		o.run(ctx)
	}()
	return o.found, func() {
		cancel()
		<-ended
	}
}

func (o *overtaking) run(ctx context.Context) {
	every := o.controller.LookEvery
	if every == 0 {
		every = lookEvery
	}
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		if newer, is := o.look(ctx); is {
			close(o.found)
			o.controller.Events.Send(kube.Event{
				Object: o.src, Reason: "RevisionOvertaken", Action: "Follow",
				Note: fmt.Sprintf("not applying the rest of %s: %s is newer", o.at.picked.Revision().Short(),
					newer.Revision().Short()),
			})
			return
		}
	}
}

// look returns a newer commit that the controller can apply; false if there is none.
func (o *overtaking) look(ctx context.Context) (source.Picked, bool) {
	r := o.controller
	now := &v1alpha1.GitSource{}
	if r.Client.Get(ctx, client.ObjectKeyFromObject(o.src), now) != nil || now.UID != o.src.UID ||
		now.Generation != o.src.Generation || now.Spec.IsSuspended(r.Now()) {
		return source.Picked{}, false // The next reconciliation follows the changed spec.
	}
	at := candidate{repo: o.at.repo, now: r.Now()}
	var err error
	at.picked, err = r.list(ctx, at.repo.Repository, now, at.now)
	if err != nil || at.picked.Hash == o.at.picked.Hash || at.picked.Hash == o.refused {
		return source.Picked{}, false
	}
	at.picked.Applied = appliedBefore(now, at.picked)
	tree, checked, err := r.fetch(ctx, now, at)
	if err != nil {
		return source.Picked{}, false // A fetch that failed is not repeated at once.
	}
	o.refused = at.picked.Hash
	past := compare(now, at.picked, checked.Descent)
	if _, err := past.decide(now.Spec, at.picked.Hash); err != nil {
		return source.Picked{}, false
	}
	if res, err := r.Transpiler.FragmentsUntil(tree, ctx.Err); err != nil || res.Report.Fatal() {
		return source.Picked{}, false
	}
	return at.picked, true
}
