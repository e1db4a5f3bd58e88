package repository_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const (
	userName = "deploy"
	password = "S3CR3T-horse/battery"
	token    = "S3CR3T-token"
)

// backend is git's own http server for the repositories below a directory.
func backend(t *testing.T, root string) http.Handler {
	t.Helper()
	return &cgi.Handler{
		Path: filepath.Join(run(t, root, "--exec-path"), "git-http-backend"), Root: "/", Stderr: io.Discard,
		Logger: log.New(io.Discard, "", 0),
		Env: []string{
			"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		},
		InheritEnv: []string{"PATH"},
	}
}

// guarded serves to clients with the password or the token. It writes the credentials of the others into its answer.
func guarded(next http.Handler) http.Handler {
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte(userName+":"+password))
	asUser := "Basic " + base64.StdEncoding.EncodeToString([]byte(token+":x-oauth-basic"))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Authorization") {
		case basic, asUser, "Bearer " + token:
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("WWW-Authenticate", `Basic realm="`+r.Header.Get("Authorization")+marker+`"`)
			http.Error(w, "no entry for "+r.Header.Get("Authorization")+marker, http.StatusUnauthorized)
		}
	})
}

// pair is a certificate that signed itself, with its key.
type pair struct {
	certificate, key string
	tls              tls.Certificate
}

// issue makes a certificate for names or addresses, valid until a time.
func issue(t *testing.T, until time.Time, names ...string) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "git"}, NotBefore: until.Add(-time.Hour),
		NotAfter: until,
		IsCA:     true, BasicConstraintsValid: true,
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	p := pair{
		certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		key:         string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})),
	}
	if p.tls, err = tls.X509KeyPair([]byte(p.certificate), []byte(p.key)); err != nil {
		t.Fatal(err)
	}
	return p
}

// serveTLS serves with a certificate, and requires one of clients if trusted is not "". It returns the host.
func serveTLS(t *testing.T, handler http.Handler, own pair, trusted string) string {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{own.tls}}
	if trusted != "" {
		s.TLS.ClientAuth, s.TLS.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		s.TLS.ClientCAs.AppendCertsFromPEM([]byte(trusted))
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are what the tests are for
	s.StartTLS()
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "https://")
}

// soon is the end of certificates that are valid during the tests.
func soon() time.Time { return time.Now().Add(30 * time.Minute) }

// listen serves each connection until the test ends, and returns the address.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); serve(c) }()
		}
	}()
	return l.Addr().String()
}

