package http

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/join"
)

// Source has the config that each pool serves.
type Source interface {
	// NodeConfig returns the config that a pool serves to the machine of a node, which may be empty. The error wraps
	// mcs.ErrUnknownPool, mcs.ErrNothingRendered or mcs.ErrNotSynced.
	NodeConfig(pool, node string) (*mcs.ServedConfig, error)
	// Ready reports whether the server knows any pools. Before the server knows a pool, it serves no config.
	Ready() bool
	// Synced reports whether the server knows all pools and tokens. Before, an unknown one may still appear.
	Synced() bool
}

// Tokens gives access to the provisioning tokens.
type Tokens interface {
	// Token returns the token with the given id, or nil. The handler does not change the returned token.
	Token(id string) *v1alpha1.ProvisioningToken
	// Use counts a use of a token before the response is sent. A *join.InvalidError says that it is no longer valid.
	// After any other error, the use cannot be counted now, and the machine has to retry.
	Use(ctx context.Context, id string, use v1alpha1.TokenUse) error
}

// BootstrapTokens creates bootstrap tokens.
type BootstrapTokens interface {
	// CreateBootstrapToken creates a token of mcs.BootstrapTokenLength characters for one machine.
	CreateBootstrapToken(ctx context.Context, machine mcs.JoiningMachine) (string, error)
}

// Options are the options of Routes. Source and Log are required.
type Options struct {
	Source Source
	// Tokens is nil if every token is unknown.
	Tokens Tokens
	// BootstrapTokens is nil if configs that need a bootstrap token are not served.
	BootstrapTokens BootstrapTokens
	// Nodes is zero if no node is served.
	Nodes Nodes
	// Content is zero without a content store.
	Content Content
	// Daemons are binaries for new machines, at most one for each architecture.
	Daemons join.Binaries
	// ClientCAs sign the client certificates that authorize machines. Server needs the same.
	ClientCAs *ClientCAFile
	// Access without a token or certificate.
	Access Access
	// Limits of each source; zero sets none. DefaultLimits returns reasonable ones.
	Limits Limits
	// Audit gets one line of JSON for each response, one Write at a time; nil for none.
	Audit io.Writer
	Log   *slog.Logger
	// Now is time.Now if nil.
	Now func() time.Time
}

// Nodes has the data that nodes read with the certificates of their kubelets.
type Nodes struct {
	// CAs sign the certificates of kubelets. Server needs the same.
	CAs *ClientCASet
	// Configs is nil if the server does not serve nodes.
	Configs NodeConfigs
	// Trust is nil if nodes get no certificates besides their configs.
	Trust NodeTrust
	// Secrets is nil where configs cannot refer to secrets.
	Secrets Secrets
	// Content returns nil if a node may read the file of the content store with a hash, and an *mcs.NotForNodeError if
	// it may not. Any other error means that this is not known now. It is nil if the server has no content store.
	Content func(ctx context.Context, node, hash string) error
}

// Secrets has the resolved contents of the files that refer to secrets.
type Secrets interface {
	// NodeSecrets returns a v1alpha1.NodeSecrets as JSON. The error is an *mcs.NotForNodeError if the node may not read
	// the config, mcs.ErrNoSuchConfig if the config has no such files, and mcs.ErrSecretsUnresolved if their contents
	// are not known. Any other error means that the answer is not known now.
	NodeSecrets(ctx context.Context, node, config string) ([]byte, error)
	// Resolved returns the contents for a machine of the config's pool, and whether they are known.
	Resolved(config string) (mcs.Secrets, bool)
}

// NodeTrust decides which certificates a node gets besides its config.
type NodeTrust interface {
	// NodeTrust returns a v1alpha1.NodeTrust as JSON, and its revision. The text is nil if the node knows it. The error
	// is an *mcs.NotForNodeError if the node is in no pool. Any other means that the answer is not known now.
	NodeTrust(ctx context.Context, node, known string) (text []byte, revision string, err error)
}

