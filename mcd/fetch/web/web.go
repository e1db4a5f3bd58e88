package web

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/internal/download"
	"github.com/bunsen-os/bunsen/mcd/fetch"
)

// The limits of a download.
const (
	// Stall is how long a server may send nothing.
	Stall = time.Minute
	// Rate is how many bytes a second a download may take, so that it leaves room for the node's own traffic.
	Rate = 64 << 20
)

// Client requests files from servers and registries. Client implements fetch.Web.
type Client struct{ client *download.Client }

// New returns a client for the proxies and CAs of a config. The parameter stall is how long a server may send nothing,
// and rate the most bytes of a second.
func New(a fetch.Access, agent string, stall time.Duration, rate int64) Client {
	return Client{download.New(download.Options{
		Proxy: proxyOf(a.Proxy), Authorities: a.Authorities, Logins: a.Logins, Agent: agent, Stall: stall, Rate: rate,
	})}
}

// Over returns a client that sends its requests with another client, and follows redirects only if that client does.
func Over(client *http.Client, agent string, stall time.Duration, rate int64) Client {
	return Client{download.Over(client, agent, stall, rate)}
}

// Get implements fetch.Web.
func (c Client) Get(ctx context.Context, address string, headers map[string]string) (fetch.Answer, io.ReadCloser, error) {
	is, body, err := c.client.Get(ctx, address, headers)
	return fetch.Answer{Status: is.Status, Length: is.Length, Range: is.Range, Validator: is.Validator}, body, err
}

// proxyOf returns the proxies of a config or, if it has none, those of the environment.
func proxyOf(p ign.Proxy) func(*http.Request) (*url.URL, error) {
	if p.HTTPProxy == nil && p.HTTPSProxy == nil {
		return http.ProxyFromEnvironment
	}
	c := httpproxy.Config{}
	if p.HTTPProxy != nil {
		c.HTTPProxy = *p.HTTPProxy
	}
	if p.HTTPSProxy != nil {
		c.HTTPSProxy = *p.HTTPSProxy
	}
	var except []string
	for _, host := range p.NoProxy {
		except = append(except, string(host))
	}
	c.NoProxy = strings.Join(except, ",")
	choose := c.ProxyFunc()
	return func(r *http.Request) (*url.URL, error) { return choose(r.URL) }
}
