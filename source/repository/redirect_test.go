package repository_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// witness is a server that records which credentials each of its requests has.
type witness struct {
	addr string
	mu   sync.Mutex
	seen []string
}

// newWitness serves on an address, with TLS if own is not nil. It asks for a client certificate, and accepts any.
func newWitness(t *testing.T, address string, own *pair, next http.Handler) *witness {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{addr: l.Addr().String()}
	s := &httptest.Server{Listener: l, Config: &http.Server{
		ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			var found []string
			if r.Header.Get("Authorization") != "" {
				found = append(found, "login")
			}
			if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
				found = append(found, "certificate")
			}
			w.mu.Lock()
			w.seen = append(w.seen, strings.Join(found, "+"))
			w.mu.Unlock()
			next.ServeHTTP(out, r)
		}),
	}}
	if own == nil {
		s.Start()
	} else {
		s.TLS = &tls.Config{Certificates: []tls.Certificate{own.tls}, ClientAuth: tls.RequestClientCert}
		s.StartTLS()
	}
	t.Cleanup(s.Close)
	return w
}

// requests returns what the requests so far carried, each kind once, and forgets them.
func (w *witness) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := slices.Clone(w.seen)
	w.seen = nil
	slices.Sort(out)
	return slices.Compact(out)
}

// credential is a kind of credential in a Secret, and what a request with it carries.
type credential struct {
	secret, proxy data
	provider      v1alpha1.SourceProvider
	env           data
	authorities   string
	url           string // with HOST for the host
	carries       string
}

// TestNoCredentialLeavesItsHost: whatever the kind of the credential, and wherever the server redirects, only the host
// and the port that the Secret lists get it. Other hosts get no request at all, but for the files of artifacts.
func TestNoCredentialLeavesItsHost(t *testing.T) {
	own := issue(t, soon(), "127.0.0.1", "127.0.0.2", "dev.azure.com", "login.microsoftonline.com",
		"europe-docker.pkg.dev")
	client := issue(t, soon())
	repository, artifacts := backend(t, newRepository(t)), artifactRegistry(t)
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/v2/"):
			artifacts.ServeHTTP(w, r)
		case strings.HasSuffix(r.URL.Path, "/access_tokens"):
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, `{"token":%q,"expires_at":"2100-01-01T00:00:00Z"}`, token)
		case strings.HasSuffix(r.URL.Path, "/oauth2/v2.0/token"), strings.HasPrefix(r.URL.Path, "/computeMetadata/"):
			fmt.Fprintf(w, `{"token_type":"Bearer","expires_in":3599,"access_token":%q}`, token)
		default:
			repository.ServeHTTP(w, r)
		}
	})
	port, host, plain := newWitness(t, "127.0.0.1:0", &own, serve), newWitness(t, "127.0.0.2:0", &own, serve),
		newWitness(t, "127.0.0.1:0", nil, serve)
	metadata := newWitness(t, "127.0.0.1:0", nil, serve)

	var leads atomic.Pointer[func(*http.Request) string]
	needsLogin := new(atomic.Bool)
	origin := newWitness(t, "127.0.0.1:0", &own, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" && needsLogin.Load() {
			w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if to := (*leads.Load())(r); to != "" {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
			return
		}
		r.URL.Path = strings.Replace(r.URL.Path, "/moved", "", 1)
		serve.ServeHTTP(w, r)
	}))

	var tunnels atomic.Int64
	proxy := data{"address": connectProxy(t, routes{
		"dev.azure.com:443": origin.addr, "login.microsoftonline.com:443": port.addr,
		"europe-docker.pkg.dev:443": origin.addr,
	}, nil, &tunnels), "username": userName, "password": password}
	s := chapterSecret{"ca.crt": own.certificate, "hosts": origin.addr}
	app := data{}
	for k, v := range newGitHub(t).secret {
		app[k] = string(v)
	}
	git, image := "https://HOST/cfg", "oci://HOST/team/cfg"
	certified := []string{"tls.crt", client.certificate, "tls.key", client.key}
	credentials := map[string]credential{
		"a password": {secret: s.with("username", userName, "password", password), url: git, carries: "login"},
		"a token":    {secret: s.with("bearerToken", token), url: git, carries: "login"},
		"a password in the URL": {
			secret: s.with(), url: "https://" + userName + ":secret@HOST/cfg", carries: "login",
		},
		"a client certificate": {secret: s.with(certified...), url: git, carries: "certificate"},
		"a client certificate and a password": {
			secret: s.with(append(certified, "username", userName, "password", password)...), url: git,
			carries: "login+certificate",
		},
		"a GitHub App": {
			secret: chapterSecret(app).with("ca.crt", own.certificate, "hosts", origin.addr), url: git,
			carries: "login",
		},
		"a GitHub App and a client certificate": {
			secret: chapterSecret(app).with(append(certified, "ca.crt", own.certificate, "hosts", origin.addr)...),
			url:    git, carries: "login+certificate",
		},
		"a token of Azure": {
			secret: data{"ca.crt": own.certificate}, url: "https://dev.azure.com/cfg", carries: "login", proxy: proxy,
			provider: v1alpha1.ProviderAzure, authorities: own.certificate, env: data{
				"AZURE_TENANT_ID": "tenant", "AZURE_CLIENT_ID": "client",
				"AZURE_FEDERATED_TOKEN_FILE": writeFile(t, filepath.Join(t.TempDir(), "token"), "S3CR3T.projected"),
			},
		},
		"a login of a registry": {
			secret: s.with("username", userName, "password", password), url: image, carries: "login",
		},
		"a client certificate for a registry": {secret: s.with(certified...), url: image, carries: "certificate"},
		"a token of Google Cloud": {
			secret: data{"ca.crt": own.certificate}, url: "oci://europe-docker.pkg.dev/team/cfg", carries: "login",
			proxy: proxy, provider: v1alpha1.ProviderGCP, env: data{"GCE_METADATA_HOST": metadata.addr},
		},
	}
	others := map[string]*witness{"another host": host, "another port": port, "http": plain}
	targets := map[string]string{
		"another host": "https://" + host.addr, "another port": "https://" + port.addr, "http": "http://" + plain.addr,
		"the same host": "",
	}
	for kind, c := range credentials {
		needsLogin.Store(strings.Contains(c.carries, "login"))
		isImage := strings.HasPrefix(c.url, "oci://")
		w := way{
			url: strings.Replace(c.url, "HOST", origin.addr, 1), secret: c.secret, proxy: c.proxy, provider: c.provider,
			env: c.env, authorities: c.authorities,
		}
		if isImage {
			w.ref = v1alpha1.GitRef{Tag: "1.0.0"}
		}
		// Registries redirect requests for files, so these are a case of their own.
		parts := map[string]func(*http.Request) bool{"each request": func(r *http.Request) bool {
			return !strings.HasSuffix(r.URL.Path, "/access_tokens")
		}}
		if isImage {
			parts["files"] = func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/blobs/") }
		}
		for target, to := range targets {
			for part, redirects := range parts {
				t.Run(kind+", to "+target+" for "+part, func(t *testing.T) {
					redirect := func(r *http.Request) string {
						moved := strings.HasPrefix(r.URL.Path, "/moved") || strings.HasPrefix(r.URL.Path, "/v2/moved")
						if !redirects(r) || moved || r.Method == http.MethodPost {
							return ""
						}
						if to != "" {
							return to + r.URL.RequestURI()
						}
						if rest, ok := strings.CutPrefix(r.URL.RequestURI(), "/v2/"); ok {
							return "/v2/moved/" + rest
						}
						return "/moved" + r.URL.RequestURI()
					}
					leads.Store(&redirect)
					for _, o := range append(slices.Collect(maps.Values(others)), origin) {
						o.requests()
					}
					err := w.read(t)
					file := part == "files" && target != "http"
					if works := file || target == "the same host"; works != (err == nil) {
						t.Errorf("reading: %v", err)
					}
					if err != nil && !strings.Contains(err.Error(), "redirects to another host or port") &&
						!strings.Contains(err.Error(), "address without https") {
						t.Errorf("the error does not say what to do: %v", err)
					}
					if got := origin.requests(); !slices.Contains(got, c.carries) {
						t.Errorf("the host of the URL got %q, want %q", got, c.carries)
					}
					for name, o := range others {
						if c.provider == v1alpha1.ProviderAzure && o == port {
							continue // it is the token service
						}
						got := o.requests()
						if file && name == target && slices.Equal(got, []string{""}) {
							continue
						}
						if len(got) > 0 {
							t.Errorf("%s got %q", name, got)
						}
					}
				})
			}
		}
	}
}