func httpsWays(t *testing.T, root string) chapter {
	own := issue(t, soon(), "127.0.0.1")
	host := serveTLS(t, guarded(backend(t, root)), own, "")
	answer := func(code int, kind string) string {
		return serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, "<html>"+r.Header.Get("Authorization")+marker)
		}), own, "")
	}
	page, forbidden := answer(200, "text/html"), answer(403, "text/plain")
	dumb := serveTLS(t, http.StripPrefix("/", http.FileServer(http.Dir(root))), own, "")
	plain := strings.TrimPrefix(serveHTTP(t, backend(t, root)), "http://")
	banner := listen(t, func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-"+marker+"\r\n") })
	s := chapterSecret{"username": userName, "password": password, "ca.crt": own.certificate, "hosts": host + " " +
		page + " " + forbidden + " " + dumb + " " + banner}
	url := "https://" + host + "/cfg"
	public := data{"ca.crt": own.certificate}
	return chapter{"https: credentials and addresses", data{
		host: "GIT", page: "PAGE", forbidden: "FORBIDDEN",
		dumb: "FILES", plain: "PLAIN", banner: "SSHD",
	}, []way{
		{name: "A password", url: url, secret: s.with()},
		{name: "A token as bearerToken", url: url, secret: s.with("username", "", "password", "", "bearerToken", token)},
		{name: "A token as the user name", url: url, secret: s.with("username", token, "password", "x-oauth-basic")},
		{name: "A slash at the end of the URL", url: url + "/", secret: s.with()},
		{name: "Two slashes at the end of the URL", url: url + "//", secret: s.with()},
		{name: "A path with a space and an apostrophe", url: "https://" + host + "/a%20b/it's.git", secret: s.with()},
		{name: "A user name in the URL, the password in the Secret", url: "https://" + userName + "@" + host + "/cfg", secret: s.with()},
		{name: "No Secret for a server with a private authority", url: url},
		{name: "No credentials", url: url, secret: public},
		{name: "A wrong password", url: url, secret: s.with("password", "S3CR3T-wrong")},
		{name: "A password with a line break at its end", url: url, secret: s.with("password", password+"\n")},
		{name: "A wrong token", url: url, secret: s.with("username", "", "password", "", "bearerToken", "S3CR3T-wrong")},
		{name: "A token with a line break in it", url: url, secret: s.with("username", "", "password", "", "bearerToken", "S3CR3T\r\nX: y")},
		{name: "A password and a token", url: url, secret: s.with("bearerToken", token)},
		{name: "A user name without a password", url: url, secret: s.with("password", "")},
		{name: "Credentials that may not read this repository", url: "https://" + forbidden + "/cfg", secret: s.with()},
		{name: "A wrong password in the URL", url: "https://me:S3CR3T-wrong@" + host + "/cfg", secret: s.with("username", "", "password", "")},
		{name: "A password with a slash in the URL", url: "https://me:S3CR3T/wrong@" + host + "/cfg", secret: public},
		{name: "No list of hosts", url: url, secret: s.with("hosts", "")},
		{name: "A list of other hosts", url: url, secret: s.with("hosts", "git.example.org")},
		{name: "A key of Argo CD, and one of Kubernetes", url: url, secret: s.with("sshPrivateKey", "S3CR3T", "ssh-privatekey", "S3CR3T")},
		{name: "An earlier key of Flux", url: url, secret: s.with("ca.crt", "", "caFile", own.certificate)},
		{name: "Two misspelled keys", url: url, secret: s.with("passwort", "S3CR3T", "knownHosts", "S3CR3T")},
		{name: "A wrong path", url: "https://" + host + "/nope", secret: s.with()},
		{name: "The address of a web page", url: "https://" + page + "/cfg", secret: s.with()},
		{name: "The address of a file server (dumb http)", url: "https://" + dumb + "/cfg/.git", secret: s.with()},
		{name: "The address of a server that speaks ssh", url: "https://" + banner + "/cfg", secret: s.with()},
		{name: "The address of a server without TLS", url: "https://" + plain + "/cfg"},
		{name: "An address where nothing listens", url: "https://127.0.0.1:1/cfg"},
		{name: "http:// without credentials", url: "http://" + plain + "/cfg"},
		{name: "http:// to a server with TLS", url: "http://" + host + "/cfg"},
		{name: "http:// with credentials", url: "http://git.example.org/cfg", secret: data{"username": userName, "password": password, "hosts": "git.example.org"}},
		{name: "git://", url: "git://git.example.org/cfg"},
		{name: "No scheme", url: "git.example.org/cfg"},
		{name: "A query", url: url + "?ref=main&token=S3CR3T", secret: s.with()},
		{name: "A URL with a space in the host", url: "https://me:S3CR3T@ho st/cfg"},
		{name: "A host without a path", url: "https://" + host, secret: s.with()},
		{name: "A path on the controller's machine without a repository", url: "/nonexistent/cfg"},
	}, nil}
}

// serveHTTP serves without TLS.
func serveHTTP(t *testing.T, handler http.Handler) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.URL
}

