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
	"github.com/bunsen-os/bunsen/mcd/protocol"
)

// noAnswers are codes below 500 that say nothing about what was asked: too many requests; credentials that are not taken, as
// after they expired; and rights that are missing, as while an API server that starts does not know its roles yet.
var noAnswers = []int32{http.StatusTooManyRequests, http.StatusUnauthorized, http.StatusForbidden}

// answered marks what is no answer of the API server with ErrUnreachable.
func answered(err error) error {
	if err == nil || meta.IsNoMatchError(err) {
		return err
	}
	if code, is := status(err); is && code < http.StatusInternalServerError && !slices.Contains(noAnswers, code) {
		return err
	}
	return fmt.Errorf("%w: %w", protocol.ErrUnreachable, err)
}

// status is the HTTP status that an API server, or somebody in front of it, gave.
func status(err error) (code int32, is bool) {
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return 0, false
	}
	return s.Status().Code, true
}

// strange tells that one of the two does not accept the other's certificate.
func strange(err error) bool {
	var unverified *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	if errors.As(err, &unverified) || errors.As(err, &unknown) || errors.As(err, &invalid) || errors.As(err, &name) {
		return true
	}
	var said *net.OpError // an alert of the other side has no type of its own outside of crypto/tls
	return errors.As(err, &said) && said.Op == "remote error"
}

// heard sorts what came of asking the API server; see the table of package health. Here tells that it is to run on this
// machine.
func heard(err error, here func() bool) health.API {
	code, is := status(err)
	switch {
	case err == nil:
		return health.Answers
	case is && code == http.StatusUnauthorized, strange(err):
		return health.Strange
	case is && code < http.StatusInternalServerError:
		return health.Answers
	case is, errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF):
		if here() {
			return health.RefusedHere
		}
		return health.RefusedThere
	}
	return health.Silent
}

// lookupLimit is how long a name may take to be resolved.
const lookupLimit = 5 * time.Second

// here tells that an API server's URL names this machine.
func here(server string) bool {
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

// dial connects, and needs no resolver for localhost: a machine may be without one, and its kubelet is there all the same.
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

// KubeletAt asks a kubelet's health endpoint, as http://localhost:10248/healthz; for Health.Kubelet.
func KubeletAt(endpoint string) func(context.Context) error {
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
		return fmt.Errorf("%s says %s: %s", endpoint, answer.Status, protocol.OneLine(strings.ReplaceAll(string(text), "\n", " ")))
	}
}
