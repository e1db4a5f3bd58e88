package console

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// Sharing are the settings of a console for several users.
type Sharing struct {
	// Address is the address to listen on, such as `:8443`.
	Address string
	// Hosts are the names by which browsers reach the console, with the port unless it is 443.
	Hosts []string
	// CertFile and KeyFile are a certificate with its key, which may change while the console runs. If both are empty,
	// the console signs one itself, for as long as it runs.
	CertFile, KeyFile string
	// API is the connection to the API server. Its credentials are not used.
	API  *rest.Config
	Name string
	// OIDC are the settings of an OpenID provider, where users can sign in instead of pasting a token.
	OIDC OIDC
	// ReadOnly: the pages have no actions.
	ReadOnly bool
}

// Shared is a console for several users. Each user signs in with a token of the API server.
type Shared struct {
	listener net.Listener
	server   *Server
	store    *SessionStore[*visitor]
	certs    *certwatcher.CertWatcher
	// Fingerprint is the SHA-256 of a certificate that the console signed itself, else empty.
	Fingerprint string
}

// Share prepares a console for several users.
func Share(ctx context.Context, s Sharing) (*Shared, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	kube.Silence() // pages show the errors
	out := &Shared{}
	config, err := out.tlsConfig(s)
	if err != nil {
		return nil, err
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", s.Address)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w; --listen chooses another address", s.Address, err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		_ = listener.Close() // nothing was served
		return nil, fmt.Errorf("reading the address of the listener: %w", err)
	}
	out.listener = tls.NewListener(listener, config)
	out.store = &SessionStore[*visitor]{
		Cookie: CookieName(port, true), TLS: true, Most: mostSessions,
		Closed: func(v *visitor) { v.feed.Close() },
	}
	access := &signIn{
		api: rest.AnonymousClientConfig(s.API), store: out.store,
		checks: make(chan struct{}, mostSignIns),
	}
	out.server = newServer(s.Name, Origin{Hosts: s.Hosts, TLS: true}, access)
	out.server.forms, access.server = true, out.server
	if s.ReadOnly {
		out.server.actions = nil
	}
	if s.OIDC.Issuer != "" {
		if access.sso, err = newSSO(s.OIDC, CookieName(port, true)+"-oidc"); err != nil {
			_ = listener.Close() // nothing was served
			return nil, err
		}
	}
	return out, nil
}

// newSSO reads the files of the settings, but does not ask the provider, which may be down now.
func newSSO(settings OIDC, cookie string) (*sso, error) {
	o := &sso{settings: settings, pending: &SessionStore[attempt]{Cookie: cookie, TLS: true, Most: mostPending}}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if settings.CAFile != "" {
		ca, err := os.ReadFile(settings.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading --oidc-ca: %w", err)
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("reading --oidc-ca: %s has no certificate (PEM)", settings.CAFile)
		}
	}
	if settings.SecretFile != "" {
		secret, err := os.ReadFile(settings.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("reading --oidc-client-secret-file: %w", err)
		}
		o.secret = string(bytes.TrimSpace(secret))
	}
	o.client = &http.Client{
		Timeout: checkTime,
		Transport: careful{&http.Transport{
			Proxy:           http.ProxyFromEnvironment,
			TLSClientConfig: config, ForceAttemptHTTP2: true, DisableCompression: true,
			MaxResponseHeaderBytes: 64 << 10,
		}},
		// A redirect could carry the code and the secret of the client to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("the provider redirects, which the console does not follow: correct --oidc-issuer")
		},
	}
	return o, nil
}

func (s Sharing) check() error {
	var problems []error
	if len(s.Hosts) == 0 {
		problems = append(problems, errors.New("--host is missing: name the host that browsers open, such as "+
			"console.example.org"))
	}
	for _, host := range s.Hosts {
		if host == "" || strings.ContainsAny(host, "/ \t\n@*") {
			problems = append(problems, fmt.Errorf("--host %q: want a host with its port, as in the address that "+
				"browsers open, such as console.example.org or localhost:8443", host))
		}
	}
	if (s.CertFile == "") != (s.KeyFile == "") {
		problems = append(problems, errors.New("--tls-cert and --tls-key belong together: set both or neither"))
	}
	return errors.Join(append(problems, s.OIDC.check())...)
}

// tlsConfig reads the certificate, or creates one.
func (o *Shared) tlsConfig(s Sharing) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if s.CertFile != "" {
		certs, err := certwatcher.New(s.CertFile, s.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("reading the certificate %s and its key %s: %w", s.CertFile, s.KeyFile, err)
		}
		o.certs, config.GetCertificate = certs, certs.GetCertificate
		return config, nil
	}
	cert, err := selfSigned(s.Hosts, time.Now())
	if err != nil {
		return nil, fmt.Errorf("creating a certificate: %w", err)
	}
	sum := sha256.Sum256(cert.Certificate[0])
	o.Fingerprint, config.Certificates = hex.EncodeToString(sum[:]), []tls.Certificate{cert}
	return config, nil
}

// selfSigned returns a certificate for a year.
func selfSigned(hosts []string, now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "bunsen console"}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		name, _, err := net.SplitHostPort(host)
		if err != nil {
			name = host
		}
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, name)
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, nil
}

// Serve answers requests until the context ends. It reads a changed certificate again.
func (o *Shared) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer o.store.CloseIf(func(*visitor) bool { return true })
	if o.certs != nil {
		go func() { _ = o.certs.Start(ctx) }() // After an error, the console continues to use its first certificate.
	}
	return serve(ctx, o.listener, o.server)
}
