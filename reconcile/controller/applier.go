package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/revision"
	"github.com/bunsen-os/bunsen/reconcile/status"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

const (
	// applyPatience is for how long an interrupted apply is tried again before the revision in force is restored.
	applyPatience = time.Minute
	// refusedPause is how long a revision rests that the API server refused in the middle, although it had agreed to all of
	// it: each try takes the pools out of rendering for a moment.
	refusedPause = 10 * time.Minute
)

// failedWrite is a revision that the API server refused in the middle. Losing it costs one more try.
type failedWrite struct {
	revision, request string
	generation        int64
	until             time.Time
	err               error
}

// Applier puts revisions on the cluster, each completely or not at all.
type Applier struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Live reads past the cache: what a write depends on.
	Live client.Reader
	// Now is the clock.
	Now func() time.Time
	// Events tells people.
	Events Events

	seen     revision.Digests
	failures sync.Map // GitSource name → failedWrite
}

// Apply puts a commit on the cluster, completely: it asks the API server about each write, records what it is going to
// write, and writes. The caller records the result, which ends the record. It may be interrupted anywhere: until then no
// pool that the source feeds is rendered or rolled out.
func (a *Applier) Apply(ctx context.Context, src *v1alpha1.GitSource, revisionName string, res transpile.Result) (status.Applied, error) {
	content, at, err := contentOf(res)
	if err != nil {
		return status.Applied{}, err
	}
	if err := a.rests(src, revisionName); err != nil {
		return status.Applied{}, err
	}
	p, live, err := a.plan(ctx, src, content, at)
	if err != nil {
		return status.Applied{}, err
	}
	if err := tryAll(ctx, a.Client, p.changes); err != nil {
		return status.Applied{}, applyFault(err)
	}
	applied := status.Applied{Inventory: p.inventory}
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
		a.tellPutBack(ctx, src, p.changes)
	}
	if err := writeAll(ctx, a.Client, p.changes); err != nil {
		err = applyFault(err)
		if fault.Of(err, "").Kind == fault.Stalled {
			a.failures.Store(src.Name, failedWrite{
				revision: revisionName, request: src.Annotations[v1alpha1.ReconcileAnnotation], generation: src.Generation,
				until: a.Now().Add(refusedPause), err: err,
			})
		}
		return applied, err
	}
	return applied, nil
}

// plan compares a commit with the cluster. The cache is good enough where objects only change, for a plan that was made from
// old objects leaves differences, which are seen. Whether an object existed before is asked of the API server: restoring
// deletes what did not. So is whether an object is there that the cache lacks and the revision in force has: nothing else
// would delete it.
func (a *Applier) plan(ctx context.Context, src *v1alpha1.GitSource, content revision.Content, at map[string]string) (plan, liveObjects, error) {
	var p plan
	var live liveObjects
	content, err := a.afterEarlier(ctx, src, content)
	if err != nil {
		return p, live, applyFault(err)
	}
	var created []string
	if was := src.Status.Applying; was != nil {
		created = was.Created
	}
	for _, from := range []client.Reader{a.Client, a.Live} {
		var err error
		if live, err = readLive(ctx, from); err != nil {
			return p, live, applyFault(err)
		}
		p, err = planner{
			source: src.Name, prune: prunes(src), created: created, seen: &a.seen, live: live, at: at, unrecorded: src.Status.AppliedContent == "",
		}.plan(content)
		if err != nil {
			return p, live, fault.NewStalled(v1alpha1.ReasonConflict, err)
		}
		if len(p.created)+len(p.foreign) == 0 && live.hasAll(src.Status.Inventory) {
			break
		}
	}
	p.content.Foreign = nil // they are not the source's any more
	return p, live, nil
}

