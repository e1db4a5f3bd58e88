package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// standardOwner is the field manager of the pools that every cluster has.
const standardOwner = client.FieldOwner("bunsen-standard-pools")

// standardPools maps the two pools to the labels that make a node theirs. kubeadm, k3s and OpenShift all label the
// control plane; kubeadm and k3s give workers no role label at all, so a worker is every other node.
var standardPools = map[string][]metav1.LabelSelectorRequirement{
	"master": {
		{Key: "node-role.kubernetes.io/control-plane", Operator: metav1.LabelSelectorOpExists},
	},
	"worker": {
		{Key: "node-role.kubernetes.io/control-plane", Operator: metav1.LabelSelectorOpDoesNotExist},
		{Key: "node-role.kubernetes.io/master", Operator: metav1.LabelSelectorOpDoesNotExist},
	},
}

// The fields of a standard pool's spec that the controller sets, as StandardAnnotation lists them.
const (
	configSelectorField = "machineConfigSelector"
	nodeSelectorField   = "nodeSelector"
)

// standardSelectors are the fields that the controller sets, by their names.
func standardSelectors(name string) map[string]*metav1.LabelSelector {
	return map[string]*metav1.LabelSelector{
		configSelectorField: {MatchLabels: map[string]string{v1alpha1.RoleLabel: name}},
		nodeSelectorField:   {MatchExpressions: slices.Clone(standardPools[name])},
	}
}

// ensureStandardPools creates the pools that are missing. An existing pool stays as it is.
func ensureStandardPools(ctx context.Context, c client.Client, live client.Reader) error {
	for name := range standardPools {
		pool := &mcfgv1.MachineConfigPool{}
		err := live.Get(ctx, client.ObjectKey{Name: name}, pool)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading pool %q: %w", name, err)
		}
		if err == nil && !lacksStandardAnnotation(pool) {
			continue
		}
		if err := applyStandardPool(ctx, c, name); err != nil && !apierrors.IsConflict(err) { // a conflict: a user has just created it
			return err
		}
	}
	return nil
}

// lacksStandardAnnotation reports whether a controller without StandardAnnotation created the pool, and nobody changed it since.
func lacksStandardAnnotation(pool *mcfgv1.MachineConfigPool) bool {
	if _, ok := pool.Annotations[v1alpha1.StandardAnnotation]; ok || pool.Labels[v1alpha1.SourceLabel] != "" {
		return false
	}
	created := slices.ContainsFunc(pool.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == string(standardOwner) })
	want := standardSelectors(pool.Name)
	return created && equality.Semantic.DeepEqual(pool.Spec.NodeSelector, want[nodeSelectorField]) &&
		equality.Semantic.DeepEqual(pool.Spec.MachineConfigSelector, want[configSelectorField])
}

// applyStandardPool sets what nobody else decides about the pool: the fields that conflict with other field managers are left out.
// A conflict that remains is an error.
func applyStandardPool(ctx context.Context, c client.Client, name string) error {
	fields := []string{configSelectorField, nodeSelectorField}
	err := applyStandardFields(ctx, c, name, fields)
	if decided := conflictingFields(err); len(decided) > 0 {
		fields = slices.DeleteFunc(fields, func(f string) bool { return slices.Contains(decided, f) })
		err = applyStandardFields(ctx, c, name, fields)
	}
	if err != nil {
		return fmt.Errorf("creating pool %q: %w", name, err)
	}
	return nil
}

// createAgain creates a standard pool that a user deleted, with the records that it had where this process saw the deletion. Without them
// nobody knows any more what the pool was healthy with, and who asked for its config.
func createAgain(ctx context.Context, r *Render, name string) error {
	text := "what its deletion removed, such as the history of its rollouts, is lost"
	last, seen := r.deleted.Load(name)
	if seen {
		text = "its records are kept; what users set of it, such as a pause, is lost"
		if err := createStandardPool(ctx, r.Client, last.(*mcfgv1.MachineConfigPool)); err != nil {
			return err
		}
	} else if err := applyStandardPool(ctx, r.Client, name); err != nil {
		return err
	}
	r.deleted.Delete(name)
	pool := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	r.Events.Eventf(pool, nil, corev1.EventTypeWarning, "Restored", "Render",
		"MachineConfigPool %s was deleted and is created again: every cluster has it; %s", name, text)
	return nil
}

// deletions keeps the last state of a standard pool that is deleted. It passes every event.
func deletions(r *Render) predicate.Predicate {
	return predicate.Funcs{DeleteFunc: func(e event.DeleteEvent) bool {
		if p, ok := e.Object.(*mcfgv1.MachineConfigPool); ok && standardPools[p.Name] != nil {
			r.deleted.Store(p.Name, p)
		}
		return true
	}}
}

