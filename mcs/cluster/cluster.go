package cluster

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"

	"github.com/bunsen-os/bunsen/mcs/join"
)

const (
	// firstSyncTimeout is how long the first read of the API server may take. After this time, the server logs the
	// reason and serves from its cache.
	firstSyncTimeout = 5 * time.Second
	// requestTimeout is how long a machine's request waits for one call of the API server.
	requestTimeout = 10 * time.Second
)

// Options are the options of a Cluster. Pools, Log and Now are required.
type Options struct {
	// Pools receives the config that each pool serves.
	Pools *mcs.Pools
	// Serve selects the config of new machines: v1alpha1.ServeHealthy or ServeNewest. A pool's own choice overrides
	// Serve.
	Serve string
	// Cache has the data that the server uses if the API server is unreachable at the start; nil caches nothing.
	Cache *Cache
	// Replica identifies this server.
	Replica Replica
	// Report returns the status of this server without its pools; nil writes no Lease.
	Report func() v1alpha1.ServerReport
	// KubeletCA receives, as PEM, the CA of the API server's client certificate, which kubelets trust. The server calls
	// KubeletCA before it serves any config, and after each change of this CA. If KubeletCA is nil, new kubelets do not
	// get this CA.
	KubeletCA func(pem []byte)
	// NodeCA receives the same CA as KubeletCA after each change, because this CA signs the kubelets' certificates. The
	// server serves configs even if NodeCA has not received a CA yet.
	NodeCA func(pem []byte)
	// Log is the log for changes and failures.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Replica identifies one of the servers of a cluster.
type Replica struct {
	// Name is unique among the replicas.
	Name string
	// Pod and PodUID identify the pod in which the replica runs. Kubernetes deletes the replica's Lease with the pod.
	// Pod and PodUID are empty outside a pod.
	Pod    string
	PodUID types.UID
}

// Cluster reads the configs of pools and the tokens from an API server. Cluster counts the uses of tokens and creates
// bootstrap tokens. All methods may be called concurrently after New has returned.
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

// Token returns a token by its id, or nil. Callers share the token and must not change it.
func (c *Cluster) Token(id string) *v1alpha1.ProvisioningToken { return c.tokens.get(id) }

// Use counts one use of a token. For a token with a limited number of uses, Use returns after the use is written, so
// that only one of two requests gets the last use. The error is a *join.InvalidError if the token is no longer valid.
// Any other error means that the server cannot count the use now. For an unlimited token, Use returns nil at once and
// writes the use later.
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

// Run reads the API server until the context ends. Run marks the pools as ready after it has read all pools and tokens
// once. If the API server is unreachable, Run makes the pools of the cache ready before it has read the cluster. During
// an outage of the API server, the pools do not change. The error is nil after the context ended.
func (c *Cluster) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { c.pools.informer.RunWithContext(ctx) })
	parts.Go(func() { c.tokens.informer.RunWithContext(ctx) })
	parts.Go(func() { c.tokens.runCache(ctx) })
	parts.Go(func() { c.unlimited.run(ctx) })
	parts.Go(func() { c.nodes.runCache(ctx) })
	parts.Go(func() { newHeartbeat(c).run(ctx) })
	if !c.waitForSync(ctx) {
		return nil // The context ended before the API server answered.
	}
	c.tokens.markChanged() // Tokens that were deleted while this server did not run must disappear from the cache.
	parts.Go(func() { c.followKubeletCA(ctx) })
	c.pools.run(ctx)
	return nil
}

// waitForSync waits until all informers have received their first list. waitForSync logs the reason for the wait,
// because informers do not log it. waitForSync returns false if the context ends first.
func (c *Cluster) waitForSync(ctx context.Context) bool {
	for first := true; ; first = false {
		limited, cancel := context.WithTimeout(ctx, firstSyncTimeout)
		done := cache.WaitForCacheSync(limited.Done(), c.pools.informer.HasSynced, c.tokens.informer.HasSynced)
		// Serving with a cached CA is better than serving pools from the cache.
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

// probe sends the requests whose answers waitForSync waits for, and returns the error.
func (c *Cluster) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, firstSyncTimeout)
	defer cancel()
	if err := c.api.configs.Get().Resource("machineconfigpools").Param("limit", "1").Do(ctx).Error(); err != nil {
		return err
	}
	return c.api.tokens.Get().Resource("provisioningtokens").Param("limit", "1").Do(ctx).Error()
}

// serveCached serves the cached configs, so that machines boot while the API server is unreachable.
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