// NodeConfigs decides which configs a node may read.
type NodeConfigs interface {
	// NodeConfig returns a rendered config as JSON. The error is an *mcs.NotForNodeError if the node may not read it,
	// and mcs.ErrNoSuchConfig if there is none. Any other means that it cannot be read now.
	NodeConfig(ctx context.Context, node, config string) ([]byte, error)
}

// Routes returns the handler of /config/<pool>, /daemon/<arch>/<pool>, /node/config/<name>, /node/secrets/<name>,
// /node/content/<hash>, /content/<hash>, /content/oci/<artifact>, /node/trust, /healthz and /readyz. Any other path
// gets a 404, and any method other than GET and HEAD a 405. The metrics count the responses of /config/ and /node/.
func Routes(o Options) (http.Handler, *Metrics) {
	if o.Now == nil {
		o.Now = time.Now
	}
	metrics := newMetrics()
	log := &requestLog{log: o.Log, audit: o.Audit, metrics: metrics, errors: errorLines.Limiter()}
	authorizer := authorizer{
		tokens: o.Tokens, clients: o.ClientCAs, access: o.Access, limits: NewLimiter(o.Limits), answers: &mcs.Turns{},
	}
	mux := http.NewServeMux()
	configs := &configHandler{
		source:          o.Source,
		tokens:          o.Tokens,
		bootstrapTokens: o.BootstrapTokens,
		secrets:         o.Nodes.Secrets,
		content:         o.Content,
		authorizer:      authorizer,
		log:             log,
		now:             o.Now,
	}
	mux.Handle("GET /config/", configs)
	if o.Content.Open != nil {
		streams := &Streams{Total: maxStreams}
		node := &nodeConfigHandler{nodes: o.Nodes}
		mux.Handle("GET "+v1alpha1.ContentPath, &contentHandler{streams: streams, configHandler: configs})
		mux.Handle("GET "+v1alpha1.NodeContentPath, &contentHandler{
			nodes: node, streams: streams,
			configHandler: configs,
		})
	}
	if len(o.Daemons) > 0 {
		mux.Handle("GET /daemon/{arch}/{pool}", &daemonHandler{
			binaries: o.Daemons, authorizer: authorizer,
			synced: o.Source.Synced, log: log, now: o.Now,
		})
	}
	for prefix, isServed := range map[string]bool{
		v1alpha1.NodeConfigPath:  o.Nodes.Configs != nil,
		v1alpha1.NodeTrustPath:   o.Nodes.Trust != nil,
		v1alpha1.NodeSecretsPath: o.Nodes.Secrets != nil,
	} {
		if isServed {
			mux.Handle("GET "+prefix, &nodeConfigHandler{
				nodes: o.Nodes, prefix: prefix, authorizer: authorizer, log: log, now: o.Now,
			})
		}
	}
	probes := NewLimiter(o.Limits)
	mux.Handle("GET /healthz", probe{o.Access, probes, func() bool { return true }, o.Now})
	mux.Handle("GET /readyz", probe{o.Access, probes, o.Source.Ready, o.Now})
	return mux, metrics
}

// probe responds to health probes with 200 or 503 and no body, and with 403 to addresses that are not allowed. Those of
// this host always are, because the kubelet probes a pod in the host's network from them. Probes have the limit of
// configs, but a budget of their own, so that a load balancer that hides addresses gets a response while thousands of
// machines boot.
type probe struct {
	access Access
	limits *Limiter
	ready  func() bool
	now    func() time.Time
}

// ServeHTTP responds to one probe.
func (h probe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from := ClientAddress(r.RemoteAddr)
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	status := http.StatusOK
	switch {
	case !IsAllowedAddress(h.access.AllowFrom, from) && !IsLocalAddress(from, local):
		status = http.StatusForbidden
	case !h.limits.Request(from, h.now()), !h.ready():
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(status)
}
