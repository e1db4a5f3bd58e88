package cluster

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"golang.org/x/sync/semaphore"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/join"
)

const (
	// for the first read of the API server; then the server logs the reason and serves from its cache
	firstSyncTimeout = 5 * time.Second
	// of a machine, for one call of the API server
	requestTimeout = 10 * time.Second
)

// Options are the options of a Cluster. Pools, Log and Now are required.
type Options struct {
	Pools *mcs.Pools
	// Serve selects the config of new machines, v1alpha1.ServeHealthy or ServeNewest, unless a pool chooses.
	Serve string
	// Cache is for a start without the API server; nil caches nothing.
	Cache *Cache
	// Replica is this server.
	Replica Replica
	// Report is the status without pools; nil writes no Lease.
	Report func() v1alpha1.ServerReport
	// KubeletCA receives, as PEM, the CA of the API server's client certificate, which kubelets trust: before any
	// config is served, and after each change. If it is nil, new kubelets do not get this CA.
	KubeletCA func(pem []byte)
	// NodeCA receives the same CA after each change, because it signs the kubelets' certificates. Configs are served
	// also before that.
	NodeCA func(pem []byte)
	Log    *slog.Logger
	Now    func() time.Time
}

// Replica identifies one of the servers of a cluster.
type Replica struct {
	// unique among the replicas
	Name string
	// of the replica; empty outside a pod. Kubernetes deletes its Lease with the pod.
	Pod    string
	PodUID types.UID
}

// Cluster reads the configs of pools and the tokens from an API server, counts the uses of tokens and creates bootstrap
// tokens. All methods may be called concurrently after New has returned.
//
// Reads: MachineConfigPool, ProvisioningToken (list, watch), MachineConfig, Node (get), ConfigMap
// kube-system/extension-apiserver-authentication (get). Writes: ProvisioningToken.status, Secret in kube-system
// (create), its own Lease.
type Cluster struct {
	Options
	api         clients
	pools       *pools
	tokens      *tokens
	limited     *limitedUses
	unlimited   *unlimitedUses
	nodes       *nodes
	tokenLimits ShareLimits
	ca          []byte // ca is the CA that KubeletCA and NodeCA last received.
}

// New prepares to read an API server.
func New(config *rest.Config, o Options) (*Cluster, error) {
	api, err := newClients(config)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Options: o, api: api}
	if c.pools, err = newPools(api, o); err != nil {
		return nil, err
	}
	if c.tokens, err = newTokens(api, o); err != nil {
		return nil, err
	}
	c.limited = newLimitedUses(c.tokens, o.Now)
	c.unlimited = &unlimitedUses{tokens: c.tokens, log: o.Log, pending: map[string]*pendingUses{}}
	c.nodes = newNodes(api, c.pools, o)
	o.Pools.SetReader(c.nodes.machineConfig)
	return c, nil
}

func newTokens(api clients, o Options) (*tokens, error) {
	list := cache.NewListWatchFromClient(api.tokens, "provisioningtokens", "", fields.Everything())
	t := &tokens{
		client:   api.tokens,
		informer: cache.NewSharedIndexInformer(list, &v1alpha1.ProvisioningToken{}, 0, nil),
		cache:    o.Cache,
		changed:  make(chan struct{}, 1),
		log:      o.Log,
	}
	return t, watch(t.informer, "tokens", o.Log, func(string) { t.markChanged() })
}

func newPools(api clients, o Options) (*pools, error) {
	list := cache.NewListWatchFromClient(api.configs, "machineconfigpools", "", fields.Everything())
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)
	p := &pools{
		served:       o.Pools,
		serveDefault: o.Serve,
		cache:        o.Cache,
		client:       api.configs,
		informer:     cache.NewSharedIndexInformer(list, &mcfgv1.MachineConfigPool{}, 0, nil),
		queue:        workqueue.NewTypedRateLimitingQueue(limiter),
		log:          o.Log,
		states:       map[string]poolState{},
	}
	return p, watch(p.informer, "pools", o.Log, p.queue.Add)
}

func newNodes(api clients, p *pools, o Options) *nodes {
	n := &nodes{
		api: api, pools: p, cache: o.Cache, log: o.Log, turns: semaphore.NewWeighted(maxConfigReads),
		changed: make(chan struct{}, 1), contents: map[string][]byte{}, own: newOwnConfigs(o.Cache, o.Log),
	}
	var err error
	if n.stored, err = lru.New[string, []string](maxStored); err != nil {
		panic(err) // The only possible error is a size that is not positive.
	}
	return n
}

func newLimitedUses(t *tokens, now func() time.Time) *limitedUses {
	l := &limitedUses{store: t.write, read: t.read, now: now}
	l.batches.Write = l.write
	return l
}

