package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/report"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// maxCached is how many configs the cache contains. The content of a rendered config never changes.
	maxCached = 3
	// cacheTime is how long a config stays in the cache. The annotations of a config, which name the commit, may
	// change.
	cacheTime = 10 * time.Minute
)

// configs reads the configs of one node. configs reads from the machine-config-server, which serves a node only the
// configs of its pool. If no server serves the config and the node has the right, configs reads it through the API
// server. configs is safe for use by several goroutines.
type configs struct {
	cluster *Connection
	servers *servers

	mu    sync.Mutex
	cache []cachedConfig
	// source is where the last config was read. why is the logged reason for not reading from the server.
	source v1alpha1.ConfigSource
	why    string
}

// cachedConfig is a config that was read from a server.
type cachedConfig struct {
	config mcfgv1.MachineConfig
	at     time.Time
}

// get reads a config by name. The caller holds the lock of the machine, because get saves the servers' addresses.
func (c *configs) get(ctx context.Context, name string) (mcfgv1.MachineConfig, error) {
	if mc, known := c.cached(name); known {
		c.servers.savePublished(ctx) // A request that saves nothing may have read other addresses.
		return mc, nil
	}
	mc, serverErr := c.fromServers(ctx, name)
	c.servers.savePublished(ctx)
	if serverErr == nil || apierrors.IsNotFound(serverErr) {
		c.recordSource(v1alpha1.ConfigsFromServer, nil)
		if serverErr == nil {
			c.addToCache(mc)
		}
		return mc, serverErr
	}
	mc, err := withClient(c.cluster, func(k *Client) (mcfgv1.MachineConfig, error) { return k.Config(ctx, name) })
	if err == nil || apierrors.IsNotFound(err) {
		c.recordSource(v1alpha1.ConfigsFromAPIServer, serverErr)
		return mc, err
	}
	return mcfgv1.MachineConfig{}, &unavailableError{serverErr, err}
}

// fromServers requests a config from the servers, one after the other. If fromServers cannot reach or trust any server,
// it reads the servers' addresses again.
func (c *configs) fromServers(ctx context.Context, name string) (mcfgv1.MachineConfig, error) {
	return ask(ctx, c, func(client *http.Client, server, agent string) (mcfgv1.MachineConfig, error) {
		return fetchConfig(ctx, client, server, agent, name)
	})
}

// fetchConfig requests a config from one server. It returns a *serverError, or a NotFound error if the server reports
// that the config does not exist.
func fetchConfig(ctx context.Context, client *http.Client, server, agent, name string) (mcfgv1.MachineConfig, error) {
	got, err := send(ctx, client, server, agent, request{
		path: v1alpha1.NodeConfigPath + url.PathEscape(name),
		most: largestConfig,
	})
	if errors.Is(err, errNoSuchConfig) {
		err = apierrors.NewNotFound(machineConfigs.GroupResource(), name)
	}
	if err != nil {
		return mcfgv1.MachineConfig{}, err
	}
	fail := func(why string) (mcfgv1.MachineConfig, error) {
		return mcfgv1.MachineConfig{}, &serverError{url: server, code: got.code, why: oneLine(why)}
	}
	var mc mcfgv1.MachineConfig
	if err := json.Unmarshal(got.body, &mc); err != nil {
		return fail("it is not a MachineConfig in JSON")
	}
	if mc.Name != name {
		return fail(fmt.Sprintf("it is the config %q, not %q", mc.Name, name))
	}
	// The API server gave the name of the config, which is a hash of the content, so no server can serve other content
	// under this name. The daemon applies the form of the content that was hashed, because JSON decoders differ for
	// repeated keys.
	if mc.Spec, err = machineconfig.KeysOnce(mc.Spec); err != nil {
		return fail("its Ignition config is not JSON")
	}
	if is, err := machineconfig.RenderedName(v1alpha1.RenderedPool(name), mc.Spec); err != nil || is != name {
		return fail("its content does not match the name " + name)
	}
	return mc, nil
}

