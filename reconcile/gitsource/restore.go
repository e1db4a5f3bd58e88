package gitsource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/revision"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// Restore restores the applied revision in two cases: a newer revision was applied in part, or a user changed the
// objects of the applied revision while the newest commit cannot be applied. Restore does not read the repository.
// Restore returns the earlier failure, joined with the failure of the restore.
func (a *Applier) Restore(ctx context.Context, src *v1alpha1.GitSource, failed error) (bool, error) {
	applying := src.Status.Applying
	switch {
	case applying == nil && (src.Spec.IsSuspended(a.Now()) || src.Status.AppliedRevision == ""):
		return false, failed
	case applying != nil && isInterrupted(failed) && a.Now().Sub(applying.Started.Time) < finishWithin:
		return false, failed // A retry may complete the apply.
	case applying == nil:
		differs, err := a.Differences(ctx, src)
		if err != nil || len(differs) == 0 {
			return false, errors.Join(failed, err)
		}
	}
	if err := a.restoreContent(ctx, src); err != nil {
		if apierrors.IsConflict(err) {
			return false, err
		}
		return false, restoreError(src, failed, err)
	}
	return true, failed
}

// restoreError is the failure of an attempt whose restore also failed. The controller retries the attempt, unless a
// user has to fix both failures.
func restoreError(src *v1alpha1.GitSource, failed, err error) error {
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

// isInterrupted reports whether an apply failed in the middle and a retry may succeed.
func isInterrupted(failed error) bool {
	f := fault.Of(failed, "")
	return failed != nil && f.Kind == fault.Retry && f.Reason == v1alpha1.ReasonApplyFailed
}

// restoreContent writes the content of the applied revision, and deletes objects that the interrupted apply created.
func (a *Applier) restoreContent(ctx context.Context, src *v1alpha1.GitSource) error {
	digest, created := src.Status.AppliedContent, []string(nil)
	if applying := src.Status.Applying; applying != nil {
		digest, created = applying.Base, applying.Created
	}
	content, err := loadContent(ctx, a.Live, src, digest)
	if err != nil {
		return err
	}
	live, err := revision.ReadState(ctx, a.Live)
	if err != nil {
		return err
	}
	p, err := (&planner{
		source: src.Name, prune: true, seen: &a.seen, live: live,
		mayDelete: func(key string) bool { return slices.Contains(created, key) },
	}).plan(content)
	if err != nil {
		return fault.NewStalled(v1alpha1.ReasonConflict, err)
	}
	p.foreign = nil
	if err := a.begin(ctx, src, src.Status.AppliedRevision, live, p); err != nil {
		return err
	}
	a.reportRestored(ctx, src, p.changes)
	to := a.progress(src, src.Status.AppliedRevision, nil)
	to.phase(v1alpha1.ApplyWriting, len(p.changes))
	return writeAll(ctx, a.Client, p.changes, to)
}

// reportRestored reports the objects that were changed without a new commit, and the field managers that changed them.
func (a *Applier) reportRestored(ctx context.Context, src *v1alpha1.GitSource, changes []change) {
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
	a.Events.Send(kube.Event{
		Object: src, Warning: true, Reason: "Restored", Action: "Follow",
		Note: fmt.Sprintf("restoring %s as %s has it: change the repository instead", strings.Join(names, ", "),
			revisionText(src.Status.AppliedRevision)),
	})
}

// controllerManager is the field manager of the controller's writes other than server-side apply, such as
// spec.configuration of a pool.
const controllerManager = "machine-config-controller"

// changedBy returns ` (changed by kubectl-edit)` if the last field manager that changed a spec is not the source.
// changedBy works for MachineConfigs and MachineConfigPools. changedBy returns "" if the manager is unknown.
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
	last := kube.LastManager(ctx, live, o, "f:spec")
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

// storeContent stores a content in RevisionContent objects, unless these exist, and returns the digest of the content.
// Kubernetes deletes the RevisionContent objects together with the GitSource. If those of an earlier GitSource of this
// name still exist, storeContent replaces them, because Kubernetes is about to delete them.
func storeContent(ctx context.Context, c client.Client, live client.Reader, src *v1alpha1.GitSource,
	content revision.Content,
) (string, error) {
	parts, digest, err := revision.Encode(content)
	if err != nil {
		return "", err
	}
	for i, data := range parts {
		o := &v1alpha1.RevisionContent{ObjectMeta: metav1.ObjectMeta{
			Name: contentName(src.Name, digest, i), Labels: map[string]string{v1alpha1.SourceLabel: src.Name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "GitSource",
				Name: src.Name, UID: src.UID,
			}},
		}}
		o.Spec = v1alpha1.RevisionContentSpec{
			Source: src.Name, Digest: digest, Part: int32(i),
			Parts: int32(len(parts)), Data: data,
		}
		err := c.Create(ctx, o)
		if apierrors.IsAlreadyExists(err) {
			err = replaceForeign(ctx, c, live, o)
		}
		if err != nil {
			return "", fmt.Errorf("keeping the content of a revision, RevisionContent %q: %w", o.Name, err)
		}
	}
	return digest, nil
}

