package http

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/mcs"
)

func TestOnlyModernTLSIsSpoken(t *testing.T) {
	server := start(t, Server{Handler: openRoutes(filled(t))})
	var old, without []uint16
	for _, s := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		name := tls.CipherSuiteName(s.ID)
		if strings.Contains(name, "ECDHE") && (strings.Contains(name, "GCM") || strings.Contains(name, "CHACHA20")) {
			continue
		}
		if strings.Contains(name, "ECDHE") {
			old = append(old, s.ID)
		} else {
			without = append(without, s.ID)
		}
	}
	for _, c := range []struct {
		because string
		config  *tls.Config
		version uint16
		ok      bool
	}{
		{"a client of today", &tls.Config{}, tls.VersionTLS13, true},
		{"a client of TLS 1.2", &tls.Config{MaxVersion: tls.VersionTLS12}, tls.VersionTLS12, true},
		{"a client of TLS 1.2 with one good suite", &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}}, tls.VersionTLS12, true},
		{"a client of TLS 1.1", &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, 0, false},
		{"suites without authenticated encryption", &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: old}, 0, false},
		{"suites without forward secrecy", &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: without}, 0, false},
	} {
		c.config.RootCAs = server.ca.pool()
		conn, err := tls.DialWithDialer(dialer("127.0.0.9"), "tcp", server.address, c.config)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.because, err)
		}
		if err == nil {
			if got := conn.ConnectionState().Version; got != c.version {
				t.Errorf("%s: speaks %s", c.because, tls.VersionName(got))
			}
			_ = conn.Close()
		}
	}
}

func TestASessionIsResumed(t *testing.T) {
	server := start(t, Server{Handler: openRoutes(filled(t)), ClientCAs: believing(t, newAuthority(t, "clients"))})
	client := server.client("127.0.0.9")
	client.Transport.(*http.Transport).TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for i := range 3 {
		r := fetch(t, client, server.url("/config/worker"))
		if r.TLS.DidResume != (i > 0) {
			t.Errorf("fetch %d: resumed is %t", i, r.TLS.DidResume)
		}
	}
}

func fetch(t *testing.T, client *http.Client, url string) *http.Response {
	t.Helper()
	r, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return r
}

func believing(t *testing.T, all ...authority) *ClientCAFile {
	t.Helper()
	return opened(t, clientsFile(t, all...), quiet)
}

func opened(t *testing.T, file string, log *slog.Logger) *ClientCAFile {
	t.Helper()
	cas, err := OpenClientCA(file, log)
	if err != nil {
		t.Fatal(err)
	}
	return cas
}

func clientsFile(t *testing.T, all ...authority) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "clients.crt")
	var text []byte
	for _, a := range all {
		text = append(text, a.pem()...)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAClientCertificateOfAnAuthorityOfOurs(t *testing.T) {
	ours, others := newAuthority(t, "ours"), newAuthority(t, "others")
	cas := believing(t, ours)
	h, _ := Routes(Options{Source: filled(t), Log: quiet, ClientCAs: cas})
	server := start(t, Server{Handler: h, ClientCAs: cas})
	subject := pkix.Name{CommonName: "bunsen:node:a", Organization: []string{"bunsen:pool:secret"}}
	if r := fetch(t, server.client("127.0.0.9", ours.issue(t, subject)),
		server.url("/config/secret")); r.StatusCode != 200 || !strings.Contains(text(t, r), hush) {
		t.Errorf("a certificate of ours is answered %d", r.StatusCode)
	}
	if r := fetch(t, server.client("127.0.0.9", ours.issue(t, subject)),
		server.url("/config/worker")); r.StatusCode != 403 {
		t.Errorf("a certificate of another pool is answered %d", r.StatusCode)
	}
	if r := fetch(t, server.client("127.0.0.9"), server.url("/config/secret")); r.StatusCode != 401 {
		t.Errorf("no certificate is answered %d", r.StatusCode)
	}
	foreign := server.client("127.0.0.9")
	foreign.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (
		*tls.Certificate, error,
	) {
		cert := others.issue(t, subject) // shown although the server did not ask for that authority's
		return &cert, nil
	}
	if r, err := foreign.Get(server.url("/config/secret")); err == nil {
		t.Errorf("a certificate of another authority is answered %d", r.StatusCode)
	}
}

func TestAnAuthorityThatIsGoneIsBelievedNoMore(t *testing.T) {
	first, second := newAuthority(t, "first"), newAuthority(t, "second")
	file := clientsFile(t, first)
	cas := opened(t, file, quiet)
	h, _ := Routes(Options{Source: filled(t), Log: quiet, ClientCAs: cas})
	server := start(t, Server{Handler: h, ClientCAs: cas})
	subject := pkix.Name{Organization: []string{"bunsen:pool:worker"}}
	old, young := server.client("127.0.0.9", first.issue(t, subject)),
		server.client("127.0.0.9", second.issue(t, subject))
	old.Transport.(*http.Transport).TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	for range 2 {
		if r := fetch(t, old, server.url("/config/worker")); r.StatusCode != 200 {
			t.Fatalf("before, a certificate of the first is answered %d", r.StatusCode)
		}
	}
	for _, c := range []struct {
		because, file string
		bad           bool
	}{
		{"half a file", string(first.pem()[:100]), true},
		{"two certificates, one of them half", string(first.pem()) + string(second.pem()[:100]), true},
		{"a key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})), true},
		{"a certificate that signs nothing", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: first.issue(t, subject).Certificate[0]})), true},
		{"nothing", "", true},
		{"the second alone", string(second.pem()), false},
	} {
		if err := os.WriteFile(file, []byte(c.file), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := cas.Refresh(); (err != nil) != c.bad {
			t.Errorf("%s: %v", c.because, err)
		}
		if c.bad {
			if r := fetch(t, old, server.url("/config/worker")); r.StatusCode != 200 {
				t.Errorf("with %s in the file, the last good one does not count: %d", c.because, r.StatusCode)
			}
		}
	}
	if r := fetch(t, young, server.url("/config/worker")); r.StatusCode != 200 {
		t.Errorf("a certificate of the second is answered %d", r.StatusCode)
	}
	// The session that the first certificate opened must not open the door again. Where the server asks for
	// certificates of the second only, the client has none to show.
	if r := fetch(t, old, server.url("/config/worker")); r.StatusCode != 401 || r.TLS.DidResume {
		t.Errorf("a certificate of the first is answered %d, resumed is %t", r.StatusCode, r.TLS.DidResume)
	}
}

