package pools

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Deleted stores the last state of deleted standard pools until they are created again. The zero value stores none. If
// it is lost, so are the records of a pool that is deleted at that moment.
type Deleted struct {
	last sync.Map // name → *mcfgv1.MachineConfigPool
}

// Predicate passes every event, and stores the last state of a standard pool that is deleted.
func (d *Deleted) Predicate() predicate.Predicate {
	return predicate.Funcs{DeleteFunc: func(e event.DeleteEvent) bool {
		if p, ok := e.Object.(*mcfgv1.MachineConfigPool); ok && ContainsStandard(p.Name) {
			d.last.Store(p.Name, p)
		}
		return true
	}}
}

// CreateAgain creates a standard pool that a user deleted, with its records if this process saw the deletion.
// Otherwise, its last healthy config and the requester of its config are unknown.
func (d *Deleted) CreateAgain(ctx context.Context, c client.Client, events kube.Events, name string) error {
	text := "what its deletion removed, such as the history of its rollouts, is lost"
	last, seen := d.last.Load(name)
	if seen {
		text = "the controller restored its records; settings of users, such as a pause, are lost"
		if err := createWithRecords(ctx, c, last.(*mcfgv1.MachineConfigPool)); err != nil {
			return err
		}
	} else if err := ApplyStandard(ctx, c, name); err != nil {
		return err
	}
	d.last.Delete(name)
	pool := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	events.Send(kube.Event{
		Object: pool, Warning: true, Reason: "Restored", Action: "Render",
		Note: fmt.Sprintf("MachineConfigPool %s was deleted and is created again: every cluster has it; %s", name,
			text),
	})
	return nil
}

// createWithRecords creates a pool with the records of the deleted one: the controller's annotations, and the config to
// which these belong. A pool that a user has created meanwhile stays.
func createWithRecords(ctx context.Context, c client.Client, last *mcfgv1.MachineConfigPool) error {
	selectors := selectors(last.Name)
	pool := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{
		Name: last.Name, Labels: poolLabels(last.Name),
		Annotations: map[string]string{},
	}}
	pool.Spec.MachineConfigSelector, pool.Spec.NodeSelector = selectors[configSelectorField],
		selectors[nodeSelectorField]
	pool.Spec.Configuration.Name = last.Spec.Configuration.Name
	for _, key := range recordAnnotations {
		if text, ok := last.Annotations[key]; ok {
			pool.Annotations[key] = text
		}
	}
	pool.Annotations[v1alpha1.StandardAnnotation] = configSelectorField + "," + nodeSelectorField
	if err := c.Create(ctx, pool, kube.StandardPoolsManager); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating pool %q: %w", last.Name, err)
	}
	return nil
}

// recordAnnotations: the controller's records on a pool
var recordAnnotations = []string{
	v1alpha1.TargetAnnotation, v1alpha1.RolloutAnnotation, v1alpha1.RolloutHistoryAnnotation,
	v1alpha1.RevisionAnnotation, v1alpha1.SourceAnnotation,
	v1alpha1.SourceSpecAnnotation, v1alpha1.SelectedAnnotation, v1alpha1.NotRenderedAnnotation,
	v1alpha1.HoldAnnotation, v1alpha1.HeldRevisionAnnotation, v1alpha1.HeldByAnnotation, v1alpha1.HeldUntilAnnotation,
	v1alpha1.SteeredByAnnotation,
}

// nodeSelectors: kubeadm, k3s and OpenShift label control plane nodes. kubeadm and k3s set no role label on workers, so
// every other node is a worker.
var nodeSelectors = map[string][]metav1.LabelSelectorRequirement{
	"master": {
		{Key: "node-role.kubernetes.io/control-plane", Operator: metav1.LabelSelectorOpExists},
	},
	"worker": {
		{Key: "node-role.kubernetes.io/control-plane", Operator: metav1.LabelSelectorOpDoesNotExist},
		{Key: "node-role.kubernetes.io/master", Operator: metav1.LabelSelectorOpDoesNotExist},
	},
}

// What the controller sets in a standard pool's spec, as StandardAnnotation lists it.
const (
	configSelectorField = "machineConfigSelector"
	nodeSelectorField   = "nodeSelector"
)

// ContainsStandard reports whether a pool is a standard pool, which every cluster has.
func ContainsStandard(name string) bool { return nodeSelectors[name] != nil }

// StandardNames returns the names of the pools that every cluster has.
func StandardNames() []string { return slices.Sorted(maps.Keys(nodeSelectors)) }

func selectors(name string) map[string]*metav1.LabelSelector {
	return map[string]*metav1.LabelSelector{
		configSelectorField: {MatchLabels: map[string]string{v1alpha1.RoleLabel: name}},
		nodeSelectorField:   {MatchExpressions: slices.Clone(nodeSelectors[name])},
	}
}

