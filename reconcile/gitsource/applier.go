package gitsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	goruntime "runtime"
	"slices"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/content"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/pools"
	"github.com/bunsen-os/bunsen/reconcile/revision"
	"github.com/bunsen-os/bunsen/reconcile/status"
	"github.com/bunsen-os/bunsen/transpile"
)

const (
	// finishWithin is how long the controller retries an interrupted apply before it restores the applied revision.
	finishWithin = time.Minute
	// rejectedPause is how long the controller waits after the API server rejected a change that it had accepted in
	// the dry run. Each attempt stops the rendering of the pools for a moment.
	rejectedPause = 10 * time.Minute
)

// Applier applies revisions to the cluster, each completely or not at all.
type Applier struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Live reads data that a write depends on from the API server instead of the cache.
	Live client.Reader
	// Now is the clock.
	Now func() time.Time
	// Events sends events.
	Events kube.Events
	// Contents has the large files of the fragments.
	Contents *content.Store
	// Parallel is how many requests an apply sends at a time; 0 means three for each core.
	Parallel int

	seen     revision.Digests
	failures sync.Map // GitSource name → failedWrite
}

// ErrOvertaken means that the caller of Apply ended it, because the repository has a newer commit.
var ErrOvertaken = errors.New("the repository has a newer commit")

// Apply applies a commit: it checks each write with the API server, records the planned changes in
// GitSource.status.applying, and writes them. The caller then records the result, which removes the record of the
// planned changes. Apply can be interrupted at any point. While the record exists, no pool of the source is rendered or
// rolled out.
//
// When the channel overtaken is closed, Apply ends between two writes with ErrOvertaken. The caller then applies the
// newer commit. The channel may be nil.
func (a *Applier) Apply(ctx context.Context, src *v1alpha1.GitSource, revisionName string, res transpile.Result,
	overtaken <-chan struct{},
) (status.Applied, error) {
	content, at, err := ContentOf(res)
	if err != nil {
		return status.Applied{}, err
	}
	if err := a.recentFailure(src, revisionName); err != nil {
		return status.Applied{}, err
	}
	p, live, err := a.planChanges(ctx, src, content, at)
	if err != nil {
		return status.Applied{}, err
	}
	to := a.progress(src, revisionName, overtaken)
	to.phase(v1alpha1.ApplyChecking, len(p.changes))
	if err := dryRun(ctx, a.Client, p.changes, to); err != nil {
		return status.Applied{}, applyFault(err)
	}
	applied := status.Applied{Inventory: p.inventory}
	// Bunsen writes no MachineConfig that names a file that the content store does not have.
	if err := a.Contents.Write(ctx, transpile.Contents(res.Fragments)); err != nil {
		return applied, applyFault(err)
	}
	if applied.Content, err = storeContent(ctx, a.Client, a.Live, src, p.content); err != nil {
		return applied, applyFault(err)
	}
	if len(p.changes) == 0 && src.Status.Applying == nil {
		return applied, nil
	}
	if err := a.begin(ctx, src, revisionName, live, p); err != nil {
		return applied, applyFault(err)
	}
	if revisionName == src.Status.AppliedRevision {
		a.reportRestored(ctx, src, p.changes)
	}
	to.phase(v1alpha1.ApplyWriting, len(p.changes))
	if err := writeAll(ctx, a.Client, p.changes, to); err != nil {
		err = applyFault(err)
		if fault.Of(err, "").Kind == fault.Stalled {
			a.failures.Store(src.Name, failedWrite{
				revision: revisionName, request: src.Annotations[v1alpha1.ReconcileAnnotation],
				generation: src.Generation,
				until:      a.Now().Add(rejectedPause), err: err,
			})
		}
		return applied, err
	}
	return applied, nil
}

// recentFailure returns the failure because of which the controller must not retry a revision yet. recentFailure
// returns nil if the controller may retry.
func (a *Applier) recentFailure(src *v1alpha1.GitSource, revisionName string) error {
	v, ok := a.failures.Load(src.Name)
	if !ok {
		return nil
	}
	f := v.(failedWrite)
	if f.revision == revisionName && f.generation == src.Generation &&
		f.request == src.Annotations[v1alpha1.ReconcileAnnotation] && a.Now().Before(f.until) {
		return f.err
	}
	return nil
}