// afterEarlier adds to a commit what stays of the revision in force where nothing is pruned, and what an interrupted apply of
// another commit has to give back. Without a content to restore the commit stays as it is.
func (a *Applier) afterEarlier(ctx context.Context, src *v1alpha1.GitSource, content revision.Content) (revision.Content, error) {
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

// applyFault marks a failure between the cluster and the controller; conflicts stay as they are, for they only mean that
// something old was read.
func applyFault(err error) error {
	if apierrors.IsConflict(err) {
		return err
	}
	return fault.Of(err, v1alpha1.ReasonApplyFailed)
}

// Forget drops what is remembered of a source that is gone.
func (a *Applier) Forget(source string) { a.failures.Delete(source) }

// rests returns why a revision is not tried again yet; nil where it may be.
func (a *Applier) rests(src *v1alpha1.GitSource, revisionName string) error {
	v, ok := a.failures.Load(src.Name)
	if !ok {
		return nil
	}
	f := v.(failedWrite)
	if f.revision == revisionName && f.generation == src.Generation && f.request == src.Annotations[v1alpha1.ReconcileAnnotation] && a.Now().Before(f.until) {
		return f.err
	}
	return nil
}

// begin records what is going to be written, before the first write. Where an apply was interrupted, its base stays: what
// was there before it.
func (a *Applier) begin(ctx context.Context, src *v1alpha1.GitSource, revisionName string, live liveObjects, p plan) error {
	now := metav1.NewTime(a.Now().UTC().Truncate(time.Second))
	applying := &v1alpha1.ApplyingRevision{Revision: revisionName, Started: now, Inventory: p.inventory, Created: slices.Clone(p.created)}
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
	// It is written although it may be there already: the API server refuses it where the GitSource that was read is an old
	// one, and nothing is being applied any more.
	if err := a.Client.Status().Update(ctx, src); err != nil {
		return fmt.Errorf("recording in GitSource %q what is going to be applied: %w", src.Name, err)
	}
	return nil
}

// base keeps what is restored where a revision cannot be applied whole, and returns its digest: the revision in force, and
// the objects that become the source's, as they are. Where an apply was interrupted, those of both are kept.
func (a *Applier) base(ctx context.Context, src *v1alpha1.GitSource, live liveObjects, p plan) (string, error) {
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
		c, err = live.ownContent(src.Name, &a.seen)
	}
	if err != nil {
		return "", err
	}
	return storeContent(ctx, a.Client, src, c.WithForeign(p.foreign, created))
}

// Restore brings the revision in force back where a newer one was not applied whole, or somebody changed its objects while
// the newest commit cannot be applied. It needs no repository. It returns the failure that led here, and its own beside it.
func (a *Applier) Restore(ctx context.Context, src *v1alpha1.GitSource, failed error, earlier func() (revision.Content, error)) (bool, error) {
	applying := src.Status.Applying
	switch {
	case applying == nil && (src.Spec.Suspend || src.Status.AppliedRevision == ""):
		return false, failed
	case applying != nil && isInterrupted(failed) && a.Now().Sub(applying.Started.Time) < applyPatience:
		return false, failed // the next try may finish it
	case applying == nil:
		differs, err := a.differences(ctx, src)
		if err != nil || len(differs) == 0 {
			return false, errors.Join(failed, err)
		}
	}
	if err := a.putBack(ctx, src, earlier); err != nil {
		if apierrors.IsConflict(err) {
			return false, err
		}
		return false, unrestored(src, failed, err)
	}
	return true, failed
}

// unrestored is the failure of an attempt whose restoring failed, too. It is tried again, unless both need a person.
func unrestored(src *v1alpha1.GitSource, failed, err error) error {
	f := fault.Of(err, v1alpha1.ReasonApplyFailed)
	err = fmt.Errorf("restoring %s: %w", revisionText(src.Status.AppliedRevision), err)
	if failed == nil {
		return &fault.Error{Kind: f.Kind, Reason: f.Reason, Err: err}
	}
	first := fault.Of(failed, v1alpha1.ReasonApplyFailed)
	if first.Kind != fault.Stalled || f.Kind != fault.Stalled {
		first.Kind = fault.Retry
	}
	return &fault.Error{Kind: first.Kind, Reason: first.Reason, Err: errors.Join(failed, err)}
}

// isInterrupted reports whether a failure came in the middle of an apply and another try may succeed.
func isInterrupted(failed error) bool {
	f := fault.Of(failed, "")
	return failed != nil && f.Kind == fault.Retry && f.Reason == v1alpha1.ReasonApplyFailed
}

