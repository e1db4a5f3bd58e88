package git_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source/git"
)

// pair is a certificate that signed itself, with its key.
type pair struct {
	certificate, key []byte
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
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "git"}, NotBefore: until.Add(-time.Hour), NotAfter: until,
		IsCA: true, BasicConstraintsValid: true,
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
		certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}),
	}
	if p.tls, err = tls.X509KeyPair(p.certificate, p.key); err != nil {
		t.Fatal(err)
	}
	return p
}

// serveTLS serves a repository's directory with a certificate, and asks clients for theirs if trusted is not nil.
func serveTLS(t *testing.T, root string, own pair, trusted *x509.CertPool) string {
	t.Helper()
	s := httptest.NewUnstartedServer(backend(t, root))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{own.tls}}
	if trusted != nil {
		s.TLS.ClientAuth, s.TLS.ClientCAs = tls.RequireAndVerifyClientCert, trusted
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are what the tests are for
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL + "/cfg.git"
}

func TestEachProblemOfACertificateHasItsOwnAdvice(t *testing.T) {
	r := newRepo(t)
	r.commit("one", map[string]string{"a": "a"})
	now := time.Now()
	good, expired, elsewhere := issue(t, now.Add(time.Minute), "127.0.0.1"), issue(t, now.Add(-time.Minute), "127.0.0.1"), issue(t, now.Add(time.Minute), "git.example.org")
	client, stranger := issue(t, now.Add(time.Minute)), issue(t, now.Add(time.Minute))
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(client.certificate)
	ca := func(p pair) map[string][]byte { return map[string][]byte{"ca.crt": p.certificate} }
	with := func(p pair) map[string][]byte {
		return map[string][]byte{"ca.crt": good.certificate, "tls.crt": p.certificate, "tls.key": p.key}
	}
	for name, test := range map[string]struct {
		url    string
		secret map[string][]byte
		words  string // "" for success
	}{
		"a certificate that is right":              {serveTLS(t, r.root, good, nil), ca(good), ""},
		"a certificate that has expired":           {serveTLS(t, r.root, expired, nil), ca(expired), "has expired, or is not valid yet: renew it on the server"},
		"a certificate for another name":           {serveTLS(t, r.root, elsewhere, nil), ca(elsewhere), "is for other names: correct the host of the URL"},
		"an unknown authority":                     {serveTLS(t, r.root, good, nil), ca(elsewhere), "put its certificate authority into the Secret as ca.crt"},
		"a client certificate that is right":       {serveTLS(t, r.root, good, clients), with(client), ""},
		"no client certificate":                    {serveTLS(t, r.root, good, clients), ca(good), "write its PEM into tls.crt and tls.key"},
		"a client certificate of somebody unknown": {serveTLS(t, r.root, good, clients), with(stranger), "let the server trust its authority"},
	} {
		t.Run(name, func(t *testing.T) {
			remote := remote(t, test.url, test.secret)
			_, err := remote.List(t.Context())
			if test.words == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantFault(t, err, fault.Stalled, v1alpha1.ReasonAuthentication, test.words)
			if _, again := remote.List(t.Context()); again == nil || again.Error() != err.Error() {
				t.Errorf("the same failure has another text:\n%v\n%v", err, again)
			}
		})
	}
}

func TestARemoteThatAsksToWaitIsWaitedFor(t *testing.T) {
	for name, test := range map[string]struct {
		code  int
		after string
		want  time.Duration
		words string
	}{
		"a limit of requests, in seconds":     {http.StatusTooManyRequests, "120", 2 * time.Minute, "limits the requests"},
		"a limit of requests without a time":  {http.StatusTooManyRequests, "", 0, "limits the requests"},
		"a server that is away":               {http.StatusServiceUnavailable, "30", 30 * time.Second, "does not serve requests now"},
		"a wait of days":                      {http.StatusServiceUnavailable, "999999999", time.Hour, "does not serve requests now"},
		"a wait that is longer than a number": {http.StatusServiceUnavailable, "99999999999999999999999", 0, "does not serve requests now"},
		"a negative wait":                     {http.StatusServiceUnavailable, "-5", 0, "does not serve requests now"},
		"a date in the past":                  {http.StatusServiceUnavailable, "Wed, 21 Oct 2015 07:28:00 GMT", 0, "does not serve requests now"},
		"a date in a far future":              {http.StatusServiceUnavailable, "Wed, 21 Oct 2099 07:28:00 GMT", time.Hour, "does not serve requests now"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", test.after)
				http.Error(w, "request id 4711", test.code)
			}))
			defer s.Close()
			_, err := remote(t, s.URL+"/cfg.git", nil).List(t.Context())
			wantFault(t, err, fault.Retry, v1alpha1.ReasonUnreachable, test.words)
			if got := fault.Of(err, "").After; got != test.want {
				t.Errorf("the wait is %s, not %s", got, test.want)
			}
			if strings.Contains(err.Error(), "4711") || strings.Contains(err.Error(), test.after) && test.after != "" {
				t.Errorf("the text varies with each answer: %v", err)
			}
		})
	}
}