// failedWrite records a revision of which the API server rejected a change after it had accepted other changes. If this
// record is lost, the controller makes one more attempt.
type failedWrite struct {
	revision, request string
	generation        int64
	until             time.Time
	err               error
}

// Forget removes the stored failure of a deleted source.
func (a *Applier) Forget(source string) { a.failures.Delete(source) }

// planChanges compares a commit with the cluster. planChanges reads changed objects from the cache: if the cache is
// stale, the next reconciliation corrects the difference. planChanges asks the API server which objects existed before,
// because a restore deletes objects that did not exist before. planChanges also asks the API server for objects that
// only the cache lacks, because nothing else would delete them. After an interrupted apply, it asks the API server
// alone.
func (a *Applier) planChanges(ctx context.Context, src *v1alpha1.GitSource, content revision.Content,
	at map[string]string,
) (changeSet, revision.Objects, error) {
	var p changeSet
	var live revision.Objects
	content, err := a.withEarlierContent(ctx, src, content)
	if err != nil {
		return p, live, applyFault(err)
	}
	var created []string
	if was := src.Status.Applying; was != nil {
		created = was.Created
	}
	readers := []client.Reader{a.Client, a.Live}
	if src.Status.Applying != nil {
		readers = readers[1:] // The cache may lack what the interrupted apply wrote last.
	}
	for _, from := range readers {
		var err error
		if live, err = revision.ReadState(ctx, from); err != nil {
			return p, live, applyFault(err)
		}
		p, err = (&planner{
			source: src.Name, prune: prunes(src), created: created, seen: &a.seen, live: live, at: at,
			unrecorded: src.Status.AppliedContent == "",
		}).plan(content)
		if err != nil {
			return p, live, fault.NewStalled(v1alpha1.ReasonConflict, err)
		}
		if len(p.created)+len(p.foreign) == 0 && live.HasAll(src.Status.Inventory) {
			break
		}
	}
	p.content.Foreign = nil // The source no longer owns the foreign objects.
	return p, live, nil
}

// withEarlierContent adds two parts to the content of a commit: objects of the applied revision that the source does
// not prune, and what an interrupted apply of another commit has to restore. If the content of the applied revision is
// not stored, withEarlierContent adds nothing.
func (a *Applier) withEarlierContent(ctx context.Context, src *v1alpha1.GitSource,
	content revision.Content,
) (revision.Content, error) {
	digest := src.Status.AppliedContent
	switch applying := src.Status.Applying; {
	case applying != nil:
		digest = applying.Base
	case prunes(src):
		return content, nil
	}
	if digest == "" {
		return content, nil
	}
	base, err := loadContent(ctx, a.Live, src, digest)
	if errors.Is(err, errContentLost) {
		return content, nil
	}
	return content.After(base, prunes(src)), err
}

func prunes(src *v1alpha1.GitSource) bool { return src.Spec.Prune == nil || *src.Spec.Prune }

// begin records the planned changes before the first write. After an interrupted apply, begin does not change the
// recorded base, which is the state before the interrupted apply.
func (a *Applier) begin(ctx context.Context, src *v1alpha1.GitSource, revisionName string, live revision.Objects,
	p changeSet,
) error {
	now := metav1.NewTime(a.Now().UTC().Truncate(time.Second))
	applying := &v1alpha1.ApplyingRevision{
		Revision: revisionName, Started: now, Inventory: p.inventory,
		Created: slices.Clone(p.created),
	}
	if was := src.Status.Applying; was != nil {
		if was.Revision == revisionName {
			applying.Started = was.Started
		}
		for _, key := range was.Created {
			if !slices.Contains(applying.Created, key) {
				applying.Created = append(applying.Created, key)
			}
		}
	}
	slices.Sort(applying.Created)
	base, err := a.base(ctx, src, live, p)
	if err != nil {
		return err
	}
	applying.Base = base
	src.Status.Applying = applying
	// begin sends the update even if nothing has changed: if the cached GitSource is stale and the apply has already
	// ended, the API server rejects the update.
	if err := a.Client.Status().Update(ctx, src); err != nil {
		return fmt.Errorf("recording in GitSource %q what is going to be applied: %w", src.Name, err)
	}
	return nil
}