// replaceForeign replaces an existing RevisionContent, unless it has the same owner.
func replaceForeign(ctx context.Context, c client.Client, live client.Reader, want *v1alpha1.RevisionContent) error {
	is := &v1alpha1.RevisionContent{}
	if err := live.Get(ctx, client.ObjectKeyFromObject(want), is); err != nil {
		return err // Also if it has gone meanwhile: the next attempt creates it.
	}
	for _, owner := range is.OwnerReferences {
		if owner.UID == want.OwnerReferences[0].UID {
			return nil
		}
	}
	if err := c.Delete(ctx, is, client.Preconditions{UID: &is.UID}); client.IgnoreNotFound(err) != nil {
		return err
	}
	want.ResourceVersion = ""
	return c.Create(ctx, want)
}

// errContentLost means that the RevisionContent objects of a digest are missing or incomplete.
var errContentLost = errors.New("the content of the revision is lost")

// loadContent reads a content that storeContent stored. loadContent returns errContentLost if a retry cannot help.
func loadContent(ctx context.Context, live client.Reader, src *v1alpha1.GitSource,
	digest string,
) (revision.Content, error) {
	var parts [][]byte
	for n := 1; len(parts) < n; {
		o := &v1alpha1.RevisionContent{}
		name := contentName(src.Name, digest, len(parts))
		if err := live.Get(ctx, client.ObjectKey{Name: name}, o); apierrors.IsNotFound(err) {
			return revision.Content{}, fmt.Errorf("reading RevisionContent %q: %w: %w", name, errContentLost, err)
		} else if err != nil {
			return revision.Content{}, fmt.Errorf("reading RevisionContent %q: %w", name, err)
		}
		if len(parts) > 0 && int(o.Spec.Parts) != n {
			return revision.Content{}, fmt.Errorf("reading RevisionContent %q: %w: it has another number of parts "+
				"than the first one", name, errContentLost)
		}
		n, parts = int(o.Spec.Parts), append(parts, o.Spec.Data)
	}
	out, err := revision.Decode(parts, digest)
	if err != nil {
		return out, fmt.Errorf("%w: %w", errContentLost, err)
	}
	return out, nil
}

// DeleteUnusedContents deletes the stored contents of a source that no restore can need any more.
func DeleteUnusedContents(ctx context.Context, c client.Client, live client.Reader, src *v1alpha1.GitSource) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("RevisionContentList"))
	if err := live.List(ctx, list, client.MatchingLabels{v1alpha1.SourceLabel: src.Name}); err != nil {
		return fmt.Errorf("listing RevisionContents of GitSource %q: %w", src.Name, err)
	}
	keep := []string{src.Status.AppliedContent}
	if a := src.Status.Applying; a != nil {
		keep = append(keep, a.Base)
	}
	for i := range list.Items {
		o := &list.Items[i]
		if isPartOf(o.Name, src.Name, keep) {
			continue
		}
		if err := c.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting RevisionContent %q: %w", o.Name, err)
		}
	}
	return nil
}

// isPartOf reports whether a RevisionContent is part of one of the contents.
func isPartOf(name, source string, digests []string) bool {
	for _, d := range digests {
		if d != "" && strings.HasPrefix(name, contentPrefix(source, d)) {
			return true
		}
	}
	return false
}

// contentName returns the name of the RevisionContent object with one part of a content.
func contentName(source, digest string, part int) string {
	return fmt.Sprintf("%s%d", contentPrefix(source, digest), part)
}

// contentPrefix returns the beginning of the names of the RevisionContent objects with all parts of a content.
func contentPrefix(source, digest string) string {
	hash := strings.TrimPrefix(digest, "sha256:")
	return fmt.Sprintf("%s-%s-", source, hash[:min(len(hash), 20)])
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
