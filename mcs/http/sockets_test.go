package http

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"
)

// authority makes certificates for a test.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t testing.TB, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	return authority{key, sign(t, template, template, key, key)}
}

func sign(t testing.TB, template, parent *x509.Certificate, of, by *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, &of.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// issue makes a certificate for a server on loopback and for a client of that subject.
func (a authority) issue(t testing.TB, subject pkix.Name) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: subject, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{
			x509.ExtKeyUsageServerAuth,
			x509.ExtKeyUsageClientAuth,
		},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, a.cert, key, a.key)
	return tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
}

func (a authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func (a authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// running is a server on a loopback socket.
type running struct {
	address string
	ca      authority
	// stop asks it to stop, and does not wait.
	stop func()
}

// start runs a server until the test ends. What it lacks of TLS and log it gets.
func start(t testing.TB, s Server, wrap ...func(net.Listener) net.Listener) running {
	t.Helper()
	ca := newAuthority(t, "test")
	s.TLS = &tls.Config{Certificates: []tls.Certificate{ca.issue(t, pkix.Name{CommonName: "server"})}}
	if s.Log == nil {
		s.Log = quiet
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	for _, w := range wrap {
		l = w(l)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return running{address, ca, stop}
}

// client asks from a loopback address, each time by a connection of its own.
func (r running) client(from string, certificates ...tls.Certificate) *http.Client {
	return &http.Client{
		Timeout: 20 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig:    &tls.Config{RootCAs: r.ca.pool(), Certificates: certificates},
			DialContext:        dialer(from).DialContext,
			DisableKeepAlives:  true,
			DisableCompression: true,
		},
	}
}

// dial opens a connection from a loopback address, of TCP alone.
func (r running) dial(from string) (net.Conn, error) { return dialer(from).Dial("tcp", r.address) }

// shake opens a connection with TLS.
func (r running) shake(from string) (net.Conn, error) {
	c, err := tls.DialWithDialer(dialer(from), "tcp", r.address, &tls.Config{RootCAs: r.ca.pool()})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func dialer(from string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 20 * time.Second}
}

func (r running) url(path string) string { return "https://" + r.address + path }
