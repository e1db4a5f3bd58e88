package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/bunsen-os/bunsen/mcd/health"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// apiHealth classifies the error of a call to the API server, for the table of package health. The parameter here is a
// function that reports whether the API server runs on this machine.
func apiHealth(err error, here func() bool) health.API {
	code, is := httpStatus(err)
	switch {
	case err == nil:
		return health.Answers
	case is && code == http.StatusUnauthorized, isUntrusted(err):
		return health.Untrusted
	case is && code < http.StatusInternalServerError:
		return health.Answers
	case is, errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF):
		if here() {
			return health.RefusedHere
		}
		return health.RefusedElsewhere
	}
	return health.NoAnswer
}

// retryableCodes are the codes below 500 after which the daemon retries. These codes mean: too many requests; rejected
// credentials, because they may have expired; and missing rights, because a starting API server may not have loaded its
// roles yet.
var retryableCodes = []int32{http.StatusTooManyRequests, http.StatusUnauthorized, http.StatusForbidden}

// markUnreachable wraps an error as report.ErrUnreachable, unless the API server gave a usable answer.
func markUnreachable(err error) error {
	code, answered := httpStatus(err)
	switch {
	case err == nil, meta.IsNoMatchError(err):
		return err
	case !answered:
		return &report.NoAnswerError{Err: err}
	case code >= http.StatusInternalServerError, slices.Contains(retryableCodes, code):
		return &report.AnswerError{Code: int(code), Err: err}
	}
	return err
}

// httpStatus returns the HTTP status that an API server, or a proxy in front of it, sent with an error.
func httpStatus(err error) (code int32, is bool) {
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return 0, false
	}
	return s.Status().Code, true
}

// isUntrusted reports whether the client or the server rejected the certificate of the other side.
func isUntrusted(err error) bool {
	var unverified *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	if errors.As(err, &unverified) || errors.As(err, &unknown) || errors.As(err, &invalid) || errors.As(err, &name) {
		return true
	}
	var said *net.OpError // A TLS alert of the other side has no exported type in crypto/tls, so its text is compared.
	return errors.As(err, &said) && said.Op == "remote error"
}

// lookupLimit is how long the resolution of a name may take.
const lookupLimit = 5 * time.Second

// isThisMachine reports whether the URL of an API server names this machine.
func isThisMachine(server string) bool {
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" {
		return false
	}
	ips := []net.IP{net.ParseIP(u.Hostname())}
	if ips[0] == nil {
		ctx, cancel := context.WithTimeout(context.Background(), lookupLimit)
		defer cancel()
		if ips, err = net.DefaultResolver.LookupIP(ctx, "ip", u.Hostname()); err != nil {
			return false
		}
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, ip := range ips {
		for _, a := range own {
			if n, is := a.(*net.IPNet); ip.IsLoopback() || is && n.IP.Equal(ip) {
				return true
			}
		}
	}
	return false
}

// KubeletHealth returns a function that calls a kubelet's health endpoint, such as http://localhost:10248/healthz. The
// function is for agent.HealthOptions.Kubelet.
func KubeletHealth(endpoint string) func(context.Context) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint, nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close() //nolint:errcheck // only read
		if answer.StatusCode == http.StatusOK {
			return nil
		}
		text, err := io.ReadAll(io.LimitReader(answer.Body, 200))
		if err != nil {
			text = nil
		}
		return fmt.Errorf("%s says %s: %s", endpoint, answer.Status,
			report.OneLine(strings.ReplaceAll(string(text), "\n", " ")))
	}
}

// dial connects to localhost without a resolver, because a machine may not have one.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	host, port, err := net.SplitHostPort(address)
	if err != nil || host != "localhost" {
		return d.DialContext(ctx, network, address)
	}
	conn, err := d.DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		if six, sixErr := d.DialContext(ctx, network, net.JoinHostPort("::1", port)); sixErr == nil {
			return six, nil
		}
	}
	return conn, err
}
