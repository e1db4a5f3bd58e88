package http

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/content"
	"github.com/bunsen-os/bunsen/mcs/join"
)

// Source has the config that each pool serves.
type Source interface {
	// NodeConfig returns the config that a pool serves to the machine of a node, which may be empty. The error wraps
	// mcs.ErrUnknownPool, mcs.ErrNothingRendered or mcs.ErrNotSynced.
	NodeConfig(pool, node string) (*mcs.ServedConfig, error)
	// Started reports whether the server knows any pools. Before the server knows a pool, it serves no config.
	Started() bool
	// Ready reports whether a load balancer should prefer this server. One that has lost the API server is not ready,
	// and still serves what it knows.
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
	mux.Handle("GET /config/", &configHandler{
		source:          o.Source,
		tokens:          o.Tokens,
		bootstrapTokens: o.BootstrapTokens,
		secrets:         o.Nodes.Secrets,
		content:         o.Content,
		authorizer:      authorizer,
		log:             log,
		now:             o.Now,
	})
	if o.Content.Open != nil {
		toMachines := contentHandler{
			content: o.Content, streams: &Streams{Total: maxStreams}, authorizer: authorizer, log: log, now: o.Now,
		}
		toNodes := toMachines
		toNodes.nodes = &o.Nodes
		mux.Handle("GET "+v1alpha1.ContentPath, &toMachines)
		mux.Handle("GET "+v1alpha1.NodeContentPath, &toNodes)
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

// vary: the request headers that a response depends on: a cache before the server must store a response, also of an
// error, for each combination
const vary = "Accept, Accept-Encoding, Authorization"

// headersWithin is for all that comes before the headers of an answer: the share of the token, creating a bootstrap
// token and counting the use of a token; then the machine has to retry. Ignition waits 10 s for the headers, and a use
// that is counted later would be lost.
const headersWithin = 7 * time.Second

// configHandler serves /config/<pool>, in this order: authorization, limits, pool, version, body, bootstrap token, use
// of the token. Later parts cost more, or cannot be undone.
type configHandler struct {
	source          Source
	tokens          Tokens
	bootstrapTokens BootstrapTokens
	secrets         Secrets // nil where no config refers to secrets
	content         Content
	authorizer      authorizer
	log             *requestLog
	now             func() time.Time
}

type response struct {
	pool        string
	known       bool // known is true if the pool exists, and the client may know that it exists.
	from        netip.Addr
	client      client
	config      *mcs.ServedConfig // config is nil if the pool serves no config.
	format      mcs.ServedFormat
	body        mcs.ServedBody
	withoutBody bool

	status int
	sent   int64
	err    error
	subject
}

// subject is what a request is about besides the config of a pool.
type subject struct {
	// requested by a node; empty for the config of a pool
	nodeConfig string
	// the architecture of the requested daemon; empty for a config
	daemon string
	// the requested file, see mcs.ContentName, if isContent; empty if the path names none
	content   string
	isContent bool
}

// ServeHTTP serves one request.
func (h *configHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := h.now()
	a := response{pool: poolOf(r.URL.Path), from: ClientAddress(r.RemoteAddr)}
	defer h.recover(w, r, &a, now)
	w.Header().Set("Vary", vary)
	if a.err = h.serve(w, r, &a, now); a.status == 0 {
		a.status = writeError(w, a.err)
	}
	h.log.add(r, &a, now)
}

// poolOf returns the pool of a path /config/<pool>; "" for a path with more elements: a proxy that allows paths by
// prefix would not see the pool at the end.
func poolOf(urlPath string) string {
	name := strings.TrimPrefix(urlPath, "/config/")
	if strings.Contains(name, "/") {
		return ""
	}
	return name
}

// recover turns a panic into an error response, or breaks off one that has started, and logs it: net/http would write
// it to a log of its own.
func (h *configHandler) recover(w http.ResponseWriter, r *http.Request, a *response, now time.Time) {
	p := recover()
	if p == nil {
		return
	}
	isStarted := a.status != 0
	a.err = &httpError{
		status: http.StatusInternalServerError, reason: "Panic", message: "the config cannot be served",
		cause: fmt.Errorf("a panic: %v", p),
	}
	if !isStarted {
		a.status = writeError(w, a.err)
	}
	h.log.add(r, a, now)
	if isStarted {
		panic(http.ErrAbortHandler)
	}
}

// serve returns why it cannot serve a request, and leaves a.status 0 then.
func (h *configHandler) serve(w http.ResponseWriter, r *http.Request, a *response, now time.Time) error {
	ctx, cancel := context.WithTimeout(r.Context(), headersWithin)
	defer cancel()
	err := h.authorizer.checkAddress(a.from)
	if err != nil {
		return err
	}
	if !h.source.Started() { // The server may not have read the tokens yet either.
		return cmp.Or(h.authorizer.checkSource(a.from, now), error(mcs.ErrNotSynced))
	}
	if err = h.authorizer.admit(ctx, r, a, h.source.Synced(), now); err != nil {
		return err
	}
	if err = h.selectBody(r, a); err != nil {
		return err
	}
	if matches(r.Header.Get("If-None-Match"), a.body.ETag) {
		a.status = http.StatusNotModified
		setHeaders(w.Header(), a)
		w.WriteHeader(a.status)
		return nil
	}
	bootstrapToken := ""
	if r.Method == http.MethodGet {
		if bootstrapToken, err = h.prepare(ctx, a, now); err != nil {
			return err
		}
	}
	a.status = http.StatusOK
	setHeaders(w.Header(), a)
	if r.Method == http.MethodHead {
		w.WriteHeader(a.status)
		return nil
	}
	return send(h.authorizer.answer(w, r, a), a, bootstrapToken)
}

func (h *configHandler) selectBody(r *http.Request, a *response) error {
	if a.pool == "" {
		return fmt.Errorf("the path names no pool, as /config/worker does: %w", mcs.ErrUnknownPool)
	}
	var err error
	a.config, err = h.source.NodeConfig(a.pool, a.client.node)
	a.known = !errors.Is(err, mcs.ErrUnknownPool)
	if err != nil {
		return fmt.Errorf("serving pool %q: %w", mcs.SafeName(a.pool), err)
	}
	if a.format.Version, err = mcs.Negotiate(headerList(r, "Accept")); err != nil {
		return err
	}
	a.format.Gzip = mcs.AcceptsGzip(headerList(r, "Accept-Encoding"))
	a.format.Withhold = a.client.node == "" && !h.authorizer.access.SecretsToAll
	if a.withoutBody = r.Method == http.MethodHead && a.config.NeedsContent(); a.withoutBody {
		// Each host and port has a body of its own, and a token with one use allows any number of these requests.
		return a.config.Servable()
	}
	a.body, err = h.body(r, a)
	if err == nil && len(a.body.Head) == 0 {
		err = errors.New("the body is empty: its creation was not finished")
	}
	return err
}

func headerList(r *http.Request, name string) string { return strings.Join(r.Header.Values(name), ",") }

// body returns the body in the format of a response. A machine whose token or certificate names its node gets the
// secrets of the config. Others boot without, and get them after they have joined.
func (h *configHandler) body(r *http.Request, a *response) (mcs.ServedBody, error) {
	access, err := h.access(r, a)
	if err != nil {
		return mcs.ServedBody{}, err
	}
	if a.client.node != "" && !a.format.Withhold && h.secrets != nil {
		if resolved, ok := h.secrets.Resolved(a.config.Name()); ok {
			return a.config.BodyWithSecrets(a.format, resolved, access)
		}
	}
	return a.config.Body(a.format, access)
}

// access says how the machine reads files from the server; nil if its config has none.
func (h *configHandler) access(r *http.Request, a *response) (*mcs.ContentAccess, error) {
	if !a.config.NeedsContent() || h.content.Identity == nil {
		return nil, nil
	}
	access, err := content.Access(h.content.Identity(), r.Host, a.pool, h.now())
	return &access, err
}

// prepare creates the bootstrap token that the body needs, or returns "", and then counts the use of the provisioning
// token. The count comes last, because an unused bootstrap token expires by itself, but a counted use stays counted.
func (h *configHandler) prepare(ctx context.Context, a *response, now time.Time) (bootstrapToken string, err error) {
	if a.body.NeedsBootstrapToken() {
		bootstrapToken, err = h.createBootstrapToken(ctx, a)
		if share := new(mcs.ShareError); errors.As(err, &share) {
			return "", unavailable("ShareSpent", share.Error(), err)
		}
		if err != nil {
			return "", unavailable("CannotMint", "no bootstrap token can be created", err)
		}
	}
	if !a.client.usedToken() {
		return bootstrapToken, nil
	}
	use := v1alpha1.TokenUse{
		Time: metav1.NewTime(now), Address: a.from.String(), Config: a.config.Name(),
		Commit: a.config.Commit(),
	}
	err = h.tokens.Use(ctx, a.client.token, use)
	var invalid *join.InvalidError
	switch {
	case err == nil:
		return bootstrapToken, nil
	case errors.As(err, &invalid):
		return "", err
	}
	return "", unavailable("CannotCount", "the use of the provisioning token cannot be counted", err)
}

func (h *configHandler) createBootstrapToken(ctx context.Context, a *response) (string, error) {
	if h.bootstrapTokens == nil {
		return "", errors.New("this server has no API server to create one in")
	}
	machine := mcs.JoiningMachine{Pool: a.pool, Node: a.client.node, Address: a.from.String(), Attested: !a.client.open}
	switch {
	case a.client.usedToken():
		machine.Token = a.client.token
	case !a.client.open:
		machine.Certificate = a.client.certificate
	}
	text, err := h.bootstrapTokens.CreateBootstrapToken(ctx, machine)
	if err == nil && len(text) != mcs.BootstrapTokenLength {
		err = fmt.Errorf("the token has %d characters instead of %d", len(text), mcs.BootstrapTokenLength)
	}
	return text, err
}

// matches compares an If-None-Match header with an ETag, by the weak comparison (RFC 9110, section 13.1.2).
func matches(header, etag string) bool {
	if header == "" {
		return false
	}
	etag = strings.TrimPrefix(etag, "W/")
	for tag := range strings.SplitSeq(header, ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		if tag == "*" || tag == etag {
			return true
		}
	}
	return false
}

// setHeaders sets the headers of a response with a config, or of one that says that it has not changed. Clients may
// cache a config without secrets if they revalidate it, and none with secrets or with grants.
func setHeaders(header http.Header, a *response) {
	cacheControl := "no-store"
	if a.format.Withhold && !a.body.NeedsBootstrapToken() && !a.config.NeedsContent() {
		cacheControl = "private, no-cache"
	}
	header.Set("Cache-Control", cacheControl)
	if a.withoutBody {
		header.Set("Content-Type", "application/json")
		return
	}
	header.Set("ETag", a.body.ETag)
	if a.status == http.StatusNotModified {
		return
	}
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(a.body.Len()))
	if a.format.Gzip {
		header.Set("Content-Encoding", "gzip")
	}
}

// send writes the body and waits until the connection has taken all of it.
func send(w http.ResponseWriter, a *response, bootstrapToken string) error {
	var err error
	if a.sent, err = a.body.WriteTo(w, bootstrapToken); err == nil {
		err = http.NewResponseController(w).Flush()
	}
	if err != nil {
		return fmt.Errorf("sending the config: %w", err)
	}
	return nil
}

// So many answers are sent at a time: in all, for one token or certificate, and for one of them at one source. More
// would only end later, and a machine with another token, or at another source, would wait for all of them.
const (
	answersAtOnce      = 256
	answersOfProof     = answersAtOnce / 2
	answersOfProofHere = answersOfProof / 2
)

const (
	// turnBytes of an answer are sent in one turn: the whole of an ordinary config.
	turnBytes = 2 << 20
	// leastTurn is the size in bytes from which a part of an answer needs a turn: less costs less than to wait.
	leastTurn = 4 << 10
	// turnTime is the longest turn. Then the client is slow, not the server, and the next answer begins beside it.
	turnTime = 250 * time.Millisecond
)

// turnWriter sends an answer in turns. Before the first one it sends the headers, so that a client that waits for them
// only for some seconds, as Ignition does, waits for the body.
type turnWriter struct {
	http.ResponseWriter
	ctx   context.Context
	turns *mcs.Turns
	of    holder
}

// Write sends bytes. The error is that of the context if the client has gone before its turn.
func (w turnWriter) Write(all []byte) (sent int, err error) {
	for len(all) > 0 && err == nil {
		part := all[:min(len(all), turnBytes)]
		n := 0
		n, err = w.turn(part)
		sent += n
		all = all[n:]
	}
	return sent, err
}

func (w turnWriter) turn(part []byte) (int, error) {
	if len(part) < leastTurn {
		return w.ResponseWriter.Write(part)
	}
	if err := http.NewResponseController(w.ResponseWriter).Flush(); err != nil {
		return 0, err
	}
	end, err := w.turns.Take(w.ctx, mcs.Limit{Key: w.of, Most: answersOfProofHere},
		mcs.Limit{Key: w.of.proof, Most: answersOfProof}, mcs.Limit{Most: answersAtOnce})
	if err != nil {
		return 0, err
	}
	end = sync.OnceFunc(end)
	defer time.AfterFunc(turnTime, end).Stop()
	defer end()
	return w.ResponseWriter.Write(part)
}

// Unwrap is for http.ResponseController.
func (w turnWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

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
