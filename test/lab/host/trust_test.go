package host_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/trustfile"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/trust"
)

// TestInsideACertificateBecomesTrusted has the daemon write the user's CA on a real Debian. Its own
// update-ca-certificates makes each program trust the CA, and trusts it no longer when the object is removed.
func TestInsideACertificateBecomesTrusted(t *testing.T) {
	ca, address := serverWithCA(t)
	// trusted reports whether a program of the machine trusts the server.
	trusted := func() bool {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "curl", "--silent", "--show-error", "--fail", address).
			CombinedOutput()
		if err != nil && !strings.Contains(string(out), "certificate") {
			t.Fatalf("curl fails for another reason: %v %s", err, out)
		}
		return err == nil
	}
	if trusted() {
		t.Fatal("curl trusts the server before")
	}

	h := open(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	source := &trustSource{}
	s := trust.NewSyncer(h, source, 100*time.Millisecond, slog.New(slog.NewTextHandler(t.Output(), nil)))
	go s.Run(ctx)
	write := func() {
		t.Helper()
		select {
		case <-s.Changed():
		case <-time.After(time.Minute):
			t.Fatal("the daemon has not asked")
		}
		turn := trust.Turn{Unconfigured: true, Now: time.Now(), Rules: func(context.Context) (plan.Rules, error) {
			return plan.Rules{Policy: disruption.Default()}, nil
		}}
		if !s.Sync(t.Context(), turn) || strings.Contains(s.Report(), "failed") {
			t.Fatalf("the daemon has not written: %s", s.Report())
		}
	}
	source.set(v1alpha1.TrustFile{
		Path: trustfile.UserCAPath, Mode: 0o644, Contents: ca, From: "bunsen-system/company",
		Expires: time.Now().Add(time.Hour),
	})
	write()
	if !trusted() {
		t.Error("curl does not trust the server with the CA")
	}
	sh(t, "ls /usr/local/share/ca-certificates/openshift-config-user-ca-bundle-*.crt && grep -q 'BEGIN CERTIFICATE' "+
		"/etc/ssl/certs/ca-certificates.crt")
	source.set()
	write()
	if trusted() {
		t.Error("curl trusts the server although the CA was removed")
	}
	sh(t, "! ls /usr/local/share/ca-certificates/openshift-config-user-ca-bundle-*.crt 2>/dev/null")
}

// serverWithCA starts a server whose certificate a new CA signed, and returns the CA and the server's address.
func serverWithCA(t *testing.T) (ca, address string) {
	t.Helper()
	sign := func(template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if parent == nil {
			parent, by = template, key
		}
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
		if err != nil {
			t.Fatal(err)
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return c, key
	}
	root, rootKey := sign(&x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "company"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	leaf, leafKey := sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature,
	}, root, rootKey)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw}, PrivateKey: leafKey}}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return trustfile.PEM(root), strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
}

// trustSource is a server's answer.
type trustSource struct {
	mu     sync.Mutex
	answer v1alpha1.NodeTrust
}

func (s *trustSource) set(files ...v1alpha1.TrustFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha256.New()
	for _, f := range files {
		sum.Write([]byte(f.Contents))
	}
	s.answer = v1alpha1.NodeTrust{Revision: hex.EncodeToString(sum.Sum(nil)), Files: files}
}

// Trust returns the answer if it is new.
func (s *trustSource) Trust(_ context.Context, known string) (*v1alpha1.NodeTrust, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answer.Revision == known || s.answer.Revision == "" {
		return nil, nil
	}
	answer := s.answer
	return &answer, nil
}