// ask calls a function for each server in turn. It continues with the next server only after a *serverError after which
// another server may answer. If ask cannot reach or trust any server, it reads the servers' addresses again.
func ask[T any](ctx context.Context, c *configs, call func(client *http.Client, server,
	agent string) (T, error),
) (T, error) {
	var none T
	config, err := c.cluster.loadConfig()
	if err != nil {
		return none, err
	}
	var failures []error
	var asked []string
	var trusted *x509.CertPool
	for _, fresh := range []bool{false, true} {
		urls, ca, err := c.servers.endpoints(ctx, fresh)
		if err != nil {
			return none, err
		}
		if fresh && slices.Equal(urls, asked) && ca.Equal(trusted) {
			break
		}
		asked, trusted = urls, ca
		client, err := serverClient(config, ca)
		if err != nil {
			return none, err
		}
		failures = nil
		unreached := true
		for _, server := range urls {
			got, err := call(client, server, config.UserAgent)
			var failed *serverError
			if !errors.As(err, &failed) || ctx.Err() != nil {
				return got, err
			}
			failures = append(failures, failed)
			unreached = unreached && failed.code == 0
			if !failed.isRetryable() {
				break
			}
		}
		if !unreached {
			break
		}
	}
	return none, joinFirst(failures)
}

// serverClient returns a client that trusts only one CA and has the client certificate of a kubeconfig. The servers are
// in the cluster's network, so the client follows no redirects and uses no proxy. The client reads the certificate
// files again when the kubelet renews them.
func serverClient(config *rest.Config, ca *x509.CertPool) (*http.Client, error) {
	kubelet, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the client certificate of the kubeconfig: %w", err)
	}
	if kubelet == nil || kubelet.GetClientCertificate == nil {
		return nil, errNoCertificate
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: connectLimit}).DialContext,
			TLSHandshakeTimeout: connectLimit, ResponseHeaderTimeout: fetchLimit,
			TLSClientConfig: &tls.Config{
				MinVersion: tls.VersionTLS12, RootCAs: ca, GetClientCertificate: kubelet.GetClientCertificate,
			},
			DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// joinFirst joins the failures of the first servers and counts the failures of the others.
func joinFirst(failures []error) error {
	const most = 3
	if more := len(failures) - most; more > 0 {
		failures = append(slices.Clone(failures[:most]), fmt.Errorf("and %d more servers", more))
	}
	return joinedError(failures)
}

// joinedError joins errors with semicolons.
type joinedError []error

// Error joins the texts.
func (e joinedError) Error() string {
	var texts []string
	for _, err := range e {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns the errors.
func (e joinedError) Unwrap() []error { return e }

// cached returns a config from the cache.
func (c *configs) cached(name string) (mcfgv1.MachineConfig, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.cache {
		if f.config.Name == name && time.Since(f.at) < cacheTime {
			return *f.config.DeepCopy(), true
		}
	}
	return mcfgv1.MachineConfig{}, false
}

// addToCache adds a config to the cache and, if the cache is full, removes the oldest.
func (c *configs) addToCache(mc mcfgv1.MachineConfig) {
	c.mu.Lock()
	defer c.mu.Unlock()
	others := slices.DeleteFunc(c.cache, func(f cachedConfig) bool { return f.config.Name == mc.Name })
	c.cache = append(others, cachedConfig{*mc.DeepCopy(), time.Now()})
	if len(c.cache) > maxCached {
		c.cache = slices.Clone(c.cache[1:])
	}
}

// recordSource records from where a config was read, and why it was not read from a server. recordSource logs a change
// of the source.
func (c *configs) recordSource(from v1alpha1.ConfigSource, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := ""
	if why != nil {
		text = why.Error()
	}
	if c.source == from && c.why == text {
		return
	}
	if c.source, c.why = from, text; why != nil {
		c.servers.logger().Warn("configs are read through the API server", "err", why)
		return
	}
	c.servers.logger().Info("configs are read from the machine-config-server")
}

// lastSource returns where the last config was read.
func (c *configs) lastSource() v1alpha1.ConfigSource {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.source
}

// unavailableError reports that neither a machine-config-server nor the API server serves a config now.
type unavailableError struct{ server, api error }

// Error names both errors and what to do.
func (e *unavailableError) Error() string {
	api := e.api.Error()
	if isForbidden(e.api) {
		api = "the API server does not let nodes read MachineConfigs; a cluster without a machine-config-server " +
			"needs config/components/nodes-read-configs"
	}
	return fmt.Sprintf("%v; %s", e.server, api)
}

// Is reports that the error is report.ErrUnreachable, so that the daemon continues with the files on disk and retries.
func (e *unavailableError) Is(target error) bool { return target == report.ErrUnreachable }
