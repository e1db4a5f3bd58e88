package dial

import (
	"net/http"
	"time"

	"github.com/bunsen-os/bunsen/source/credentials"
)

// Transport returns an HTTP transport with the certificates of a Secret. It connects through the proxy, or through that of the
// environment if proxy is nil.
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

// Client returns a client of an API, with the settings of Transport. It follows no redirect, because a redirect could lead
// credentials to another host.
func Client(secret map[string][]byte, proxy *Proxy) (*http.Client, error) {
	t, err := Transport(secret, proxy)
	if err != nil {
		return nil, err
	}
	t.DisableKeepAlives = true // a client sends few requests, and has no Close
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       30 * time.Second,
	}, nil
}
