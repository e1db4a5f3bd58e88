package dial

import (
	"net/http"
	"time"

	"github.com/bunsen-os/bunsen/source/credentials"
)

// Transport returns an HTTP transport with the certificates of a Secret. The transport connects through the proxy, or
// through the proxy of the environment if proxy is nil.
func Transport(secret map[string][]byte, proxy *Proxy) (*http.Transport, error) {
	config, err := credentials.TLS(secret)
	if err != nil {
		return nil, err
	}
	out := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSClientConfig:       config,
		TLSHandshakeTimeout:   15 * time.Second,
		ResponseHeaderTimeout: time.Minute,
		IdleConnTimeout:       30 * time.Second,
		ForceAttemptHTTP2:     true,
	}
	if proxy != nil {
		out.Proxy, out.DialContext = nil, proxy.DialContext
	}
	return out, nil
}

// Client returns an HTTP client for an API, with the settings of Transport. The client follows no redirect, because a
// redirect could send the credentials to another host.
func Client(secret map[string][]byte, proxy *Proxy) (*http.Client, error) {
	t, err := Transport(secret, proxy)
	if err != nil {
		return nil, err
	}
	t.DisableKeepAlives = true // A client sends few requests and has no Close, so it keeps no connection open.
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       30 * time.Second,
	}, nil
}
