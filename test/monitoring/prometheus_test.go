package monitoring

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	promclient "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/promslog"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/prometheus/prometheus/web"
)

// trustedCA is the only authority that the system of the tests trusts.
var trustedCA authority

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "authority")
	if err != nil {
		panic(err)
	}
	trustedCA = newAuthority(dir)
	// The system's CAs are read once, before the first request.
	if err := os.Setenv("SSL_CERT_FILE", trustedCA.file); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(dir) //nolint:errcheck // it is a temporary directory
	os.Exit(code)
}

// options change a Prometheus.
type options struct {
	// webConfig is its web.yml; empty for a server without TLS and without a password.
	webConfig string
	// timeout is how long a query may take; 0 for two minutes.
	timeout time.Duration
	// starting is true if it has not read its data yet, and stuck if its disk does not answer.
	starting, stuck bool
}

// passwordConfig requires a password; its hash is that of "test".
const passwordConfig = "basic_auth_users: {ada: \"$2b$12$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay\"}\n"

// prometheus is a running server: Prometheus' own web handler, API, PromQL engine and TSDB.
type prometheus struct{ url string }

// startPrometheus starts a server with one series of each kind. It ends with the test.
func startPrometheus(t *testing.T, o options) prometheus {
	t.Helper()
	db := teststorage.New(t)
	fill(t, db)
	var disk storage.Storage = db
	if o.stuck {
		disk = stuckStorage{db, t.Context().Done()}
	}
	if o.timeout == 0 {
		o.timeout = 2 * time.Minute
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	scheme := "http"
	if strings.Contains(o.webConfig, "tls_server_config") {
		scheme = "https"
	}
	at := &url.URL{Scheme: scheme, Host: listener.Addr().String()}
	engine := promql.NewEngine(promql.EngineOpts{
		Logger: promslog.NewNopLogger(), MaxSamples: 50_000_000, Timeout: o.timeout,
		Parser: parser.NewParser(parser.Options{}), EnableAtModifier: true, EnableNegativeOffset: true,
	})
	handler := web.New(promslog.NewNopLogger(), &web.Options{
		Context: t.Context(), TSDBDir: db.Dir(), Storage: disk, ExemplarStorage: db, QueryEngine: engine,
		LookbackDelta: 5 * time.Minute,
		Version:       &web.PrometheusVersion{}, Flags: map[string]string{}, ListenAddresses: []string{at.Host},
		ExternalURL: at, RoutePrefix: "/",
		Registerer: promclient.NewRegistry(), Gatherer: promclient.NewRegistry(), ReadTimeout: time.Minute,
		MaxConnections: 10,
	})
	if err := handler.ApplyConfig(&promconfig.Config{GlobalConfig: promconfig.DefaultGlobalConfig}); err != nil {
		t.Fatal(err)
	}
	if !o.starting {
		handler.SetReady(web.Ready)
	}
	file := filepath.Join(t.TempDir(), "web.yml")
	if err := os.WriteFile(file, []byte(o.webConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() { <-ended })
	go func() {
		defer close(ended)
		if err := handler.Run(t.Context(), []net.Listener{listener}, file); err != nil {
			t.Errorf("running Prometheus: %v", err)
		}
	}()
	return prometheus{at.String()}
}

// fill appends one sample of each kind, of now.
func fill(t *testing.T, db *teststorage.TestStorage) {
	t.Helper()
	app := db.Appender(t.Context())
	now := time.Now().UnixMilli()
	add := func(v float64, at int64, of ...string) {
		t.Helper()
		if _, err := app.Append(0, labels.FromStrings(of...), at, v); err != nil {
			t.Fatal(err)
		}
	}
	add(1, now, "__name__", "up", "job", "api")
	add(0, now, "__name__", "up", "job", "db")
	add(3, now, "__name__", "errors", "job", "api")
	add(math.NaN(), now, "__name__", "ratio")
	add(1, now-1000, "__name__", "ended")
	add(math.Float64frombits(value.StaleNaN), now, "__name__", "ended")
	for i := range 1001 {
		sample := 1.0
		if i == 1000 {
			sample = 0
		}
		add(sample, now, "__name__", "many", "n", fmt.Sprint(i))
	}
	if _, err := app.AppendHistogram(0, labels.FromStrings("__name__", "latency"), now,
		tsdbutil.GenerateTestHistogram(1), nil); err != nil {
		t.Fatal(err)
	}
	if err := app.Commit(); err != nil {
		t.Fatal(err)
	}
}

// stuckStorage is a storage whose reads end with the test.
type stuckStorage struct {
	storage.Storage
	released <-chan struct{}
}

// Querier waits.
func (s stuckStorage) Querier(from, to int64) (storage.Querier, error) {
	<-s.released
	return s.Storage.Querier(from, to)
}

// authority is a CA. file has its certificate.
type authority struct {
	dir, file   string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// newAuthority makes a CA in a directory.
func newAuthority(dir string) authority {
	a := authority{dir: dir, file: filepath.Join(dir, "ca.pem")}
	a.certificate = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: dir}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		panic(err)
	}
	writeCertificate(a.file, a.certificate, a, a.key)
	return a
}

// serve makes a certificate for 127.0.0.1, and returns a web.yml with it.
func (a authority) serve(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		0o600); err != nil {
		t.Fatal(err)
	}
	writeCertificate(certFile, &x509.Certificate{
		SerialNumber: big.NewInt(2), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}, a, key)
	return fmt.Sprintf("tls_server_config: {cert_file: %q, key_file: %q}\n", certFile, keyFile)
}

// writeCertificate writes a certificate of a key, signed by an authority.
func writeCertificate(file string, template *x509.Certificate, signer authority, key *ecdsa.PrivateKey) {
	der, err := x509.CreateCertificate(rand.Reader, template, signer.certificate, &key.PublicKey, signer.key)
	if err == nil {
		err = os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
	}
	if err != nil {
		panic(err)
	}
}