func certificateWays(t *testing.T, root string) chapter {
	good, expired, other := issue(t, soon(), "127.0.0.1"), issue(t, time.Now().Add(-time.Minute), "127.0.0.1"),
		issue(t, soon(), "git.example.org")
	client, stranger, late := issue(t, soon()), issue(t, soon()), issue(t, time.Now().Add(-time.Minute))
	open := serveTLS(t, backend(t, root), good, "")
	old, elsewhere := serveTLS(t, backend(t, root), expired, ""), serveTLS(t, backend(t, root), other, "")
	mutual := serveTLS(t, backend(t, root), good, client.certificate+late.certificate)
	s := chapterSecret{"ca.crt": good.certificate, "hosts": mutual}
	at := func(host string) string { return "https://" + host + "/cfg" }
	names := data{open: "GIT", old: "EXPIRED", elsewhere: "OTHER-NAME", mutual: "MUTUAL"}
	for _, p := range []pair{expired, late} {
		leaf, err := x509.ParseCertificate(p.tls.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		names[leaf.NotAfter.UTC().Format(time.RFC3339)] = "ITS-END"
	}
	return chapter{"https: certificates", names, []way{
		{name: "The server's private authority in ca.crt", url: at(open), secret: s.with()},
		{name: "Two authorities in ca.crt", url: at(open), secret: s.with("ca.crt", other.certificate+good.certificate)},
		{name: "No authority", url: at(open)},
		{name: "Another authority", url: at(open), secret: s.with("ca.crt", other.certificate)},
		{name: "An authority that is not PEM", url: at(open), secret: s.with("ca.crt", "S3CR3T")},
		{name: "A server's certificate that has expired", url: at(old), secret: s.with("ca.crt", expired.certificate)},
		{name: "A server's certificate for another name", url: at(elsewhere), secret: s.with("ca.crt", other.certificate)},
		{name: "A client certificate", url: at(mutual), secret: s.with("tls.crt", client.certificate, "tls.key", client.key)},
		{name: "A client certificate without a list of hosts", url: at(mutual), secret: s.with("tls.crt", client.certificate, "tls.key", client.key, "hosts", "")},
		{name: "A client certificate for other hosts", url: at(mutual), secret: s.with("tls.crt", client.certificate, "tls.key", client.key, "hosts", "git.example.org")},
		{name: "No client certificate", url: at(mutual), secret: s.with()},
		{name: "A client certificate that the server does not trust", url: at(mutual), secret: s.with("tls.crt", stranger.certificate, "tls.key", stranger.key)},
		{name: "A client certificate that has expired", url: at(mutual), secret: s.with("tls.crt", late.certificate, "tls.key", late.key)},
		{name: "A client certificate without its key", url: at(mutual), secret: s.with("tls.crt", client.certificate)},
		{name: "A client certificate with the key of another one", url: at(mutual), secret: s.with("tls.crt", client.certificate, "tls.key", stranger.key)},
		{name: "A client certificate that is damaged", url: at(mutual), secret: s.with("tls.crt", "S3CR3T", "tls.key", "S3CR3T")},
	}, nil}
}

// redirectWays has redirects inside a host and away from it. Credentials stay on the host of the URL.
func redirectWays(t *testing.T, root string) chapter {
	own := issue(t, soon(), "127.0.0.1")
	var carried atomic.Int64
	counted := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "" {
				carried.Add(1)
			}
			next.ServeHTTP(w, r)
		})
	}
	public := serveTLS(t, counted(backend(t, root)), own, "")
	private := serveTLS(t, counted(guarded(backend(t, root))), own, "")
	plain := serveHTTP(t, counted(backend(t, root)))
	to := map[string]string{
		"/public": "https://" + public, "/private": "https://" + private, "/plain": plain,
		"/old": "", "/loop": "/loop",
	}
	main := guarded(backend(t, root))
	host := serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for prefix, target := range to {
			if rest, ok := strings.CutPrefix(r.URL.Path, prefix); ok {
				http.Redirect(w, r, target+rest+"?"+r.URL.RawQuery, http.StatusFound)
				return
			}
		}
		if strings.HasPrefix(r.URL.Path, "/login") {
			http.Redirect(w, r, "/sign_in?back="+marker, http.StatusFound)
			return
		}
		main.ServeHTTP(w, r)
	}), own, "")
	s := chapterSecret{"username": userName, "password": password, "ca.crt": own.certificate, "hosts": host}
	return chapter{"https: redirects", data{
		host: "GIT", public: "PUBLIC", private: "PRIVATE",
		strings.TrimPrefix(plain, "http://"): "PLAIN",
	}, []way{
		{name: "To another path of the host", url: "https://" + host + "/old/cfg", secret: s.with()},
		{name: "To another host, which requires no credentials", url: "https://" + host + "/public/cfg", secret: s.with()},
		{name: "To another host, which requires credentials", url: "https://" + host + "/private/cfg", secret: s.with()},
		{name: "To another host that the Secret names as well", url: "https://" + host + "/private/cfg", secret: s.with("hosts", host+" "+private)},
		{name: "To a host without TLS", url: "https://" + host + "/plain/cfg", secret: s.with()},
		{name: "To a login page", url: "https://" + host + "/login/cfg", secret: s.with()},
		{name: "To itself", url: "https://" + host + "/loop/cfg", secret: s.with()},
	}, func(t *testing.T) {
		if carried.Load() != 0 {
			t.Errorf("%d requests carried credentials to another host", carried.Load())
		}
	}}
}