// Whoever has a certificate for something else is, where access is open, one of everybody.
func TestOpenAccessTakesNoNodeFromACertificateThatIsNotGood(t *testing.T) {
	o, _, mint := closed(t)
	o.Access.Open = true
	o.Source = joining(t, filled(t))
	machines := newAuthority(t, "machines")
	o.ClientCAs = believing(t, machines)
	h, _ := Routes(o)
	for because, subject := range map[string]pkix.Name{
		"a certificate of another pool": {CommonName: "bunsen:node:a", Organization: []string{"bunsen:pool:worker"}},
		"a kubelet's own":               {CommonName: "system:node:a", Organization: []string{"system:nodes"}},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, certified(machines, "secret", subject))
		if w.Code != 200 || strings.Contains(w.Body.String(), hush) {
			t.Errorf("%s: %d %s", because, w.Code, w.Body)
		}
	}
	if diff := cmp.Diff([]mcs.JoiningMachine{
		{Pool: "secret", Address: "192.0.2.1"},
		{Pool: "secret", Address: "192.0.2.1"},
	}, mint.made); diff != "" {
		t.Errorf("bootstrap tokens -want +got:\n%s", diff)
	}
}

// A connection is judged once, when it is opened: on one that stays open a certificate would be good beyond its end,
// and beyond its authority's.
func TestACertificateAdmitsOneRequestOfAConnection(t *testing.T) {
	ours := newAuthority(t, "ours")
	cas := believing(t, ours)
	h, _ := Routes(Options{Source: filled(t), Log: quiet, ClientCAs: cas})
	server := start(t, Server{Handler: h, ClientCAs: cas})
	client := server.client("127.0.0.9", ours.issue(t, pkix.Name{Organization: []string{"bunsen:pool:worker"}}))
	client.Transport.(*http.Transport).DisableKeepAlives = false
	for _, pool := range []string{"worker", "secret"} {
		if r := fetch(t, client, server.url("/config/"+pool)); !r.Close {
			t.Errorf("after pool %s is answered %d, the connection goes on", pool, r.StatusCode)
		}
	}
}

func TestNoAuthoritiesAreNamedWithTheirFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "missing.crt")
	if _, err := OpenClientCA(file, quiet); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a missing file: %v", err)
	}
	var log bytes.Buffer
	file = clientsFile(t, newAuthority(t, "ours"))
	cas := opened(t, file, slog.New(slog.NewTextHandler(&log, nil)))
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	cas.Run(ctx) // ends with its context
	if err := cas.Refresh(); err == nil || cas.Certificates() == nil {
		t.Errorf("a file that went away: %v", err)
	}
	log.Reset()
	if err := os.WriteFile(file, newAuthority(t, "theirs").pem(), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := cas.Refresh(); err != nil {
			t.Error(err)
		}
	}
	if n := strings.Count(log.String(), "trusting"); n != 1 {
		t.Errorf("one change is logged %d times: %s", n, log.String())
	}
}
