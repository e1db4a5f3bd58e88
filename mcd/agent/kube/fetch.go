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
	// fetchLimit is how long one request to a machine-config-server may take; connectLimit is the limit for its connection.
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

// serverClient returns a client that trusts only one CA and has the client certificate of a kubeconfig. The servers
// are in the cluster's network, so it follows no redirects and uses no proxy. It reads certificate files again when
// the kubelet renews them.
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
			TLSHandshakeTimeout: connectLimit,
			TLSClientConfig: &tls.Config{
				MinVersion: tls.VersionTLS12, RootCAs: ca, GetClientCertificate: kubelet.GetClientCertificate,
			},
			DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// fetch requests a config from one server. It returns a *serverError, or a NotFound error if the server reports that
// the config does not exist.
func fetch(ctx context.Context, client *http.Client, server, agent, name string) (mcfgv1.MachineConfig, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	fail := func(code int, why string, cause error) (mcfgv1.MachineConfig, error) {
		return mcfgv1.MachineConfig{}, &serverError{url: server, code: code, why: oneLine(why), cause: cause}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(server, "/")+v1alpha1.NodeConfigPath+url.PathEscape(name), nil)
	if err != nil {
		return fail(0, err.Error(), err)
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", agent)
	answer, err := client.Do(request)
	if err != nil {
		return fail(0, withoutURL(err).Error(), err)
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	if answer.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(answer.Body, 4*longestRefusal))
		if err != nil {
			return fail(0, err.Error(), err)
		}
		return responseError(answer, server, name, string(text))
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, largestConfig+1))
	if err != nil {
		return fail(0, "reading the answer: "+withoutURL(err).Error(), err)
	}
	if len(text) > largestConfig {
		return fail(answer.StatusCode, fmt.Sprintf("it is larger than %d MiB", largestConfig>>20), nil)
	}
	var mc mcfgv1.MachineConfig
	if err := json.Unmarshal(text, &mc); err != nil {
		return fail(answer.StatusCode, "it is not a MachineConfig in JSON", nil)
	}
	if mc.Name != name {
		return fail(answer.StatusCode, fmt.Sprintf("it is the config %q, not %q", mc.Name, name), nil)
	}
	// The API server gave the name, which is a hash of the content, so no server can serve other content under it. The
	// daemon applies the form that was hashed, because JSON decoders differ for repeated keys.
	if mc.Spec, err = machineconfig.KeysOnce(mc.Spec); err != nil {
		return fail(answer.StatusCode, "its Ignition config is not JSON", nil)
	}
	if is, err := machineconfig.RenderedName(v1alpha1.RenderedPool(name), mc.Spec); err != nil || is != name {
		return fail(answer.StatusCode, "its content does not match the name "+name+"", nil)
	}
	return mc, nil
}

// responseError returns the error for a response without a config.
func responseError(answer *http.Response, server, name, text string) (mcfgv1.MachineConfig, error) {
	if answer.StatusCode == http.StatusNotFound {
		if answer.Header.Get(v1alpha1.ReasonHeader) == v1alpha1.ReasonNoSuchConfig {
			return mcfgv1.MachineConfig{}, apierrors.NewNotFound(machineConfigs.GroupResource(), name)
		}
		text = "it does not serve configs to nodes; update the machine-config-server"
	}
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if text == "" {
		text = "no reason given"
	}
	return mcfgv1.MachineConfig{}, &serverError{url: server, code: answer.StatusCode, why: oneLine(text)}
}

// oneLine converts an untrusted text to one short line without hidden characters.
func oneLine(text string) string {
	runes := []rune(safetext.OneLine(strings.ToValidUTF8(text, "")))
	if len(runes) > longestRefusal {
		return string(runes[:longestRefusal-1]) + "…"
	}
	return string(runes)
}

// withoutURL returns the reason of a failed request, without the method and the URL.
func withoutURL(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}
