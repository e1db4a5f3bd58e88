package browser

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/bunsen-os/bunsen/test/ports"
)

// certificate is what servers of the test show, and Chromium trusts.
type certificate struct {
	cert, key string
	// pin is the hash by which Chromium trusts the key.
	pin string
}

// newCertificate writes a certificate for localhost.
func newCertificate(t *testing.T, dir string) certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IsCA: true, BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(public)
	c := certificate{
		filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"),
		base64.StdEncoding.EncodeToString(sum[:]),
	}
	for path, block := range map[string]*pem.Block{
		c.cert: {Type: "CERTIFICATE", Bytes: raw},
		c.key:  {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// wire is a connection between the browser and `bunsen console`. A test can cut it, and let it carry nothing.
type wire struct {
	to string

	mu      sync.Mutex
	open    map[net.Conn]bool
	refuses bool
	// silent is closed when the wire carries bytes from the console again; nil if it does.
	silent chan struct{}
}

// newWire listens on a port, and passes connections on.
func newWire(t *testing.T, address, to string) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{to: to, open: map[net.Conn]bool{}}
	t.Cleanup(func() {
		_ = listener.Close()
		w.cut()
		w.mend()
	})
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go w.carry(c)
		}
	}()
	return w
}

func (w *wire) carry(c net.Conn) {
	defer c.Close()
	w.mu.Lock()
	refuses := w.refuses
	w.open[c] = true
	w.mu.Unlock()
	if refuses {
		return
	}
	server, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer server.Close()
	go func() { _, _ = io.Copy(server, c) }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		w.mu.Lock()
		silent := w.silent
		w.mu.Unlock()
		if silent != nil {
			<-silent
		}
		if _, err := c.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// cut closes every connection, and refuses new ones until the wire is mended.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuses = true
	for c := range w.open {
		_ = c.Close()
		delete(w.open, c)
	}
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuses = false
	if w.silent != nil {
		close(w.silent)
		w.silent = nil
	}
}

// silence leaves every connection open, and carries no byte from the console until the wire is mended.
func (w *wire) silence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = make(chan struct{})
}

// shared is a console for several users, behind a wire.
type shared struct {
	origin string
	wire   *wire
	// other is another host of the same console, with a wire of its own.
	other     string
	otherWire *wire
	// provider is the origin of an OpenID provider.
	provider string
}

// startProvider starts an OpenID provider that only says where users sign in, and returns its address.
func (w *world) startProvider(t *testing.T) string {
	t.Helper()
	provider := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		issuer := "https://" + r.Host
		if r.URL.Path == "/.well-known/openid-configuration" {
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, `{"issuer":"`+issuer+`","authorization_endpoint":"`+issuer+
				`/authorize","token_endpoint":"`+issuer+`/token","jwks_uri":"`+issuer+`/keys"}`)
			return
		}
		_, _ = io.WriteString(rw, "<!doctype html><html lang=en><link rel=icon "+
			"href=data:,><title>Provider</title><p>the provider")
	}))
	pair, err := tls.LoadX509KeyPair(w.certificate.cert, w.certificate.key)
	if err != nil {
		t.Fatal(err)
	}
	provider.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	provider.StartTLS()
	t.Cleanup(provider.Close)
	return provider.URL
}

// startShared starts `bunsen console`.
func (w *world) startShared(t *testing.T) *shared {
	t.Helper()
	provider := w.startProvider(t)
	free, err := ports.Free(3)
	if err != nil {
		t.Fatal(err)
	}
	on := func(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
	back := on("127.0.0.1", free[2])
	s := &shared{
		origin: "https://" + on("localhost", free[0]), wire: newWire(t, on("127.0.0.1", free[0]), back),
		other: "https://" + on("localhost", free[1]), otherWire: newWire(t, on("127.0.0.1", free[1]), back),
		provider: provider,
	}
	startProcess(t, w.dir, "console", w.env, filepath.Join(w.bin, "bunsen"), "console",
		"--host", on("localhost", free[0]), "--host", on("localhost", free[1]), "--listen", back,
		"--tls-cert", w.certificate.cert, "--tls-key", w.certificate.key, "--cluster-name", "prod",
		"--oidc-issuer", provider, "--oidc-client-id", "console", "--oidc-ca", w.certificate.cert).printed(t,
		`The console is at (\S+)`)
	return s
}

// token returns a token of a service account with a role; none if the role is empty.
func (w *world) token(t *testing.T, name, role string) string {
	t.Helper()
	w.kubectl(t, "create", "serviceaccount", name)
	if role != "" {
		w.kubectl(t, "create", "clusterrolebinding", name, "--clusterrole", role, "--serviceaccount", "default:"+name)
	}
	return w.kubectl(t, "create", "token", name)
}

// signIn opens a tab in a browser context of its own, and signs in by keyboard.
func (w *world) signIn(t *testing.T, origin, path, token string) *tab {
	t.Helper()
	b := w.chromium.openAlone(t, origin)
	b.visit(path)
	b.shows("h1", "Sign in")
	b.tabTo("#token")
	b.do("typing the token", chromedp.SetValue("#token", token))
	b.press(kb.Enter)
	b.until(`document.querySelector("form.sign-out") !== null`)
	return b
}

// aUserSignsInByKeyboard: with a token, and by the link to the provider. A wrong token says so.
func (w *world) aUserSignsInByKeyboard(t *testing.T) {
	b := w.chromium.openAlone(t, w.shared.origin)
	b.visit("/pool/worker")
	b.tabTo("#token")
	b.press("wrong", kb.Enter)
	b.shows("#refusal", "does not accept this token")
	b.forgive("401")
	b.tabTo("#token")
	b.do("typing the token", chromedp.SetValue("#token", w.token(t, "reader", "bunsen-viewer")))
	b.press(kb.Enter)
	b.shows("h1", "worker")
	b.tabTo("form.sign-out button")
	b.press(kb.Enter)
	b.shows("h1", "Sign in")
	b.tabTo("a.provider")
	b.press(kb.Enter)
	b.until(`location.origin === "` + w.shared.provider + `" && location.pathname === "/authorize"`)
	b.expectForeign(w.shared.provider)
}

// aUserWithoutARightReadsWhichRoleIsMissing: the page is not empty.
func (w *world) aUserWithoutARightReadsWhichRoleIsMissing(t *testing.T) {
	b := w.signIn(t, w.shared.origin, "/", w.token(t, "nobody", ""))
	b.shows("h1", "Not allowed")
	b.shows("main", "bunsen-viewer")
	w.pictures.keep(b, "not-allowed")
}