// base stores the content that a restore applies if a revision cannot be applied completely, and returns the digest of
// this content. The content has the applied revision, and the current state of the objects that the source takes over.
// After an interrupted apply, base adds these objects to the content that the interrupted apply stored.
func (a *Applier) base(ctx context.Context, src *v1alpha1.GitSource, live revision.Objects,
	p changeSet,
) (string, error) {
	digest, created := src.Status.AppliedContent, []string(nil)
	if was := src.Status.Applying; was != nil && was.Base != "" {
		digest, created = was.Base, was.Created
	}
	if digest != "" && len(p.foreign) == 0 {
		return digest, nil
	}
	var c revision.Content
	var err error
	if digest != "" {
		c, err = loadContent(ctx, a.Live, src, digest)
	}
	if digest == "" || errors.Is(err, errContentLost) { // The objects are then all that is left of the revision.
		c, err = ownContent(live, src.Name, &a.seen)
	}
	if err != nil {
		return "", err
	}
	return storeContent(ctx, a.Client, a.Live, src, c.WithForeign(p.foreign, created))
}

// dryRun sends every change to the API server as a dry run, and returns all rejections. The controller does not start
// a revision that the server would reject in part.
func dryRun(ctx context.Context, c client.Client, changes []change, to *progress) error {
	rejected := make([]error, len(changes))
	err := to.each(ctx, changes, func(ctx context.Context, i int) error {
		err := changes[i].write(ctx, c, true)
		if err != nil && isRejection(err) {
			rejected[i], err = err, nil
		}
		return err // The server could not check this change, so it could not check the next changes either.
	})
	if err != nil {
		return err
	}
	if err := errors.Join(rejected...); err != nil {
		return fault.NewStalled(v1alpha1.ReasonApplyFailed, err)
	}
	return nil
}

// writeAll writes the changes, several at a time, and begins no further one after a failure. It writes all changes of
// one kind before those of the next, in the order of rank.
func writeAll(ctx context.Context, c client.Client, changes []change, to *progress) error {
	for len(changes) > 0 {
		n := slices.IndexFunc(changes, func(ch change) bool { return rank(ch) != rank(changes[0]) })
		if n < 0 {
			n = len(changes)
		}
		err := to.each(ctx, changes[:n], func(ctx context.Context, i int) error {
			return changes[i].write(ctx, c, false)
		})
		switch {
		case err == nil:
		case isRejection(err):
			return fault.NewStalled(v1alpha1.ReasonApplyFailed, err)
		default:
			return err
		}
		changes = changes[n:]
	}
	return nil
}

// isRejection reports whether the API server rejected a request and a retry cannot succeed.
func isRejection(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsRequestEntityTooLargeError(err)
}

// applyFault marks a failed request to the API server as a fault. applyFault does not mark conflicts, because a
// conflict only shows that the controller read a stale object.
func applyFault(err error) error {
	if apierrors.IsConflict(err) || errors.Is(err, ErrOvertaken) {
		return err
	}
	return fault.Of(err, v1alpha1.ReasonApplyFailed)
}

// sourceOwner is the field manager of every field that a GitSource applies.
const sourceOwner = client.FieldOwner("bunsen-source")

// write sends the change to the API server; with dryRun, the server only checks it.
func (ch change) write(ctx context.Context, c client.Client, dryRun bool) error {
	var err error
	switch ch.verb {
	case applyObject:
		err = ch.apply(ctx, c, dryRun)
	case deleteObject:
		err = ch.remove(ctx, c, dryRun)
	case releaseObject:
		err = ch.release(ctx, c, dryRun)
	case resetObject:
		err = ch.reset(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("%s%s %s %q: %w", ch.at, ch.verb, ch.kind, ch.name, err)
	}
	return nil
}

func (ch change) apply(ctx context.Context, c client.Client, dryRun bool) error {
	u := ch.object.DeepCopy() // Apply overwrites u with the server's response
	options := []client.ApplyOption{sourceOwner, client.ForceOwnership}
	if dryRun {
		options = append(options, client.DryRunAll)
	}
	err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), options...)
	switch {
	case err != nil || dryRun:
		return err
	case ch.config != nil:
		return replaceSpec(ctx, c, u, ch.config)
	case (&revision.Digests{}).OfObject(u) == u.GetAnnotations()[v1alpha1.DigestAnnotation]:
		return nil
	}
	revision.Replace(u, ch.object)
	return c.Update(ctx, u, sourceOwner)
}

