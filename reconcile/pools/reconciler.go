package pools

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	corev1 "k8s.io/api/core/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"

	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// LabelKeysConfigMap is also in the admission policy and the controller's Role.
	LabelKeysConfigMap = "machine-config-pool-labels"
	fieldOwner         = client.FieldOwner("bunsen-pool-labels")
)

// LabelKeysReconciler writes the ConfigMap if it differs from the pools.
//
// Reads: MachineConfigPool, ConfigMap
// Writes: ConfigMap
type LabelKeysReconciler struct {
	// Client reads the pools from the manager's cache.
	Client client.Client
	// from a cache that contains this one alone
	ConfigMaps client.Reader
	// of the ConfigMap
	Namespace string
}

// RegisterLabelKeys adds the reconciler, for each change of a pool's spec, and each of the ConfigMap by another client.
func RegisterLabelKeys(mgr ctrl.Manager, namespace string) error {
	// The manager's cache cannot read it: the controller may read only this one of its namespace.
	configMaps, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultNamespaces: map[string]cache.Config{
			namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", LabelKeysConfigMap)},
		},
	})
	if err != nil {
		return fmt.Errorf("creating a cache for ConfigMap %q: %w", LabelKeysConfigMap, err)
	}
	if err := mgr.Add(configMaps.(manager.Runnable)); err != nil {
		return fmt.Errorf("adding the cache for ConfigMap %q: %w", LabelKeysConfigMap, err)
	}
	r := &LabelKeysReconciler{Client: mgr.GetClient(), ConfigMaps: configMaps, Namespace: namespace}
	return ctrl.NewControllerManagedBy(mgr).Named("pool-labels").
		Watches(&mcfgv1.MachineConfigPool{}, handler.EnqueueRequestsFromMapFunc(r.request),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Kind(configMaps, &corev1.ConfigMap{},
			&handler.TypedEnqueueRequestForObject[*corev1.ConfigMap]{})).
		Complete(r)
}

// request is always the same: all pools are read.
func (r *LabelKeysReconciler) request(context.Context, client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: r.key()}}
}

func (r *LabelKeysReconciler) key() client.ObjectKey {
	return client.ObjectKey{Namespace: r.Namespace, Name: LabelKeysConfigMap}
}

// Reconcile creates or corrects the ConfigMap, by an apply patch, because RBAC can limit the name of an object in a
// patch, but not in a POST. Entries that another client added go, because each makes the policy refuse a label.
func (r *LabelKeysReconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	pools := &mcfgv1.MachineConfigPoolList{}
	if err := r.Client.List(ctx, pools); err != nil {
		return reconcile.Result{}, fmt.Errorf("reading pools: %w", err)
	}
	data := LabelKeys(pools.Items)
	current := &corev1.ConfigMap{}
	err := r.ConfigMaps.Get(ctx, r.key(), current)
	switch {
	case apierrors.IsNotFound(err):
		err = r.Client.Apply(ctx, applycorev1.ConfigMap(LabelKeysConfigMap, r.Namespace).WithData(data), fieldOwner)
	case err == nil && !maps.Equal(current.Data, data):
		changed := current.DeepCopy()
		changed.Data = data
		err = r.Client.Patch(ctx, changed, client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{}),
			fieldOwner)
	}
	if apierrors.IsConflict(err) { // The cache is stale; an event will report the other client's change.
		return reconcile.Result{RequeueAfter: 200 * time.Millisecond}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("writing ConfigMap %q: %w", r.key(), err)
	}
	return reconcile.Result{}, nil
}

// LabelKeys returns the data of the ConfigMap: for each pool that selects nodes by labels the sorted label keys, one
// per line.
func LabelKeys(pools []mcfgv1.MachineConfigPool) map[string]string {
	data := map[string]string{}
	for _, pool := range pools {
		if keys := selectorKeys(pool.Spec.NodeSelector); len(keys) > 0 {
			data[pool.Name] = strings.Join(keys, "\n")
		}
	}
	return data
}

// selectorKeys returns the label keys of a selector, whatever the operator, without invalid ones, which the CRD allows:
// no Node can have such a label, and the policy would read a key with a line break as two.
func selectorKeys(selector *metav1.LabelSelector) []string {
	if selector == nil {
		return nil
	}
	var keys []string
	for key := range selector.MatchLabels {
		keys = append(keys, key)
	}
	for _, requirement := range selector.MatchExpressions {
		keys = append(keys, requirement.Key)
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { return len(validation.IsQualifiedName(key)) > 0 })
	slices.Sort(keys)
	return slices.Compact(keys)
}
