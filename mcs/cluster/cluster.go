package cluster

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/shelf"
	"github.com/bunsen-os/bunsen/mcs/token"
)

const (
	// tellAfter is how long the first look at the API server may take before the log says what keeps it, and what was kept
	// of an earlier life is served.
	tellAfter = 5 * time.Second
	// patience is how long a machine's request waits for one write to the API server, or a look at it.
	patience = 10 * time.Second
)

// Options of a Cluster. Shelf, Log and Now are needed.
type Options struct {
	// Shelf is filled.
	Shelf *shelf.Shelf
	// Serve says which config new machines get: v1alpha1.ServeHealthy, or ServeNewest. A pool's own choice wins.
	Serve string
	// Keeper has what is served while the API server is away at a start; nil keeps nothing.
	Keeper Keeper
	// Replica is who this server is.
	Replica Replica
	// Report is what this server does, but for its pools; nil writes no Lease.
	Report func() v1alpha1.ServerReport
	// KubeletCA is told, before anything is served and whenever it changes, by which CA the cluster's kubelets know the API
	// server's client certificate, as PEM. Nil: it is not asked for.
	KubeletCA func(pem []byte)
	// Log is told what changes and what does not work.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Replica is one of the servers of a cluster.
type Replica struct {
	// Name is its own among the replicas.
	Name string
	// Pod and PodUID name the pod that it runs in, whose end takes its Lease along; empty where it is none.
	Pod    string
	PodUID types.UID
}

// Cluster fills a shelf from an API server, knows its tokens, counts their uses and mints bootstrap tokens. All methods may
// be called at once, once New has returned.
//
// Reads: MachineConfigPool, ProvisioningToken (list, watch), MachineConfig (get), ConfigMap kube-system/extension-apiserver-authentication (get).
// Writes: ProvisioningToken.status, Secret in kube-system (create), its own Lease.
type Cluster struct {
	Options
	api    clients
	pools  *pools
	tokens *tokens
	ledger *ledger
	tally  *tally
	mints  chan struct{} // holds one of each that is under way
	minted allowance
	ca     []byte // the kubelets', as it was told last
}

// New prepares to read an API server into a shelf.
func New(config *rest.Config, o Options) (*Cluster, error) {
	api, err := newClients(config)
	if err != nil {
		return nil, err
	}
	if o.Keeper == nil {
		o.Keeper = keepsNothing{}
	}
	c := &Cluster{Options: o, api: api, mints: make(chan struct{}, mintsAtOnce)}
	if c.pools, err = newPools(api, o); err != nil {
		return nil, err
	}
	if c.tokens, err = newTokens(api, o); err != nil {
		return nil, err
	}
	c.ledger = &ledger{write: c.tokens.write, read: c.tokens.read, now: o.Now, lines: map[string][]*use{}}
	c.tally = &tally{tokens: c.tokens, log: o.Log, unwritten: map[string]*unwritten{}}
	return c, nil
}

// Token is what is known of a token, nil where there is none of that id. It is shared: nobody changes it.
func (c *Cluster) Token(id string) *v1alpha1.ProvisioningToken { return c.tokens.known(id) }

// Use counts one use of a token. For a token of so many uses it returns once the use is written, so that of two who have
// the last one only one gets it: nil, a *token.Refusal where the token is good no more, or any other error where it cannot
// be counted now. For a token of any number of uses it is nil at once, and the use is written soon.
func (c *Cluster) Use(ctx context.Context, id string, by v1alpha1.TokenUse) error {
	known := c.Token(id)
	switch {
	case known == nil:
		return &token.Refusal{ID: id, Reason: token.Unknown}
	case known.Spec.Uses == 0:
		c.tally.add(id, by)
		return nil
	}
	return c.ledger.use(ctx, known, by)
}

// Run reads until the context ends. The shelf is ready once every pool was looked at and every token is known, or, in part,
// while the API server does not answer, with what was kept. While the API server is away, the shelf keeps what it has. The error is nil
// after a stop that was asked for.
func (c *Cluster) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { c.pools.informer.RunWithContext(ctx) })
	parts.Go(func() { c.tokens.informer.RunWithContext(ctx) })
	parts.Go(func() { c.tokens.keep(ctx) })
	parts.Go(func() { c.tally.run(ctx) })
	parts.Go(func() { newBeat(c).run(ctx) })
	if !c.synced(ctx) {
		return nil // asked to stop before the API server answered
	}
	c.tokens.change() // those that went while nobody looked are kept no longer
	parts.Go(func() { c.followKubeletCA(ctx) })
	c.pools.run(ctx)
	return nil
}

// synced waits for the first list of everything, and tells what it waits for; the informers keep that to themselves. It is
// false when the context ends first.
func (c *Cluster) synced(ctx context.Context) bool {
	for first := true; ; first = false {
		soon, cancel := context.WithTimeout(ctx, tellAfter)
		done := cache.WaitForCacheSync(soon.Done(), c.pools.informer.HasSynced, c.tokens.informer.HasSynced)
		if done && !c.readKubeletCA(ctx) && c.ca == nil { // an earlier one, as it was kept, is better than to serve what pools said then
			done = false
			<-soon.Done() // until it is tried again
		}
		cancel()
		if done || ctx.Err() != nil {
			return done
		}
		c.Log.Warn("waiting for the API server", "error", c.probe(ctx))
		if first {
			c.serveKept()
		}
	}
}

// probe asks for what is waited for, and returns what is wrong with it.
func (c *Cluster) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tellAfter)
	defer cancel()
	if err := c.api.configs.Get().Resource("machineconfigpools").Param("limit", "1").Do(ctx).Error(); err != nil {
		return err
	}
	return c.api.tokens.Get().Resource("provisioningtokens").Param("limit", "1").Do(ctx).Error()
}

// serveKept fills the shelf with what was kept, so that machines boot while the API server is away.
func (c *Cluster) serveKept() {
	if c.KubeletCA != nil {
		ca, ok := c.Keeper.Get(kubeletCAKey)
		if !ok {
			return
		}
		c.ca = ca
		c.KubeletCA(ca)
	}
	configs := keptConfigs(c.Keeper, c.Log)
	if len(configs) == 0 {
		return
	}
	c.tokens.kept.Store(keptTokens(c.Keeper, c.Log))
	c.pools.putKept(configs)
	c.Shelf.SetPartial()
	c.Log.Warn("the API server does not answer: ready with what was kept", "pools", len(configs))
}
