package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// sourceOwner is the field manager of all that a GitSource applies.
const sourceOwner = client.FieldOwner("bunsen-source")

// tryAll asks the API server about every change without making one, and returns all its refusals: a revision that the server
// would refuse in part is not begun.
func tryAll(ctx context.Context, c client.Client, changes []change) error {
	var errs []error
	for _, ch := range changes {
		err := ch.write(ctx, c, true)
		if err == nil {
			continue
		}
		if !isRefusal(err) { // the server did not judge it, so it would not judge the others either
			return err
		}
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return fault.NewStalled(v1alpha1.ReasonApplyFailed, errors.Join(errs...))
	}
	return nil
}

// writeAll makes the changes in their order, and stops at the first that fails.
func writeAll(ctx context.Context, c client.Client, changes []change) error {
	for _, ch := range changes {
		err := ch.write(ctx, c, false)
		switch {
		case err == nil:
		case isRefusal(err):
			return fault.NewStalled(v1alpha1.ReasonApplyFailed, err)
		default:
			return err
		}
	}
	return nil
}

// isRefusal reports whether the API server understood a request and will not grant it, however often it is asked.
func isRefusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// write makes the change, or only asks whether it could be made.
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
	u := ch.object.DeepCopy() // the answer is written into it
	options := []client.ApplyOption{sourceOwner, client.ForceOwnership}
	if dryRun {
		options = append(options, client.DryRunAll)
	}
	err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), options...)
	switch {
	case err != nil || dryRun:
		return err
	case ch.config != nil:
		return exact(ctx, c, u, ch.config)
	case (&revision.Digests{}).OfObject(u) == u.GetAnnotations()[v1alpha1.DigestAnnotation]:
		return nil
	}
	revision.Replace(u, ch.object)
	return c.Update(ctx, u, sourceOwner)
}

// exact replaces the whole spec where others added fields that the fragment does not name: applying leaves those alone, and
// a fragment that never equals its file would block every pool.
func exact(ctx context.Context, c client.Client, applied *unstructured.Unstructured, want *mcfgv1.MachineConfig) error {
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

// release gives up the source's fields: applying an object that names none removes exactly those that nobody else owns.
func (ch change) release(ctx context.Context, c client.Client, dryRun bool) error {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(ch.gvk())
	u.SetName(ch.name)
	if ch.kind == revision.KindMachineConfiguration || ch.kind == revision.KindDriftPolicy || ch.kind == revision.KindRolloutPolicy {
		u.Object["spec"] = map[string]any{}
	}
	options := []client.ApplyOption{sourceOwner, client.ForceOwnership}
	if dryRun {
		options = append(options, client.DryRunAll)
	}
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), options...); err != nil || dryRun {
		return err
	}
	if _, standard := standardPools[ch.name]; standard && ch.kind == revision.KindMachineConfigPool {
		return applyStandardPool(ctx, c, ch.name)
	}
	return nil
}

// reset puts an object back as it was before it became the source's. What controllers and administrators write on a pool
// stays. An object that is not there is an error, for the cache may be late: the next plan asks the API server.
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
		if v, ok, _ := unstructured.NestedFieldCopy(live.Object, "spec", field); ok && ch.kind == revision.KindMachineConfigPool {
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

// gvk is the API type of the object.
func (ch change) gvk() schema.GroupVersionKind {
	if ch.kind == revision.KindMachineConfig {
		return mcfgv1.GroupVersion.WithKind(revision.KindMachineConfig)
	}
	return clusterKinds[ch.kind]
}
