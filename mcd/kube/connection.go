package kube

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/health"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// Connection is a connection to the API server. Connection connects at the first use, and again after the server
// rejected the credentials. So the agent can finish an earlier update without the API server, and a node without a
// kubeconfig waits for the kubeconfig. With each connection, it learns from the credentials which Node this machine is,
// because certificates rotate, and a machine may join under another name than it booted with. Connection is safe for
// use by several goroutines.
type Connection struct {
	// said is the name of the Node as the user gave it, or "".
	said       string
	loadConfig func() (*rest.Config, error)
	configs    *configs

	// connecting is locked during an attempt to connect, which may take as long as a call.
	connecting sync.Mutex
	mu         sync.Mutex
	client     *Client
	// name is the last known name of the Node.
	name string
	host string
	// answered is when the API server last answered a request of the daemon.
	answered time.Time
}

// LastAnswer returns when the API server last answered a request of the daemon; zero for never.
func (l *Connection) LastAnswer() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answered
}

// NewConnection returns a Connection that is not connected yet. The function load reads the kubeconfig before each new
// connection. The credentials in it decide which Node this machine is; the parameter node confirms that, or decides if
// the credentials are of no node. It may be "".
func NewConnection(node string, load func() (*rest.Config, error)) *Connection {
	l := &Connection{said: node, name: node, loadConfig: load}
	l.FindServers(ServerOptions{})
	return l
}

// FindServers configures how the connection finds the machine-config-servers. The caller must call FindServers before
// the first read.
func (l *Connection) FindServers(o ServerOptions) {
	l.configs = &configs{cluster: l, servers: &servers{ServerOptions: o, cluster: l}}
}

// Name returns the name of the Node of this machine. The error wraps report.ErrUnreachable.
func (l *Connection) Name() (string, error) {
	kube, err := l.connect()
	if err != nil {
		return "", err
	}
	return kube.node, nil
}

// lastName returns the last known name of the Node; "" before the first connection, if no user gave it.
func (l *Connection) lastName() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.name
}

func (l *Connection) connected() *Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.client
}

// connect returns the existing client, or a new client.
func (l *Connection) connect() (*Client, error) {
	l.connecting.Lock()
	defer l.connecting.Unlock()
	if kube := l.connected(); kube != nil {
		return kube, nil
	}
	config, err := l.loadConfig()
	if err != nil {
		return nil, &report.NotConnectedError{Err: err}
	}
	who, err := identify(context.Background(), config)
	if errors.Is(err, report.ErrUnreachable) {
		return nil, err
	}
	var name string
	if err == nil {
		name, err = who.nodeName(l.said)
	}
	if err != nil {
		return nil, &report.NotConnectedError{Err: err}
	}
	kube, err := New(config, name)
	if err != nil {
		return nil, &report.NotConnectedError{Err: err}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.name != name {
		l.configs.servers.logger().Info("the credentials of the kubelet name the Node of this machine", "node", name)
	}
	l.client, l.host, l.name = kube, config.Host, name
	return kube, nil
}

// identify returns the identity of the daemon for the API server. For a token, or a program that gets one, identify
// asks the API server.
func identify(ctx context.Context, config *rest.Config) (identity, error) {
	who, has, err := certificateIdentity(config)
	if has || err != nil {
		return who, err
	}
	if config.BearerToken == "" && config.BearerTokenFile == "" && config.ExecProvider == nil &&
		config.AuthProvider == nil && config.Username == "" {
		return who, nil
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return who, err
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	answer, err := client.Resource(authenticationv1.SchemeGroupVersion.WithResource("selfsubjectreviews")).
		Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": authenticationv1.SchemeGroupVersion.String(), "kind": "SelfSubjectReview",
		}}, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) { // The API server does not say it.
		return who, nil
	}
	if err != nil {
		return who, fmt.Errorf("asking the API server which node this machine is: %w", markUnreachable(err))
	}
	var review authenticationv1.SelfSubjectReview
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, &review); err != nil {
		return who, fmt.Errorf("asking the API server which node this machine is: %w", err)
	}
	who.user = review.Status.UserInfo.Username
	if bound := review.Status.UserInfo.Extra[boundNode]; len(bound) == 1 {
		who.node = bound[0]
	}
	return who, nil
}

// dropIfUntrusted drops the client if the server or the client rejected the other side's credentials or certificate, or
// if the kubelet has a certificate for another name now.
func (l *Connection) dropIfUntrusted(err error) error {
	strange := apierrors.IsForbidden(err) || apierrors.IsNotFound(err)
	if apierrors.IsUnauthorized(err) || isUntrusted(err) || strange && l.isRenamed() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.client = nil
	}
	return err
}

// isRenamed reports whether the client certificate has another name than the Node of the connection. A client uses a
// new certificate without a new connection.
func (l *Connection) isRenamed() bool {
	config, err := l.loadConfig()
	if err != nil {
		return false
	}
	who, has, err := certificateIdentity(config)
	name, is := strings.CutPrefix(who.user, nodeUser)
	return has && err == nil && is && name != l.lastName()
}

