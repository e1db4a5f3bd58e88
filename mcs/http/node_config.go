package http

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
)

// nodesOrganization is in every kubelet's certificate, as Kubernetes' Node authorization requires.
const nodesOrganization = "system:nodes"

const (
	// in place of a config's name in the logs, where a node reads what it trusts
	trustContent = "trust"
	// before a config's name in the logs, where a node reads its secrets
	secretsContent = "secrets-of-"
)

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

// nodeConfigHandler serves /node/config/<name>, /node/secrets/<name> or /node/trust to nodes, by the certificate of
// their kubelet. It checks in this order: limits, which node sends the request, whether it may read the config, the
// config itself.
type nodeConfigHandler struct {
	nodes      Nodes
	prefix     string // prefix is the path of the route: v1alpha1.NodeConfigPath, NodeSecretsPath or NodeTrustPath
	authorizer authorizer
	log        *requestLog
	now        func() time.Time
}

// ServeHTTP serves one request.
func (h *nodeConfigHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := h.now()
	name := strings.TrimPrefix(r.URL.Path, h.prefix)
	a := response{
		from: ClientAddress(r.RemoteAddr), pool: v1alpha1.RenderedPool(name),
		subject: subject{nodeConfig: name},
	}
	switch h.prefix {
	case v1alpha1.NodeTrustPath:
		a.nodeConfig = trustContent
	case v1alpha1.NodeSecretsPath:
		a.nodeConfig = secretsContent + name
	}
	if a.err = h.serve(w, r, &a, now); a.status == 0 {
		w.Header().Set(v1alpha1.ReasonHeader, httpErrorOf(a.err).reason)
		a.status = writeError(w, a.err)
	}
	if a.status == http.StatusNotModified { // each node asks twice a minute
		h.log.metrics.add(&a)
		return
	}
	h.log.add(r, &a, now)
}

// serve returns why it cannot serve a request, and leaves a.status 0 then.
func (h *nodeConfigHandler) serve(w http.ResponseWriter, r *http.Request, a *response, now time.Time) error {
	if err := h.authorizer.checkSource(a.from, now); err != nil {
		return err
	}
	// The client's certificate may expire before the next request.
	w.Header().Set("Connection", "close")
	err := h.nodes.identify(r, a)
	var config []byte
	var revision string
	if err == nil {
		config, revision, err = h.read(r, a.client.node, strings.TrimPrefix(r.URL.Path, h.prefix))
	}
	if refused := new(mcs.NotForNodeError); errors.Is(err, errNoNodeCertificate) || errors.As(err, &refused) {
		if !h.authorizer.limits.Failure(a.from, now) {
			return fmt.Errorf("%w: %w", errTooManyFailures, err)
		}
		return err
	}
	if err != nil {
		return err
	}
	a.status, a.known = http.StatusOK, true
	header := w.Header()
	if revision != "" {
		header.Set("ETag", strconv.Quote(revision))
	}
	if config == nil {
		a.status = http.StatusNotModified
		w.WriteHeader(a.status)
		return nil
	}
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Length", strconv.Itoa(len(config)))
	w.WriteHeader(a.status)
	if r.Method == http.MethodHead {
		return nil
	}
	sent, err := w.Write(config)
	if a.sent = int64(sent); err == nil {
		err = http.NewResponseController(w).Flush()
	}
	if err != nil {
		return fmt.Errorf("sending the config: %w", err)
	}
	return nil
}

// read returns what the node requests, and the revision of the certificates that it trusts. The text is nil if it has
// that revision. The error is an *mcs.NotForNodeError if it may not read the config.
func (h *nodeConfigHandler) read(r *http.Request, node, name string) (text []byte, revision string, err error) {
	ctx := r.Context()
	if h.prefix == v1alpha1.NodeTrustPath {
		text, revision, err = h.nodes.Trust.NodeTrust(ctx, node, strings.Trim(r.Header.Get("If-None-Match"), `"`))
		if refused := new(mcs.NotForNodeError); errors.As(err, &refused) {
			refused.Config = trustContent
		}
		return text, revision, err
	}
	if v1alpha1.RenderedPool(name) == "" || strings.Contains(name, "/") {
		return nil, "", &mcs.NotForNodeError{Node: node, Config: mcs.SafeName(name)}
	}
	if h.prefix == v1alpha1.NodeSecretsPath {
		text, err = h.nodes.Secrets.NodeSecrets(ctx, node, name)
		return text, "", err
	}
	text, err = h.nodes.Configs.NodeConfig(ctx, node, name)
	return text, "", err
}

// identify finds out which node sends a request, by the certificate of its kubelet.
func (n Nodes) identify(r *http.Request, a *response) error {
	if n.CAs != nil && n.CAs.Certificates() == nil {
		return errNoNodeCAs
	}
	if n.CAs == nil || r.TLS == nil || !n.CAs.Certificates().Issued(r.TLS.VerifiedChains) {
		return errNoNodeCertificate
	}
	leaf := r.TLS.PeerCertificates[0]
	a.client.certificate = leaf.Subject.String()
	node, isNode := strings.CutPrefix(leaf.Subject.CommonName, systemNodePrefix)
	if !isNode || node == "" || !slices.Contains(leaf.Subject.Organization, nodesOrganization) {
		return errNoNodeCertificate
	}
	a.client.node = node
	return nil
}
