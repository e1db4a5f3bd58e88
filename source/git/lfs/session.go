package lfs

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/bunsen-os/bunsen/source/credentials"
)

// session has the connections of one fetch.
type session struct {
	*Client
	// own is the client for the host of the repository; it sends the client certificate.
	own *http.Client
	// direct and proxied are the clients for other hosts. direct connects to no address of this machine.
	direct, proxied *http.Client
	transports      []*http.Transport
}

// open prepares a session, which the caller closes.
func (c *Client) open() (*session, error) {
	s := &session{Client: c}
	for _, to := range []**http.Client{&s.own, &s.direct, &s.proxied} {
		config, err := credentials.TLS(c.config.Secret)
		if err != nil {
			return nil, err
		}
		t := &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: c.config.Connect, TLSClientConfig: config,
			DisableCompression:  true,
			TLSHandshakeTimeout: 15 * time.Second, ResponseHeaderTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
			ForceAttemptHTTP2: true,
		}
		if c.config.Connect != nil {
			t.Proxy = nil
		}
		if to != &s.own {
			config.Certificates = nil
		}
		if to == &s.direct {
			t.Proxy, t.DialContext = nil, (&net.Dialer{Control: refuseLocal}).DialContext
		}
		*to = &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}
		s.transports = append(s.transports, t)
	}
	return s, nil
}

func (s *session) close() {
	for _, t := range s.transports {
		t.CloseIdleConnections()
	}
}

// do sends a request for an object. If requests go through a proxy, do checks only the name of a host, because the
// proxy resolves names itself.
func (s *session) do(r *http.Request) (*http.Response, error) {
	if s.isOwn(r.URL) {
		return s.own.Do(r)
	}
	if isLocalName(r.URL.Hostname()) {
		return nil, errLocal
	}
	proxied := s.config.Connect != nil
	if !proxied {
		proxy, err := http.ProxyFromEnvironment(r)
		if err != nil {
			return nil, errors.New("the proxy of the environment is invalid")
		}
		proxied = proxy != nil
	}
	if proxied {
		return s.proxied.Do(r)
	}
	return s.direct.Do(r)
}

// errLocal is the error for an object at a loopback or link-local address.
var errLocal = errors.New("the server names a loopback or link-local address, which only the repository itself may " +
	"have: correct the address of the storage in the server's settings")

// refuseLocal refuses a connection to a loopback or link-local address. The dialer calls refuseLocal after it has
// resolved the name.
func refuseLocal(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || isLocal(at.Addr()) {
		return errLocal
	}
	return nil
}

func isLocal(ip netip.Addr) bool {
	ip = ip.Unmap()
	return ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified()
}

func isLocalName(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	ip, err := netip.ParseAddr(host)
	return err == nil && isLocal(ip) || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

func isRedirect(code int) bool {
	switch code {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect:
		return true
	}
	return false
}

// ended returns the error of the context if a call failed because the context ended.
func ended(ctx context.Context, err error) error {
	for _, end := range []error{context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, end) || errors.Is(ctx.Err(), end) {
			return end
		}
	}
	return nil
}