// replaceSpec replaces the whole spec if other field managers added fields that the fragment does not have. A
// server-side apply does not remove fields of other field managers, and a fragment that differs from its file blocks
// every pool.
func replaceSpec(ctx context.Context, c client.Client, applied *unstructured.Unstructured,
	want *mcfgv1.MachineConfig,
) error {
	live := &mcfgv1.MachineConfig{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(applied.Object, live); err != nil {
		return fmt.Errorf("reading it back: %w", err)
	}
	have, err := revision.Digest(live)
	if err != nil {
		return err
	}
	digest, err := revision.Digest(want)
	if err != nil || have == digest {
		return err
	}
	live.Spec = want.Spec
	live.Labels[v1alpha1.RoleLabel] = want.Labels[v1alpha1.RoleLabel]
	return c.Update(ctx, live, sourceOwner)
}

func (ch change) remove(ctx context.Context, c client.Client, dryRun bool) error {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(ch.gvk())
	u.SetName(ch.name)
	var options []client.DeleteOption
	if ch.uid != "" {
		options = append(options, client.Preconditions{UID: &ch.uid})
	}
	if dryRun {
		options = append(options, client.DryRunAll)
	}
	return client.IgnoreNotFound(c.Delete(ctx, u, options...))
}

// release removes the source's fields from an object. It applies the object without fields, and the API server then
// removes the fields that have no other owner. Whoever restored the object from a backup owns the label of the source
// too, so release removes that itself: with the label, the object would belong to the source for good.
func (ch change) release(ctx context.Context, c client.Client, dryRun bool) error {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(ch.gvk())
	u.SetName(ch.name)
	if ch.kind == revision.KindMachineConfiguration || ch.kind == revision.KindDriftPolicy ||
		ch.kind == revision.KindRolloutPolicy {
		u.Object["spec"] = map[string]any{}
	}
	options := []client.ApplyOption{sourceOwner, client.ForceOwnership}
	if dryRun {
		options = append(options, client.DryRunAll)
	}
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), options...); err != nil || dryRun {
		return err
	}
	if u.GetLabels()[v1alpha1.SourceLabel] == ch.source {
		kept := u.DeepCopy()
		unstructured.RemoveNestedField(u.Object, "metadata", "labels", v1alpha1.SourceLabel)
		for _, key := range []string{v1alpha1.DigestAnnotation, v1alpha1.WantedAnnotation} {
			unstructured.RemoveNestedField(u.Object, "metadata", "annotations", key)
		}
		if err := c.Patch(ctx, u, client.MergeFrom(kept), sourceOwner); err != nil {
			return err
		}
	}
	if pools.ContainsStandard(ch.name) && ch.kind == revision.KindMachineConfigPool {
		return pools.ApplyStandard(ctx, c, ch.name)
	}
	return nil
}

// reset restores an object to its state before the source owned it. reset does not change fields that controllers and
// administrators set on a pool. A missing object is an error because the cache may be stale; the next plan reads the
// object from the API server.
func (ch change) reset(ctx context.Context, c client.Client) error {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(ch.gvk())
	if err := c.Get(ctx, client.ObjectKey{Name: ch.name}, live); err != nil {
		return err
	}
	spec, _, _ := unstructured.NestedMap(ch.object.Object, "spec")
	if spec == nil {
		spec = map[string]any{}
	}
	for _, field := range []string{"configuration", "paused"} {
		if v, ok, _ := unstructured.NestedFieldCopy(live.Object, "spec", field); ok &&
			ch.kind == revision.KindMachineConfigPool {
			spec[field] = v
		}
	}
	live.Object["spec"] = spec
	live.SetLabels(ch.object.GetLabels())
	annotations := maps.Clone(ch.object.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, live.GetAnnotations())
	delete(annotations, v1alpha1.DigestAnnotation)
	delete(annotations, v1alpha1.WantedAnnotation)
	live.SetAnnotations(annotations)
	return c.Update(ctx, live, sourceOwner)
}

// Differences names the objects of a source that differ from its inventory.
func (a *Applier) Differences(ctx context.Context, src *v1alpha1.GitSource) ([]string, error) {
	live, err := revision.ReadState(ctx, a.Client)
	if err != nil {
		return nil, err
	}
	owned, err := live.Owned(src.Name, &a.seen)
	if err != nil {
		return nil, err
	}
	return revision.Differences(src.Status.Inventory, owned), nil
}