func TestARepositoryWithSHA256IsNamedAsSuch(t *testing.T) {
	r := newRepo(t)
	r.git(r.root, "init", "-q", "--bare", "-b", "main", "--object-format=sha256", filepath.Join(r.root, "new.git"))
	work := filepath.Join(r.root, "newwork")
	r.git(r.root, "init", "-q", "-b", "main", "--object-format=sha256", work)
	r.git(work, "commit", "-q", "--allow-empty", "-m", "one")
	r.git(work, "push", "-q", filepath.Join(r.root, "new.git"), "HEAD")
	web, shell := serveHTTPS(t, r.root), serveSSH(t, r.root, false)
	for _, remote := range []*git.Remote{
		remote(t, web.URL+"/new.git", web.secret(nil)),
		remote(t, "ssh://git@"+shell.addr+"/new.git", shell.secret(nil)),
		remote(t, filepath.Join(r.root, "new.git"), nil),
	} {
		_, err := remote.List(t.Context())
		wantFault(t, err, fault.Stalled, v1alpha1.ReasonInvalidTree, "SHA-256 object names, which are not supported")
	}
}

func TestTheErrorAboutAHostKeyHasTheFingerprints(t *testing.T) {
	r := newRepo(t)
	r.commit("one", map[string]string{"a": "a"})
	shell := serveSSH(t, r.root, false)
	other, _ := newKey(t)
	offered, _, _, _, err := ssh.ParseAuthorizedKey([]byte(shell.known[strings.Index(shell.known, " ")+1:]))
	if err != nil {
		t.Fatal(err)
	}
	url := "ssh://git@" + shell.addr + "/cfg.git"
	has := "the server has ssh-ed25519 " + ssh.FingerprintSHA256(offered)
	_, err = remote(t, url, shell.secret(map[string]string{"known_hosts": knownLine(t, shell.addr, other)})).List(t.Context())
	wantFault(t, err, fault.Stalled, v1alpha1.ReasonAuthentication, has+"; known_hosts has ssh-ed25519 "+ssh.FingerprintSHA256(other.PublicKey()))
	_, err = remote(t, url, shell.secret(map[string]string{"known_hosts": knownLine(t, "127.0.0.1:1", other)})).List(t.Context())
	wantFault(t, err, fault.Stalled, v1alpha1.ReasonAuthentication, has)
}

func TestASlashAtTheEndOfTheURLIsNoPartOfThePath(t *testing.T) {
	r := newRepo(t)
	r.commit("one", map[string]string{"a": "a"})
	web := serveHTTPS(t, r.root)
	if _, err := remote(t, web.URL+"/cfg.git//", web.secret(nil)).List(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestKeysOfASecretThatNobodyReadsAreNamed(t *testing.T) {
	for name, test := range map[string]struct {
		keys  []string
		words []string
	}{
		"a key of Argo CD":        {[]string{"username", "sshPrivateKey"}, []string{`"sshPrivateKey" (write identity)`}},
		"an old key of Flux":      {[]string{"caFile"}, []string{`"caFile" (write ca.crt)`}},
		"a key of Kubernetes":     {[]string{"ssh-privatekey"}, []string{`"ssh-privatekey" (write identity)`}},
		"several, in their order": {[]string{"passwort", "knownHosts"}, []string{`"knownHosts" (write known_hosts), "passwort". Rename or remove them`}},
		"half a certificate":      {[]string{"tls.crt"}, []string{"only one of tls.crt and tls.key"}},
	} {
		t.Run(name, func(t *testing.T) {
			secret := map[string][]byte{}
			for _, key := range test.keys {
				secret[key] = []byte("hidden-content")
			}
			_, err := git.New(git.Config{URL: "https://git.example.org/cfg", Secret: secret})
			wantFault(t, err, fault.Stalled, v1alpha1.ReasonAuthentication, test.words...)
			if strings.Contains(err.Error(), "hidden-content") {
				t.Errorf("the error shows a value: %v", err)
			}
		})
	}
}