// putBack writes the content of the revision in force, and deletes what the interrupted apply created.
func (a *Applier) putBack(ctx context.Context, src *v1alpha1.GitSource, earlier func() (revision.Content, error)) error {
	var created []string
	if applying := src.Status.Applying; applying != nil {
		created = applying.Created
	}
	content, err := a.contentInForce(ctx, src, earlier)
	if err != nil {
		return err
	}
	live, err := readLive(ctx, a.Live)
	if err != nil {
		return err
	}
	p, err := planner{
		source: src.Name, prune: true, seen: &a.seen, live: live,
		mayDelete: func(key string) bool { return slices.Contains(created, key) },
	}.plan(content)
	if err != nil {
		return fault.NewStalled(v1alpha1.ReasonConflict, err)
	}
	p.foreign = nil
	if err := a.begin(ctx, src, src.Status.AppliedRevision, live, p); err != nil {
		return err
	}
	a.tellPutBack(ctx, src, p.changes)
	return writeAll(ctx, a.Client, p.changes)
}

// contentInForce is what is restored; earlier makes it where an earlier version of Bunsen applied the revision, which kept no
// content.
func (a *Applier) contentInForce(ctx context.Context, src *v1alpha1.GitSource, earlier func() (revision.Content, error)) (revision.Content, error) {
	if applying := src.Status.Applying; applying != nil {
		return loadContent(ctx, a.Live, src, applying.Base)
	}
	if src.Status.AppliedContent != "" {
		return loadContent(ctx, a.Live, src, src.Status.AppliedContent)
	}
	return earlier()
}

// tellPutBack names the objects that are written although no new commit asks for it, and the field managers that changed them.
func (a *Applier) tellPutBack(ctx context.Context, src *v1alpha1.GitSource, changes []change) {
	const most = 5
	names := make([]string, 0, len(changes))
	for i, c := range changes {
		if i == most {
			names = append(names, fmt.Sprintf("%d more", len(changes)-most))
			break
		}
		names = append(names, c.kind+" "+c.name+changedBy(ctx, a.Live, c))
	}
	if len(names) == 0 {
		return
	}
	a.Events.Eventf(src, nil, corev1.EventTypeWarning, "Restored", "Follow", "%s",
		clip(fmt.Sprintf("restoring %s as %s has it: change the repository instead", strings.Join(names, ", "), revisionText(src.Status.AppliedRevision))))
}

// controllerManager is the field manager of the controller's writes other than server-side apply, such as spec.configuration of a pool.
const controllerManager = "machine-config-controller"

// changedBy is ` (changed by kubectl-edit)` where another field manager than the source's own was the last to change the spec of a
// MachineConfig or a MachineConfigPool; empty where that is not known.
func changedBy(ctx context.Context, live client.Reader, c change) string {
	var o client.Object
	switch c.kind {
	case revision.KindMachineConfig:
		o = &mcfgv1.MachineConfig{}
	case revision.KindMachineConfigPool:
		o = &mcfgv1.MachineConfigPool{}
	default:
		return ""
	}
	o.SetName(c.name)
	last := lastManager(ctx, live, o, "f:spec")
	if last == nil || last.Manager == string(sourceOwner) || last.Manager == controllerManager {
		return ""
	}
	return " (changed by " + last.Manager + ")"
}

func revisionText(name string) string {
	if r, err := source.ParseRevision(name); err == nil {
		return r.Short()
	}
	return "the state before the first revision"
}

func prunes(src *v1alpha1.GitSource) bool { return src.Spec.Prune == nil || *src.Spec.Prune }

// differences names the objects of a source that are not as its inventory has them.
func (a *Applier) differences(ctx context.Context, src *v1alpha1.GitSource) ([]string, error) {
	live, err := readLive(ctx, a.Client)
	if err != nil {
		return nil, err
	}
	owned, err := live.owned(src.Name, &a.seen)
	if err != nil {
		return nil, err
	}
	return revision.Differences(src.Status.Inventory, owned), nil
}
