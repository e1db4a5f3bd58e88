package gitsource

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/pools"
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// sourceOwner is the field manager of every field that a GitSource applies.
const sourceOwner = client.FieldOwner("bunsen-source")

// ErrOvertaken means that the caller of Apply ended it, because the repository has a newer commit.
var ErrOvertaken = errors.New("the repository has a newer commit")

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

// release removes the source's fields from an object. release applies the object without fields, and the API server
// then removes the fields that have no other owner.
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

// gvk returns the API type of the object.
func (ch change) gvk() schema.GroupVersionKind {
	if ch.kind == revision.KindMachineConfig {
		return mcfgv1.GroupVersion.WithKind(revision.KindMachineConfig)
	}
	return revision.Kinds[ch.kind]
}

// changeVerb is the kind of a change.
type changeVerb string

const (
	// applyObject: the change applies an object server-side.
	applyObject changeVerb = "applying"
	// deleteObject: the change deletes an object that the revision no longer contains.
	deleteObject changeVerb = "deleting"
	// releaseObject: the change removes the source's fields from an object that must stay.
	releaseObject changeVerb = "releasing"
	// resetObject: the change restores an object that the source did not own before.
	resetObject changeVerb = "restoring"
)

// change is one write to the cluster.
type change struct {
	verb       changeVerb
	kind, name string
	// object is the object to apply or restore.
	object *unstructured.Unstructured
	// config is the fragment from which object was created; nil for other kinds.
	config *mcfgv1.MachineConfig
	// uid is the UID of the object to delete.
	uid types.UID
	// at is the place in the repository as `file:line: `; empty if it is unknown.
	at string
}