func newClients(config *rest.Config) (clients, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		mcfgv1.Install, v1alpha1.AddToScheme, corev1.AddToScheme,
		coordinationv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return clients{}, fmt.Errorf("preparing the API client: %w", err)
		}
	}
	config = rest.CopyConfig(config)
	config.QPS = noRateLimit
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	connection, err := rest.HTTPClientFor(config)
	if err != nil {
		return clients{}, fmt.Errorf("preparing the API client: %w", err)
	}
	var c clients
	for _, group := range []struct {
		client  *rest.Interface
		version schema.GroupVersion
		path    string
	}{
		{&c.configs, mcfgv1.GroupVersion, "/apis"},
		{&c.tokens, v1alpha1.GroupVersion, "/apis"},
		{&c.core, corev1.SchemeGroupVersion, "/api"},
		{&c.leases, coordinationv1.SchemeGroupVersion, "/apis"},
	} {
		if *group.client, err = clientFor(*config, group.version, group.path, connection); err != nil {
			return clients{}, err
		}
	}
	return c, nil
}

func clientFor(config rest.Config, version schema.GroupVersion, path string,
	connection *http.Client,
) (rest.Interface, error) {
	config.GroupVersion, config.APIPath = &version, path
	client, err := rest.RESTClientForConfigAndClient(&config, connection)
	if err != nil {
		return nil, fmt.Errorf("preparing the API client for %s: %w", version, err)
	}
	return client, nil
}

// Token returns a token by its id, or nil. Callers share the token and must not change it.
func (c *Cluster) Token(id string) *v1alpha1.ProvisioningToken { return c.tokens.get(id) }

// Use counts one use of a token. With a limited number, it returns after the use is written, so that only one of two
// requests gets the last. The error is a *join.InvalidError if the token is no longer valid; any other means that the
// use cannot be counted now. For an unlimited token, it returns nil at once and the use is written later.
func (c *Cluster) Use(ctx context.Context, id string, use v1alpha1.TokenUse) error {
	known := c.Token(id)
	if known == nil {
		return &join.InvalidError{ID: id, Reason: join.Unknown}
	}
	use.ID = rand.Text()
	if known.Spec.Uses == 0 {
		c.unlimited.add(id, 1, use)
		return nil
	}
	return c.limited.count(ctx, known, use)
}

// Run reads the API server until the context ends, and then returns nil. It marks the pools as ready after it has read
// all pools and tokens once, or before that with those of the cache if the API server is unreachable. During an outage,
// the pools do not change.
func (c *Cluster) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { c.pools.informer.RunWithContext(ctx) })
	parts.Go(func() { c.tokens.informer.RunWithContext(ctx) })
	parts.Go(func() { c.tokens.runCache(ctx) })
	parts.Go(func() { c.unlimited.run(ctx) })
	parts.Go(func() { c.nodes.runCache(ctx) })
	parts.Go(func() { (&heartbeat{Cluster: c, name: leaseName(c.Replica.Name)}).run(ctx) })
	if !c.waitForSync(ctx) {
		return nil // The context ended before the API server answered.
	}
	c.tokens.markChanged() // Tokens that were deleted while this server did not run must disappear from the cache.
	parts.Go(func() { c.followKubeletCA(ctx) })
	c.pools.run(ctx)
	return nil
}

// waitForSync waits for the first list of all informers, and logs why it waits, because they do not; false if the
// context ends first.
func (c *Cluster) waitForSync(ctx context.Context) bool {
	for first := true; ; first = false {
		limited, cancel := context.WithTimeout(ctx, firstSyncTimeout)
		done := cache.WaitForCacheSync(limited.Done(), c.pools.informer.HasSynced, c.tokens.informer.HasSynced)
		// A cached CA is better than pools from the cache.
		if done && !c.readKubeletCA(ctx) && c.ca == nil {
			done = false
			<-limited.Done() // Wait until the next attempt.
		}
		cancel()
		if done || ctx.Err() != nil {
			return done
		}
		c.Log.Warn("waiting for the API server", "error", c.probe(ctx))
		if first {
			c.serveCached()
		}
	}
}

// probe sends the requests whose answers waitForSync waits for.
func (c *Cluster) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, firstSyncTimeout)
	defer cancel()
	if err := c.api.configs.Get().Resource("machineconfigpools").Param("limit", "1").Do(ctx).Error(); err != nil {
		return err
	}
	return c.api.tokens.Get().Resource("provisioningtokens").Param("limit", "1").Do(ctx).Error()
}

// serveCached lets machines boot while the API server is unreachable.
func (c *Cluster) serveCached() {
	if ca, ok := c.Cache.Get(kubeletCAKey); ok {
		c.setCA(ca)
	} else if c.KubeletCA != nil {
		return
	}
	configs := c.Cache.configs()
	if len(configs) == 0 {
		return
	}
	known := c.Cache.tokens()
	c.tokens.cached.Store(&known)
	c.pools.setCached(configs)
	c.Pools.SetPartial()
	c.Log.Warn("the API server is unreachable: serving from the cache", "pools", len(configs))
}

// clients share one connection to one API server.
type clients struct {
	configs rest.Interface // configs reads MachineConfigPools and MachineConfigs.
	tokens  rest.Interface // tokens reads and writes ProvisioningTokens.
	core    rest.Interface // core reads and writes Secrets and ConfigMaps.
	leases  rest.Interface
}

// noRateLimit: the server already limits the requests of machines, and the API server its clients (by the status 429,
// after which the client retries). When thousands of machines boot, a third limit would only queue requests until they
// time out.
const noRateLimit = -1