// createStandardPool creates a pool with the records of one that was deleted: the controller's annotations, and the config that they are
// about. Where a user has created it meanwhile, it stays as it is.
func createStandardPool(ctx context.Context, c client.Client, last *mcfgv1.MachineConfigPool) error {
	selectors := standardSelectors(last.Name)
	pool := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: last.Name, Labels: standardLabels(last.Name), Annotations: map[string]string{}}}
	pool.Spec.MachineConfigSelector, pool.Spec.NodeSelector = selectors[configSelectorField], selectors[nodeSelectorField]
	pool.Spec.Configuration.Name = last.Spec.Configuration.Name
	for _, key := range recordAnnotations {
		if text, ok := last.Annotations[key]; ok {
			pool.Annotations[key] = text
		}
	}
	pool.Annotations[v1alpha1.StandardAnnotation] = configSelectorField + "," + nodeSelectorField
	if err := c.Create(ctx, pool, standardOwner); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating pool %q: %w", last.Name, err)
	}
	return nil
}

// recordAnnotations are what the controller records on a pool.
var recordAnnotations = []string{
	v1alpha1.TargetAnnotation, v1alpha1.RolloutAnnotation, v1alpha1.RolloutHistoryAnnotation, v1alpha1.RevisionAnnotation, v1alpha1.SourceAnnotation,
	v1alpha1.SourceSpecAnnotation, v1alpha1.SelectedAnnotation, v1alpha1.NotRenderedAnnotation,
}

// standardLabels are those of a standard pool.
func standardLabels(name string) map[string]string {
	return map[string]string{
		"pools.operator.machineconfiguration.openshift.io/" + name: "",
		"machineconfiguration.openshift.io/mco-built-in":           "",
	}
}

func applyStandardFields(ctx context.Context, c client.Client, name string, fields []string) error {
	spec := map[string]any{}
	for field, selector := range standardSelectors(name) {
		if slices.Contains(fields, field) {
			spec[field] = selectorObject(selector)
		}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(mcfgv1.GroupVersion.WithKind("MachineConfigPool"))
	u.SetName(name)
	u.SetLabels(standardLabels(name))
	u.SetAnnotations(map[string]string{v1alpha1.StandardAnnotation: strings.Join(fields, ",")})
	return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), standardOwner)
}

// selectorObject is a selector as an apply configuration has it.
func selectorObject(s *metav1.LabelSelector) map[string]any {
	if len(s.MatchLabels) > 0 {
		labels := map[string]any{}
		for k, v := range s.MatchLabels {
			labels[k] = v
		}
		return map[string]any{"matchLabels": labels}
	}
	var list []any
	for _, r := range s.MatchExpressions {
		list = append(list, map[string]any{"key": r.Key, "operator": string(r.Operator)})
	}
	return map[string]any{"matchExpressions": list}
}

// conflictingFields are the fields of the spec about which other field managers decide, as the conflict of an apply names them.
func conflictingFields(err error) []string {
	var status apierrors.APIStatus
	if !apierrors.IsConflict(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var out []string
	for _, cause := range status.Status().Details.Causes {
		path := strings.Split(cause.Field, ".") // such as .spec.nodeSelector.matchExpressions
		if cause.Type == metav1.CauseTypeFieldManagerConflict && len(path) > 2 && path[1] == "spec" {
			out = append(out, path[2])
		}
	}
	return out
}

// restoreStandardPool puts back the fields of a standard pool that the controller set and a user changed; true where it did. The pool of a
// GitSource is the source's, and one that a user created is the user's.
func restoreStandardPool(ctx context.Context, r *Render, pool *mcfgv1.MachineConfigPool) (bool, error) {
	if _, standard := standardPools[pool.Name]; !standard || pool.Labels[v1alpha1.SourceLabel] != "" {
		return false, nil
	}
	fixed := pool.DeepCopy()
	var changed []string
	want := standardSelectors(pool.Name)
	for field := range strings.SplitSeq(pool.Annotations[v1alpha1.StandardAnnotation], ",") {
		have := &fixed.Spec.NodeSelector
		if field == configSelectorField {
			have = &fixed.Spec.MachineConfigSelector
		}
		if want[field] == nil || equality.Semantic.DeepEqual(*have, want[field]) {
			continue
		}
		*have = want[field]
		changed = append(changed, "spec."+field)
	}
	if len(changed) == 0 {
		return false, nil
	}
	by := ""
	if last := lastManager(ctx, r.Live, pool, "f:spec", "f:"+strings.TrimPrefix(changed[0], "spec.")); last != nil {
		by = " by " + last.Manager
	}
	if err := r.Client.Patch(ctx, fixed, client.MergeFromWithOptions(pool, client.MergeFromWithOptimisticLock{}), standardOwner); err != nil {
		return false, fmt.Errorf("restoring pool %q: %w", pool.Name, err)
	}
	r.Events.Eventf(pool, nil, corev1.EventTypeWarning, "Restored", "Render",
		"restored %s of MachineConfigPool %s, changed through the API%s; to keep such a change, describe the pool in cluster/ of a GitSource's repository",
		strings.Join(changed, " and "), pool.Name, by)
	return true, nil
}
