package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/transpile"
)

// sourceOwner is the field manager of all that a GitSource applies.
const sourceOwner = client.FieldOwner("bunsen-source")

// Kinds that a repository's cluster/ may hold.
var clusterKinds = map[string]schema.GroupVersionKind{
	"MachineConfigPool":    {Group: "machineconfiguration.openshift.io", Version: "v1", Kind: "MachineConfigPool"},
	"MachineConfiguration": {Group: "operator.openshift.io", Version: "v1", Kind: "MachineConfiguration"},
	"DriftPolicy":          {Group: "bunsen.dev", Version: "v1alpha1", Kind: "DriftPolicy"},
	"RolloutPolicy":        {Group: "bunsen.dev", Version: "v1alpha1", Kind: "RolloutPolicy"},
}

// applier puts one transpiled commit on the cluster: pools and policy first, so that a fragment's pool exists; then the
// fragments; then what is gone from the repository is deleted. It may die at any line: nothing renders until the caller
// has written the inventory that it returns.
type applier struct {
	client client.Client
	source *v1alpha1.GitSource
	seen   *render.Digests
	// live fragments by name, whoever owns them.
	live map[string]*mcfgv1.MachineConfig
}

// apply returns the complete inventory of res. On an error the inventory must not be recorded.
func (a *applier) apply(ctx context.Context, res transpile.Result) ([]v1alpha1.InventoryEntry, error) {
	var inventory []v1alpha1.InventoryEntry
	if err := a.conflicts(res.Fragments); err != nil {
		return nil, fault.NewStalled(v1alpha1.ReasonConflict, err)
	}
	for _, o := range res.Cluster {
		if err := a.cluster(ctx, o); err != nil {
			return nil, err
		}
		inventory = append(inventory, v1alpha1.InventoryEntry{Kind: o.Object.GetKind(), Name: o.Object.GetName(), Digest: o.Digest})
	}
	for _, f := range res.Fragments {
		digest, err := a.fragment(ctx, f)
		if err != nil {
			return nil, err
		}
		inventory = append(inventory, v1alpha1.InventoryEntry{Kind: render.KindMachineConfig, Name: f.Name, Digest: digest})
	}
	if !a.prunes() {
		left, err := a.left(inventory)
		if err != nil {
			return nil, err
		}
		inventory = append(inventory, left...)
	}
	sort.Slice(inventory, func(i, j int) bool {
		if inventory[i].Kind != inventory[j].Kind {
			return inventory[i].Kind < inventory[j].Kind
		}
		return inventory[i].Name < inventory[j].Name
	})
	if err := a.prune(ctx, inventory); err != nil {
		return nil, err
	}
	return inventory, nil
}

// conflicts refuses to take over what somebody else made, and names every case at once.
func (a *applier) conflicts(fragments []transpile.Fragment) error {
	var errs []error
	for _, f := range fragments {
		mc, ok := a.live[f.Name]
		if !ok || mc.Labels[v1alpha1.SourceLabel] == a.source.Name {
			continue
		}
		owner := "nobody (it was made through the API)"
		if other := mc.Labels[v1alpha1.SourceLabel]; other != "" {
			owner = fmt.Sprintf("GitSource %q", other)
		}
		file := ""
		if len(f.Origin.Files) > 0 {
			file = f.Origin.Files[0].Path + ": "
		}
		errs = append(errs, fmt.Errorf("%sMachineConfig %q exists already and belongs to %s; rename the file or delete that object; the label %s=%s on it hands it over", file, f.Name, owner, v1alpha1.SourceLabel, a.source.Name))
	}
	return errors.Join(errs...)
}