// TestAClientCertificateForATokenService: another host gets the client certificate if the Secret lists it, and only
// then.
func TestAClientCertificateForATokenService(t *testing.T) {
	own, client := issue(t, soon(), "127.0.0.1"), issue(t, soon())
	artifacts := artifactRegistry(t)
	tokens := newWitness(t, "127.0.0.1:0", &own, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"token":%q}`, token)
	}))
	host := newWitness(t, "127.0.0.1:0", &own, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.Header().Set("WWW-Authenticate", `Bearer realm="https://`+tokens.addr+`/token",service="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		artifacts.ServeHTTP(w, r)
	}))
	for sentence, c := range map[string]struct {
		hosts string
		want  []string
	}{
		"a token service that the Secret lists":         {host.addr + " " + tokens.addr, []string{"certificate"}},
		"a token service that the Secret does not list": {host.addr, []string{""}},
	} {
		err := way{
			url: "oci://" + host.addr + "/team/cfg", ref: v1alpha1.GitRef{Tag: "1.0.0"}, secret: data{
				"ca.crt": own.certificate, "tls.crt": client.certificate, "tls.key": client.key, "hosts": c.hosts,
			},
		}.read(t)
		if got := tokens.requests(); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s got %q, want %q (%v)", sentence, got, c.want, err)
		}
	}
}

// TestAServerThatChangesItsCertificate: each connection checks the certificate, so another server at the same address
// gets no request, also after a successful poll. A renewed certificate of the same authority needs no change.
func TestAServerThatChangesItsCertificate(t *testing.T) {
	root := newRepository(t)
	own, other := issue(t, soon(), "127.0.0.1"), issue(t, soon(), "127.0.0.1")
	var now atomic.Pointer[tls.Certificate]
	now.Store(&own.tls)
	var requests atomic.Int64
	inner := guarded(backend(t, root))
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		inner.ServeHTTP(w, r)
	}))
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: []tls.Certificate{*now.Load()}}, nil
	}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	remote, err := way{url: s.URL + "/cfg", secret: data{
		"username": userName, "password": password, "ca.crt": own.certificate, "hosts": s.Listener.Addr().String(),
	}}.open()
	if err != nil {
		t.Fatal(err)
	}
	list := func() (source.Listing, error) {
		now := time.Now()
		return remote.List(t.Context(), source.Poll{Now: now, NotBefore: now})
	}
	if _, err := list(); err != nil {
		t.Fatal(err)
	}
	before := requests.Load()
	now.Store(&other.tls)
	_, err = list()
	if err == nil || !strings.Contains(err.Error(), "certificate is not trusted") || requests.Load() != before {
		t.Errorf("%d requests to another server, %v", requests.Load()-before, err)
	}
	now.Store(&own.tls)
	if _, err := list(); err != nil {
		t.Errorf("the first certificate again: %v", err)
	}
}