// EnsureStandard creates the pools that are missing, and does not change the others.
func EnsureStandard(ctx context.Context, c client.Client, live client.Reader) error {
	for name := range nodeSelectors {
		pool := &mcfgv1.MachineConfigPool{}
		err := live.Get(ctx, client.ObjectKey{Name: name}, pool)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading pool %q: %w", name, err)
		}
		if err == nil && !lacksStandardAnnotation(pool) {
			continue
		}
		// A conflict means that a user has just created the pool.
		if err := ApplyStandard(ctx, c, name); err != nil && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

// lacksStandardAnnotation reports whether an older controller created the pool, and no user has changed it since.
func lacksStandardAnnotation(pool *mcfgv1.MachineConfigPool) bool {
	if _, ok := pool.Annotations[v1alpha1.StandardAnnotation]; ok || pool.Labels[v1alpha1.SourceLabel] != "" {
		return false
	}
	created := slices.ContainsFunc(pool.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == string(kube.StandardPoolsManager)
	})
	want := selectors(pool.Name)
	return created && equality.Semantic.DeepEqual(pool.Spec.NodeSelector, want[nodeSelectorField]) &&
		equality.Semantic.DeepEqual(pool.Spec.MachineConfigSelector, want[configSelectorField])
}

// ApplyStandard sets the fields of the pool that no other field manager owns. A conflict that remains is an error.
func ApplyStandard(ctx context.Context, c client.Client, name string) error {
	fields := []string{configSelectorField, nodeSelectorField}
	err := applyFields(ctx, c, name, fields)
	if decided := conflictingFields(err); len(decided) > 0 {
		fields = slices.DeleteFunc(fields, func(f string) bool { return slices.Contains(decided, f) })
		err = applyFields(ctx, c, name, fields)
	}
	if err != nil {
		return fmt.Errorf("creating pool %q: %w", name, err)
	}
	return nil
}

func poolLabels(name string) map[string]string {
	return map[string]string{
		"pools.operator.machineconfiguration.openshift.io/" + name: "",
		"machineconfiguration.openshift.io/mco-built-in":           "",
	}
}

func applyFields(ctx context.Context, c client.Client, name string, fields []string) error {
	spec := map[string]any{}
	for field, selector := range selectors(name) {
		if slices.Contains(fields, field) {
			spec[field] = selectorObject(selector)
		}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(mcfgv1.GroupVersion.WithKind("MachineConfigPool"))
	u.SetName(name)
	u.SetLabels(poolLabels(name))
	u.SetAnnotations(map[string]string{v1alpha1.StandardAnnotation: strings.Join(fields, ",")})
	return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), kube.StandardPoolsManager)
}

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

// conflictingFields are owned by other field managers, by the conflict error of an apply.
func conflictingFields(err error) []string {
	var status apierrors.APIStatus
	if !apierrors.IsConflict(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var out []string
	for _, cause := range status.Status().Details.Causes {
		path := strings.Split(cause.Field, ".") // The path looks like .spec.nodeSelector.matchExpressions.
		if cause.Type == metav1.CauseTypeFieldManagerConflict && len(path) > 2 && path[1] == "spec" {
			out = append(out, path[2])
		}
	}
	return out
}

// RestoreStandard restores the fields of a standard pool that the controller set and a user changed, and reports
// whether it did. Pools of a GitSource, and those that a user created, stay.
func RestoreStandard(ctx context.Context, c client.Client, live client.Reader, events kube.Events,
	pool *mcfgv1.MachineConfigPool,
) (bool, error) {
	if !ContainsStandard(pool.Name) || pool.Labels[v1alpha1.SourceLabel] != "" {
		return false, nil
	}
	fixed := pool.DeepCopy()
	var changed []string
	want := selectors(pool.Name)
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
	if last := kube.LastManager(ctx, live, pool, "f:spec", "f:"+strings.TrimPrefix(changed[0], "spec.")); last != nil {
		by = " by " + last.Manager
	}
	if err := c.Patch(ctx, fixed, client.MergeFromWithOptions(pool, client.MergeFromWithOptimisticLock{}),
		kube.StandardPoolsManager); err != nil {
		return false, fmt.Errorf("restoring pool %q: %w", pool.Name, err)
	}
	events.Send(kube.Event{
		Object: pool, Warning: true, Reason: "Restored", Action: "Render",
		Note: fmt.Sprintf("restored %s of MachineConfigPool %s, changed through the API%s; to keep such a change, "+
			"describe the pool in cluster/ of a GitSource's repository", strings.Join(changed, " and "), pool.Name, by),
	})
	return true, nil
}
