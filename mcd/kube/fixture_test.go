package kube

import (
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// named is the name of the config with an image, and specified its spec.
func named(image string) string {
	name, err := machineconfig.RenderedName("worker", specified(image))
	if err != nil {
		panic(err)
	}
	return name
}

func specified(image string) mcfgv1.MachineConfigSpec {
	return mcfgv1.MachineConfigSpec{
		OSImageURL: image, KernelArguments: []string{"a=1"},
		Config: runtime.RawExtension{
			Raw: []byte(
				`{"storage":{"files":[{"path":"/etc/a","mode":420,"contents":{"source":"data:,%0Aa"},"b":null,"append":[]}]},"ignition":{"version":"3.5.0"}}`),
		},
	}
}

// authority is a CA of a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// sign returns certificate and key for a name, as PEM.
func (a *authority) sign(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name, Organization: []string{"system:nodes"}},
		NotAfter:    time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{
			x509.ExtKeyUsageClientAuth,
			x509.ExtKeyUsageServerAuth,
		},
	}
	der, err := x509.CreateCertificate(rand.Reader, form, a.cert, own.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})
}

// serverRig is a node between a machine-config-server and an API server.
type serverRig struct {
	t              *testing.T
	servers, nodes *authority
	// server answers what a node asks with its certificate; asked are the names, by whom.
	server *httptest.Server
	answer http.HandlerFunc
	asked  []string
	// published is the ConfigMap; nil for none. Status and config are what the API server answers; apiAsked counts.
	mu        sync.Mutex
	published map[string]string
	forbidden map[string]bool
	apiAsked  []string
	allowed   bool
	dir       string
	cluster   *Connection
	log       strings.Builder
}

func newServerRig(t *testing.T) *serverRig {
	t.Helper()
	r := &serverRig{
		t: t, servers: newAuthority(t), nodes: newAuthority(t), dir: t.TempDir(),
		forbidden: map[string]bool{},
	}
	r.answer = give("1")
	r.server = r.serve(r.servers)
	r.published = map[string]string{"ca.crt": string(r.servers.pem), "urls": r.server.URL + "\n"}
	r.renew("system:node:worker-0")
	api := httptest.NewServer(http.HandlerFunc(r.api))
	t.Cleanup(api.Close)
	config := &rest.Config{Host: api.URL, UserAgent: "daemon/1", QPS: 1000, Burst: 1000}
	config.CertFile, config.KeyFile = filepath.Join(r.dir, "cert"), filepath.Join(r.dir, "key")
	r.cluster = NewConnection("worker-0", func() (*rest.Config, error) { return config, nil })
	r.cluster.FindServers(ServerOptions{Log: slog.New(slog.NewTextHandler(io.MultiWriter(&r.log, t.Output()), nil))})
	return r
}

// renew writes another certificate of the node.
func (r *serverRig) renew(name string) {
	r.t.Helper()
	cert, key := r.nodes.sign(r.t, name)
	for file, text := range map[string][]byte{"cert": cert, "key": key} {
		if err := os.WriteFile(filepath.Join(r.dir, file), text, 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
}

// serve starts a machine-config-server with a certificate of a CA.
func (r *serverRig) serve(ca *authority) *httptest.Server {
	r.t.Helper()
	cert, key := ca.sign(r.t, "server")
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		r.t.Fatal(err)
	}
	known := x509.NewCertPool()
	known.AddCert(r.nodes.cert)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		who := "nobody"
		if len(q.TLS.PeerCertificates) > 0 {
			who = q.TLS.PeerCertificates[0].Subject.CommonName
		}
		r.asked = append(r.asked, who+" "+q.URL.Path)
		if q.UserAgent() != "daemon/1" || q.Header.Get("Authorization") != "" {
			r.t.Errorf("headers %v", q.Header)
		}
		r.mu.Unlock()
		r.answer(w, q)
	}))
	s.TLS = &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.VerifyClientCertIfGiven,
		ClientCAs: known, MinVersion: tls.VersionTLS12,
	}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	s.StartTLS()
	r.t.Cleanup(s.Close)
	return s
}

// give answers with the config of an image, compressed, under its name or another.
func give(image string, as ...string) http.HandlerFunc {
	mc := mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
		Name:        append(as, named(image))[0],
		Annotations: map[string]string{"from": "server"},
	}, Spec: specified(image)}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_ = json.NewEncoder(z).Encode(mc)
		_ = z.Close()
	}
}

// say answers without a config.
func say(code int, text string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if len(header) == 2 {
			w.Header().Set(header[0], header[1])
		}
		w.WriteHeader(code)
		fmt.Fprint(w, text)
	}
}

// api is the API server.
func (r *serverRig) api(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	parts := strings.Split(q.URL.Path, "/")
	kind := parts[len(parts)-2]
	if q.Method == http.MethodPost {
		kind = parts[len(parts)-1]
	}
	r.apiAsked = append(r.apiAsked, kind)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.forbidden[kind]:
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w,
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no"}`)
	case kind == "configmaps" && r.published == nil, kind == "machineconfigs" && parts[len(parts)-1] != named("1"):
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w,
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"none"}`)
	case kind == "configmaps":
		text, err := json.Marshal(map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]string{"name": "machine-config-server-ca"}, "data": r.published,
		})
		if err != nil {
			r.t.Error(err)
		}
		_, _ = w.Write(text)
	case kind == "machineconfigs":
		fmt.Fprintf(w,
			`{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"MachineConfig","metadata":{"name":%q,"annotations":{"from":"api"}}}`, named("1"))
	case kind == "selfsubjectaccessreviews":
		fmt.Fprintf(w,
			`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","status":{"allowed":%v}}`,
			r.allowed)
	default:
		fmt.Fprintf(w,
			`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"worker-0","annotations":{"machineconfiguration.openshift.io/currentConfig":%q}}}`, named("1"))
	}
}
