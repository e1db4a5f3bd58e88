package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

const (
	// fetchLimit is how long one request to a machine-config-server may take; connectLimit is the limit for its
	// connection.
	fetchLimit, connectLimit = 30 * time.Second, 5 * time.Second
	// largestConfig is the maximum size of an answer after decompression.
	largestConfig = 32 << 20
	// longestRefusal is the maximum number of characters of a server's refusal in a message.
	longestRefusal = 200
)

// errNoCertificate reports that a kubeconfig has no client certificate, which identifies the node to a server.
var errNoCertificate = errors.New("the kubeconfig has no client certificate, which the machine-config-server asks for")

// serverError is the reason why one machine-config-server did not serve a config.
type serverError struct {
	url string
	// code is the HTTP status; 0 if there was no answer.
	code int
	// why is the reason on one line, without unsafe characters.
	why string
	// cause is the error of the connection; nil if there was an answer.
	cause error
}

// Error names the server.
func (e *serverError) Error() string {
	switch e.code {
	case http.StatusOK:
		return fmt.Sprintf("%s gives no usable answer: %s", e.url, e.why)
	case 0:
		return fmt.Sprintf("%s does not answer: %s", e.url, e.why)
	}
	return fmt.Sprintf("%s answers %d %s: %s", e.url, e.code, http.StatusText(e.code), e.why)
}

// Unwrap returns the error of the connection.
func (e *serverError) Unwrap() error { return e.cause }

// isRetryable reports whether another server, or the same server later, may serve the config. For example, a server
// that has not read a new CA yet answers 401.
func (e *serverError) isRetryable() bool { return e.code != http.StatusForbidden }

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

// answer is a server's answer with a status of success.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

// request is a node's request to a server.
type request struct {
	// path is the path of the URL. known is the revision that the node has; it is "" if the node has none.
	path, known string
	// most is the maximum size of the answer.
	most int64
}

// errNoSuchConfig is the error if a server reports that a config does not exist.
var errNoSuchConfig = errors.New("the server does not have the config")

// send sends a request to one server. send returns a *serverError, or errNoSuchConfig.
func send(ctx context.Context, client *http.Client, server, agent string, ask request) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	fail := func(code int, why string, cause error) (answer, error) {
		return answer{}, &serverError{url: server, code: code, why: oneLine(why), cause: cause}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(server, "/")+ask.path, nil)
	if err != nil {
		return fail(0, err.Error(), err)
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", agent)
	if ask.known != "" {
		r.Header.Set("If-None-Match", strconv.Quote(ask.known))
	}
	got, err := client.Do(r)
	if err != nil {
		return fail(0, withoutURL(err).Error(), err)
	}
	defer got.Body.Close() //nolint:errcheck // only read
	if got.StatusCode == http.StatusNotModified && ask.known != "" {
		return answer{code: got.StatusCode, header: got.Header}, nil
	}
	if got.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(got.Body, 4*longestRefusal))
		if err != nil {
			return fail(0, err.Error(), err)
		}
		return answer{}, responseError(got, server, string(text))
	}
	text, err := io.ReadAll(io.LimitReader(got.Body, ask.most+1))
	if err != nil {
		return fail(0, "reading the answer: "+withoutURL(err).Error(), err)
	}
	if int64(len(text)) > ask.most {
		return fail(got.StatusCode, fmt.Sprintf("it is larger than %d MiB", ask.most>>20), nil)
	}
	return answer{got.StatusCode, got.Header, text}, nil
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

// responseError returns the error for a response without content.
func responseError(answer *http.Response, server, text string) error {
	if answer.StatusCode == http.StatusNotFound {
		if answer.Header.Get(v1alpha1.ReasonHeader) == v1alpha1.ReasonNoSuchConfig {
			return errNoSuchConfig
		}
		text = "it does not serve this to nodes; update the machine-config-server"
	}
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if text == "" {
		text = "no reason given"
	}
	return &serverError{url: server, code: answer.StatusCode, why: oneLine(text)}
}

// oneLine converts an untrusted text to one short line without hidden characters.
func oneLine(text string) string { return safetext.Short(text, longestRefusal) }

// withoutURL returns the reason of a failed request, without the method and the URL.
func withoutURL(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}