// fragment applies one fragment where the live object differs, and returns its digest.
func (a *applier) fragment(ctx context.Context, f transpile.Fragment) (string, error) {
	digest, err := render.Digest(f.MachineConfig)
	if err != nil {
		return "", err
	}
	files, err := json.Marshal(f.Origin.Files)
	if err != nil {
		return "", fmt.Errorf("writing the origin of %q: %w", f.Name, err)
	}
	if live, ok := a.live[f.Name]; ok {
		have, err := a.seen.Of(live)
		if err != nil {
			return "", err
		}
		if have == digest && live.Annotations[v1alpha1.DigestAnnotation] == digest && live.Annotations[v1alpha1.FileAnnotation] == string(files) {
			return digest, nil
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(f.MachineConfig)
	if err != nil {
		return "", fmt.Errorf("applying MachineConfig %q: %w", f.Name, err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(mcfgv1.GroupVersion.WithKind(render.KindMachineConfig))
	a.mark(u, digest)
	annotate(u, v1alpha1.FileAnnotation, string(files))
	dropNulls(u.Object)
	if err := a.write(ctx, u); err != nil {
		return "", err
	}
	return digest, a.exact(ctx, u, f, digest)
}

// exact replaces the whole spec where others added fields that we do not name: applying leaves those alone, and a
// fragment that never equals its file would keep every pool from rendering.
func (a *applier) exact(ctx context.Context, applied *unstructured.Unstructured, f transpile.Fragment, want string) error {
	live := &mcfgv1.MachineConfig{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(applied.Object, live); err != nil {
		return fmt.Errorf("reading MachineConfig %q back: %w", f.Name, err)
	}
	have, err := render.Digest(live)
	if err != nil || have == want {
		return err
	}
	live.Spec = f.MachineConfig.Spec
	live.Labels[v1alpha1.RoleLabel] = f.MachineConfig.Labels[v1alpha1.RoleLabel]
	if err := a.client.Update(ctx, live, sourceOwner); err != nil {
		return fmt.Errorf("restoring MachineConfig %q: %w", f.Name, err)
	}
	return nil
}

// cluster applies one object of cluster/ where the live one differs in a field that it names.
func (a *applier) cluster(ctx context.Context, o transpile.ClusterObject) error {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(o.Object.GroupVersionKind())
	err := a.client.Get(ctx, client.ObjectKeyFromObject(o.Object), live)
	if err == nil && holds(live, a.source.Name, o) {
		return nil
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading %s %q: %w", o.Object.GetKind(), o.Object.GetName(), err)
	}
	if other := live.GetLabels()[v1alpha1.SourceLabel]; other != "" && other != a.source.Name {
		return fault.NewStalled(v1alpha1.ReasonConflict, fmt.Errorf("%s:%d: %s %q belongs to GitSource %q already; keep it in one repository", o.File, o.Line, o.Object.GetKind(), o.Object.GetName(), other))
	}
	u := o.Object.DeepCopy()
	a.mark(u, o.Digest)
	return a.write(ctx, u)
}

func (a *applier) mark(u *unstructured.Unstructured, digest string) {
	labels := u.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v1alpha1.SourceLabel] = a.source.Name
	u.SetLabels(labels)
	annotate(u, v1alpha1.DigestAnnotation, digest)
}

func (a *applier) write(ctx context.Context, u *unstructured.Unstructured) error {
	err := a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), sourceOwner, client.ForceOwnership)
	switch {
	case err == nil:
		return nil
	case apierrors.IsInvalid(err):
		return fault.NewStalled(v1alpha1.ReasonApplyFailed, fmt.Errorf("applying %s %q: %w", u.GetKind(), u.GetName(), err))
	default:
		return fmt.Errorf("applying %s %q: %w", u.GetKind(), u.GetName(), err)
	}
}

func (a *applier) prunes() bool { return a.source.Spec.Prune == nil || *a.source.Spec.Prune }

// left are the fragments that are gone from the repository and that nobody prunes: the inventory names them as they are,
// for they are rendered, and a live fragment that it does not name would hold up every pool.
func (a *applier) left(inventory []v1alpha1.InventoryEntry) ([]v1alpha1.InventoryEntry, error) {
	named := map[string]bool{}
	for _, e := range inventory {
		named[e.Kind+"/"+e.Name] = true
	}
	var out []v1alpha1.InventoryEntry
	for name, mc := range a.live {
		if mc.Labels[v1alpha1.SourceLabel] != a.source.Name || named[render.KindMachineConfig+"/"+name] {
			continue
		}
		digest, err := a.seen.Of(mc)
		if err != nil {
			return nil, err
		}
		out = append(out, v1alpha1.InventoryEntry{Kind: render.KindMachineConfig, Name: name, Digest: digest})
	}
	return out, nil
}

// prune removes what this source owns and the inventory does not name.
func (a *applier) prune(ctx context.Context, inventory []v1alpha1.InventoryEntry) error {
	if !a.prunes() {
		return nil
	}
	keep := map[string]bool{}
	for _, e := range inventory {
		keep[e.Kind+"/"+e.Name] = true
	}
	for name, mc := range a.live {
		if mc.Labels[v1alpha1.SourceLabel] != a.source.Name || keep[render.KindMachineConfig+"/"+name] {
			continue
		}
		if err := a.client.Delete(ctx, mc, client.Preconditions{UID: &mc.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("pruning MachineConfig %q: %w", name, err)
		}
	}
	for kind, gvk := range clusterKinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(kind + "List"))
		if err := a.client.List(ctx, list, client.MatchingLabels{v1alpha1.SourceLabel: a.source.Name}); err != nil {
			return fmt.Errorf("listing %s objects to prune: %w", kind, err)
		}
		for i := range list.Items {
			if keep[kind+"/"+list.Items[i].Name] {
				continue
			}
			if err := a.letGo(ctx, gvk, list.Items[i].Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// letGo deletes a custom pool or a policy of ours, and gives up our fields of what the cluster cannot do without: applying
// an object that names no field removes exactly those that nobody else owns.
func (a *applier) letGo(ctx context.Context, gvk schema.GroupVersionKind, name string) error {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	u.SetName(name)
	_, standard := standardPools[name]
	if gvk.Kind == "DriftPolicy" || gvk.Kind == "RolloutPolicy" || gvk.Kind == "MachineConfigPool" && !standard {
		if err := a.client.Delete(ctx, u); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("pruning %s %q: %w", gvk.Kind, name, err)
		}
		return nil
	}
	if gvk.Kind == "MachineConfiguration" {
		u.Object["spec"] = map[string]any{}
	}
	if err := a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), sourceOwner, client.ForceOwnership); err != nil {
		return fmt.Errorf("letting go of %s %q: %w", gvk.Kind, name, err)
	}
	if gvk.Kind == "MachineConfigPool" {
		return applyStandardPool(ctx, a.client, name)
	}
	return nil
}

func annotate(u *unstructured.Unstructured, key, value string) {
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	u.SetAnnotations(annotations)
}

// dropNulls removes what the typed object writes for unset fields: server-side apply would claim them.
func dropNulls(m map[string]any) {
	for k, v := range m {
		switch v := v.(type) {
		case nil:
			delete(m, k)
		case map[string]any:
			dropNulls(v)
		}
	}
}
