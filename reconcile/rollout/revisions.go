package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/workqueue"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// NewSecretRevisionsCache adds a cache with only the ConfigMap of published revisions to the manager. The controller
// may read only this one of its namespace, so the manager's own cache cannot read it.
func NewSecretRevisionsCache(mgr ctrl.Manager) (cache.Cache, error) {
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultNamespaces: map[string]cache.Config{
			v1alpha1.ServerNamespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name",
				v1alpha1.SecretsConfigMap)},
		},
		DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, fmt.Errorf("creating a cache for ConfigMap %q: %w", v1alpha1.SecretsConfigMap, err)
	}
	if err := mgr.Add(c.(manager.Runnable)); err != nil {
		return nil, fmt.Errorf("adding the cache for ConfigMap %q: %w", v1alpha1.SecretsConfigMap, err)
	}
	return c, nil
}

// SecretRevisions are the published revisions of secrets. It is safe for use by several goroutines.
type SecretRevisions struct {
	mu sync.Mutex
	// replaced and never changed, because decisions may still read it
	published map[string]v1alpha1.SecretsRevision
	// by rendered config
	refers *lru.Cache[string, bool]
}

// NewSecretRevisions returns SecretRevisions without any revision.
func NewSecretRevisions() *SecretRevisions {
	refers, _ := lru.New[string, bool](maxKnownConfigs) // It fails only for a size below 1.
	return &SecretRevisions{refers: refers}
}

// Published returns what the cluster says about secrets now.
func (r *SecretRevisions) Published() poolstate.Published {
	r.mu.Lock()
	defer r.mu.Unlock()
	return poolstate.Published{Revisions: r.published, Refers: r.refersTo}
}

func (r *SecretRevisions) refersTo(config string) bool {
	refers, _ := r.refers.Get(config)
	return refers
}

// Handler stores each version of the ConfigMap, and enqueues all pools.
func (r *SecretRevisions) Handler(pools client.Reader) handler.TypedEventHandler[*corev1.ConfigMap, reconcile.Request] {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	every := kube.EveryPool(pools)
	return handler.TypedFuncs[*corev1.ConfigMap, reconcile.Request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*corev1.ConfigMap], q queue) {
			r.set(e.Object.Data)
			every.Create(ctx, event.CreateEvent{Object: e.Object}, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.ConfigMap], q queue) {
			r.set(e.ObjectNew.Data)
			every.Update(ctx, event.UpdateEvent{ObjectOld: e.ObjectOld, ObjectNew: e.ObjectNew}, q)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*corev1.ConfigMap], q queue) {
			r.set(nil)
			every.Delete(ctx, event.DeleteEvent{Object: e.Object}, q)
		},
	}
}

// set stores the content of the ConfigMap. An entry that cannot be read counts as absent, so its config keeps the
// revision that nodes have.
func (r *SecretRevisions) set(data map[string]string) {
	published := make(map[string]v1alpha1.SecretsRevision, len(data))
	for config, text := range data {
		var entry v1alpha1.SecretsRevision
		if json.Unmarshal([]byte(text), &entry) == nil {
			published[config] = entry
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.published = published
}

// maxKnownConfigs limits for how many rendered configs it is stored whether they refer to secrets.
const maxKnownConfigs = 1000

// Examine finds out whether a rendered config refers to secrets; read returns it, or nil if it does not exist. One
// without a published revision may refer to secrets too: a server publishes it after the controller has rendered the
// config.
func (r *SecretRevisions) Examine(config string, read func() (*mcfgv1.MachineConfig, error)) error {
	if config == "" || r.refers.Contains(config) {
		return nil
	}
	mc, err := read()
	if err != nil || mc == nil {
		return err // the rollout reports a missing config
	}
	r.refers.Add(config, refersToSecrets(mc))
	return nil
}

// refersToSecrets reports whether a rendered config, or that of a single node, has files whose contents the server
// resolves. One with an invalid reference has some. One that cannot be parsed has none, and daemons refuse it.
func refersToSecrets(mc *mcfgv1.MachineConfig) bool {
	c, err := machineconfig.Parse(mc.Spec)
	if err != nil {
		return false
	}
	files, err := machineconfig.SecretFiles(c)
	// an invalid one counts as absent
	of, _ := v1alpha1.ParseNodeConfigs(mc.Annotations[v1alpha1.NodeConfigsAnnotation])
	return err != nil || len(files) > 0 || of.Secrets
}