const (
	// writesPerCore is how many requests of one apply may wait for the API server, for each core that the controller
	// may use. More do not make it faster where both share the cores, and would delay other clients.
	writesPerCore = 3
	// reportEvery is how often a long apply reports its progress. The status of a source with thousands of objects is
	// large, so that one report may take the API server half a second: pauses are at least reportShare times as long.
	reportEvery = 2 * time.Second
	reportShare = 20
)

// parallelWrites is the default of Applier.Parallel.
func parallelWrites() int { return writesPerCore * goruntime.GOMAXPROCS(0) }

// progress is one apply: how many objects are done, and whether it goes on. An apply that takes long writes the number
// of objects to the status of its GitSource. No decision depends on it.
type progress struct {
	client   client.Client
	now      func() time.Time
	src      *v1alpha1.GitSource
	parallel int
	// overtaken is closed when the apply should end; nil if it should not.
	overtaken <-chan struct{}

	mu sync.Mutex
	// counts are the numbers of this phase.
	counts v1alpha1.ApplyProgress
	// next is when the next report is due. silent is true while one is written, and after one failed.
	next   time.Time
	silent bool
}

// progress returns the progress of an apply that begins now.
func (a *Applier) progress(src *v1alpha1.GitSource, revisionName string, overtaken <-chan struct{}) *progress {
	now := a.Now()
	parallel := a.Parallel
	if parallel == 0 {
		parallel = parallelWrites()
	}
	return &progress{
		client: a.Client, now: a.Now, src: src, parallel: parallel, overtaken: overtaken,
		counts: v1alpha1.ApplyProgress{Revision: revisionName, Began: metav1.NewTime(now)},
		next:   now.Add(reportEvery),
	}
}

// phase begins a phase with a number of objects.
func (p *progress) phase(phase v1alpha1.ApplyPhase, objects int) {
	p.counts.Phase, p.counts.Objects, p.counts.Done = phase, int32(objects), 0
}

// each calls a function for each change, with its index, for several changes at a time. After an error, and after the
// apply was overtaken, each calls it for no further change. It returns the error of the first of the changes that
// failed, once all calls have ended: no request is under way then, so nothing is written after a caller has compared
// the cluster with a revision.
func (p *progress) each(ctx context.Context, changes []change, do func(ctx context.Context, i int) error) error {
	errs := make([]error, len(changes))
	var next int
	stopped := false
	var mu sync.Mutex
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == len(changes) || stopped || p.isOvertaken() {
			return 0, false
		}
		next++
		return next - 1, true
	}
	work := func() {
		for i, ok := take(); ok; i, ok = take() {
			if errs[i] = do(ctx, i); errs[i] != nil {
				mu.Lock()
				stopped = true
				mu.Unlock()
				return
			}
			p.done(ctx)
		}
	}
	var group sync.WaitGroup
	for range min(p.parallel, len(changes)) - 1 {
		group.Go(work)
	}
	work()
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	if next < len(changes) {
		return ErrOvertaken
	}
	return nil
}

func (p *progress) isOvertaken() bool {
	select {
	case <-p.overtaken:
		return true
	default:
		return false
	}
}

// done counts an object, and reports the number if that is due. The other calls go on meanwhile.
func (p *progress) done(ctx context.Context) {
	p.mu.Lock()
	p.counts.Done++
	now := p.now()
	if p.silent || now.Before(p.next) {
		p.mu.Unlock()
		return
	}
	p.silent = true
	p.counts.Reported = metav1.NewTime(now)
	counts := p.counts
	p.mu.Unlock()
	err := p.report(ctx, counts)
	p.mu.Lock()
	defer p.mu.Unlock()
	after := p.now()
	p.silent, p.next = err != nil, after.Add(max(reportEvery, reportShare*after.Sub(now)))
}

// report writes the numbers to the status of the GitSource. It fails if anybody else changed the GitSource since it was
// read, because the apply would overwrite that change at its end.
func (p *progress) report(ctx context.Context, counts v1alpha1.ApplyProgress) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": p.src.ResourceVersion},
		"status":   map[string]any{"progress": counts},
	})
	if err != nil {
		return err
	}
	written := &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Name: p.src.Name}}
	if err := p.client.Status().Patch(ctx, written, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return err
	}
	p.src.ResourceVersion = written.ResourceVersion
	p.src.Status.Progress = written.Status.Progress
	return nil
}