// withClient calls a function with the connection's client.
func withClient[T any](l *Connection, call func(*Client) (T, error)) (T, error) {
	kube, err := l.connect()
	if err != nil {
		var none T
		return none, err
	}
	result, err := call(kube)
	if !errors.Is(err, report.ErrUnreachable) {
		l.mu.Lock()
		l.answered = time.Now()
		l.mu.Unlock()
	}
	return result, l.dropIfUntrusted(err)
}

// Node implements agent.Cluster.
func (l *Connection) Node(ctx context.Context) (report.Node, error) {
	return withClient(l, func(k *Client) (report.Node, error) { return k.Node(ctx) })
}

// SetAnnotations implements agent.Cluster.
func (l *Connection) SetAnnotations(ctx context.Context, annotations map[string]string) error {
	_, err := withClient(l, func(k *Client) (struct{}, error) { return struct{}{}, k.SetAnnotations(ctx, annotations) })
	return err
}

// Config implements agent.Cluster. Config requests the config from the machine-config-servers first, and from the API
// server if they do not serve it.
func (l *Connection) Config(ctx context.Context, name string) (mcfgv1.MachineConfig, error) {
	return l.configs.get(ctx, name)
}

// Rules implements agent.Cluster.
func (l *Connection) Rules(ctx context.Context) (plan.Rules, error) {
	return withClient(l, func(k *Client) (plan.Rules, error) { return k.Rules(ctx) })
}

// DriftRules implements agent.Cluster.
func (l *Connection) DriftRules(ctx context.Context, pool string) (drift.Policy, error) {
	return withClient(l, func(k *Client) (drift.Policy, error) { return k.DriftRules(ctx, pool) })
}

// Watch calls Client.Watch, and connects again if the connection is lost.
func (l *Connection) Watch(ctx context.Context, log *slog.Logger) <-chan struct{} {
	return watch(ctx, log, func(ctx context.Context, changed chan<- struct{}) error {
		_, err := withClient(l, func(k *Client) (struct{}, error) { return struct{}{}, k.watchOnce(ctx, changed) })
		return err
	})
}

// APIHealth classifies the error of a call to the API server for the health check. APIHealth implements
// agent.HealthOptions.API.
func (l *Connection) APIHealth(err error) health.API {
	l.mu.Lock()
	host := l.host
	l.mu.Unlock()
	return apiHealth(err, func() bool { return isThisMachine(host) })
}

const (
	// nodeUser begins the names of the users that are nodes.
	nodeUser = "system:node:"
	// boundNode is the extra field with the node to which a token of a service account is bound.
	boundNode = "authentication.kubernetes.io/node-name"
)

// identity is who the daemon is for the API server.
type identity struct {
	// user is the name of the user; "" if it is not known.
	user string
	// node is the node to which a token is bound; "" for none.
	node string
}

// nodeName returns the name of the Node object of this machine. The kubelet's identity has it, and --node-name, which
// is the parameter said, only confirms it: a host name differs from the name of the Node on many machines. For an
// identity that is of no node, said is the name.
func (i identity) nodeName(said string) (string, error) {
	name, is := strings.CutPrefix(i.user, nodeUser)
	if !is {
		name = i.node
	}
	switch {
	case name == "" && said != "":
		return said, nil
	case name == "" && i.user == "":
		return "", errors.New("the credentials in the kubeconfig do not name a node: name the Node with --node-name")
	case name == "":
		return "", fmt.Errorf("the kubeconfig has the credentials of %q, which is no node: name the kubeconfig of the "+
			"kubelet with --kubeconfig, or the Node with --node-name", i.user)
	case said == "" || strings.EqualFold(said, name): // Nodes have names in lower case, and hosts may not.
		return name, nil
	case is:
		return "", fmt.Errorf("this kubelet is %s, --node-name says %s: leave --node-name out, or name the kubeconfig "+
			"of that node's kubelet with --kubeconfig", name, said)
	}
	return "", fmt.Errorf("the token is bound to node %s, --node-name says %s: correct --node-name", name, said)
}

// certificateIdentity returns the identity in the client certificate of a kubeconfig; false if it has none.
func certificateIdentity(config *rest.Config) (who identity, has bool, _ error) {
	if user := config.Impersonate.UserName; user != "" {
		return identity{user: user}, true, nil
	}
	if len(config.CertData) == 0 && config.CertFile == "" {
		return who, false, nil
	}
	loaded := rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(loaded); err != nil {
		return who, true, fmt.Errorf("reading the client certificate of the kubeconfig: %w", err)
	}
	text := loaded.CertData
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" { // A kubelet's file also has the key.
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return who, true, fmt.Errorf("reading the client certificate of the kubeconfig: %w", err)
		}
		return identity{user: cert.Subject.CommonName}, true, nil
	}
	return who, true, errors.New("reading the client certificate of the kubeconfig: the file has no certificate")
}
