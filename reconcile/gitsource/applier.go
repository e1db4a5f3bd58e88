package gitsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/content"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/revision"
	"github.com/bunsen-os/bunsen/reconcile/status"
	"github.com/bunsen-os/bunsen/transpile"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// finishWithin is how long the controller retries an interrupted apply before it restores the applied revision.
	finishWithin = time.Minute
	// rejectedPause is how long the controller waits after the API server rejected a change that it had accepted in
	// the dry run. Each attempt stops the rendering of the pools for a moment.
	rejectedPause = 10 * time.Minute
)

// failedWrite records a revision of which the API server rejected a change after it had accepted other changes. If this
// record is lost, the controller makes one more attempt.
type failedWrite struct {
	revision, request string
	generation        int64
	until             time.Time
	err               error
}

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
	if applied.Content, err = storeContent(ctx, a.Client, src, p.content); err != nil {
		return applied, applyFault(err)
	}
	if len(p.changes) == 0 && src.Status.Applying == nil {
		return applied, nil
	}
	if err := a.begin(ctx, src, revisionName, live, p); err != nil {
		return applied, applyFault(err)
	}
	if revisionName == src.Status.AppliedRevision && src.Status.AppliedContent != "" {
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

// applyFault marks a failed request to the API server as a fault. applyFault does not mark conflicts, because a
// conflict only shows that the controller read a stale object.
func applyFault(err error) error {
	if apierrors.IsConflict(err) || errors.Is(err, ErrOvertaken) {
		return err
	}
	return fault.Of(err, v1alpha1.ReasonApplyFailed)
}

// Forget removes the stored failure of a deleted source.
func (a *Applier) Forget(source string) { a.failures.Delete(source) }

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
	} else {
		c, err = ownContent(live, src.Name, &a.seen)
	}
	if err != nil {
		return "", err
	}
	return storeContent(ctx, a.Client, src, c.WithForeign(p.foreign, created))
}

func prunes(src *v1alpha1.GitSource) bool { return src.Spec.Prune == nil || *src.Spec.Prune }

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

// ContentOf returns the objects of a transpiled commit, and the place in the repository of each.
func ContentOf(res transpile.Result) (revision.Content, map[string]string, error) {
	var c revision.Content
	at := map[string]string{}
	for _, f := range res.Fragments {
		files, err := json.Marshal(f.Origin.Files)
		if err != nil {
			return c, nil, fmt.Errorf("writing the origin of %q: %w", f.Name, err)
		}
		mc := f.MachineConfig.DeepCopy()
		metav1.SetMetaDataAnnotation(&mc.ObjectMeta, v1alpha1.FileAnnotation, string(files))
		c.Configs = append(c.Configs, mc)
		if len(f.Origin.Files) > 0 {
			at[revision.Key(revision.KindMachineConfig, f.Name)] = f.Origin.Files[0].Path + ": "
		}
	}
	for _, o := range res.Cluster {
		c.Objects = append(c.Objects, o.Object)
		at[revision.Key(o.Object.GetKind(), o.Object.GetName())] = fmt.Sprintf("%s:%d: ", o.File, o.Line)
	}
	return c, at, nil
}
