package console

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// signsIn runs the code flow without an API server, and returns the error of the provider's answer.
func signsIn(o *sso, p *provider) error {
	started := httptest.NewRecorder()
	if err := o.start(started, httptest.NewRequest("GET", "https://console.example.org/oidc/start", nil), "/",
		time.Now()); err != nil {
		return err
	}
	to, err := url.Parse(started.Header().Get("Location"))
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.asked = to.Query()
	p.mu.Unlock()
	back := httptest.NewRequest("GET", "https://console.example.org/oidc/callback?code=the-code&state="+
		url.QueryEscape(to.Query().Get("state")), nil)
	for _, c := range started.Result().Cookies() {
		back.AddCookie(c)
	}
	_, _, err = o.finish(httptest.NewRecorder(), back, time.Now())
	return err
}

// TestAHostileProvider: what a provider answers leads the code and the secret of the client to no other host, needs
// little memory, and gives nobody a token that its keys do not sign.
func TestAHostileProvider(t *testing.T) {
	carried := ""
	thief := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		carried += r.Header.Get("Authorization") + r.FormValue("code") + r.FormValue("client_secret")
	}))
	defer thief.Close()
	plain := httptest.NewServer(thief.Config.Handler)
	defer plain.Close()
	settings := func(p *provider, change ...string) string {
		text := fmt.Sprintf(`{"issuer":%q,"authorization_endpoint":%q,"token_endpoint":%q,"jwks_uri":%q,`+
			`"id_token_signing_alg_values_supported":["RS256"]}`, p.URL, p.URL+"/auth", p.URL+"/token", p.URL+"/keys")
		return strings.NewReplacer(change...).Replace(text)
	}
	for sentence, x := range map[string]struct {
		answer func(p *provider, w http.ResponseWriter, r *http.Request) bool
		want   string
	}{
		"nothing hostile": {func(*provider, http.ResponseWriter, *http.Request) bool { return false }, ""},
		"settings that redirect to another host": {func(_ *provider, w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, thief.URL, http.StatusFound)
			return true
		}, "the provider redirects"},
		"settings of another issuer": {func(p *provider, w http.ResponseWriter, _ *http.Request) bool {
			fmt.Fprint(w, settings(p, `"issuer":"https://`, `"issuer":"https://x.`))
			return true
		}, "issuer"},
		"settings without end": {func(_ *provider, w http.ResponseWriter, _ *http.Request) bool {
			for {
				if _, err := w.Write([]byte(strings.Repeat(" ", 1<<16))); err != nil {
					return true
				}
			}
		}, "reading the settings"},
		"a token service without TLS": {func(p *provider, w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/.well-known/openid-configuration" {
				return false
			}
			fmt.Fprint(w, settings(p, p.URL+"/token", plain.URL+"/token"))
			return true
		}, "without https"},
		"keys without TLS": {func(p *provider, w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/.well-known/openid-configuration" {
				return false
			}
			fmt.Fprint(w, settings(p, p.URL+"/keys", plain.URL+"/keys"))
			return true
		}, "without https"},
		"a token service that redirects to another host": {func(_ *provider, w http.ResponseWriter,
			r *http.Request,
		) bool {
			if r.URL.Path != "/token" {
				return false
			}
			http.Redirect(w, r, thief.URL+"/token", http.StatusTemporaryRedirect)
			return true
		}, "the provider redirects"},
		"keys that redirect": {func(_ *provider, w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/keys" {
				return false
			}
			http.Redirect(w, r, thief.URL+"/keys", http.StatusFound)
			return true
		}, "the provider redirects"},
	} {
		t.Run(sentence, func(t *testing.T) {
			p, ca := startProvider(t)
			honest := p.Config.Handler
			p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if !x.answer(p, w, r) {
					honest.ServeHTTP(w, r)
				}
			})
			o := newTestSSO(t, p, ca)
			err := signsIn(o, p)
			if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
				t.Errorf("got %v, want %q", err, x.want)
			}
		})
	}
	if carried != "" {
		t.Errorf("another host got %q", carried)
	}
}

func newTestSSO(t *testing.T, p *provider, ca string) *sso {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("the-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := newSSO(OIDC{Issuer: p.URL, ClientID: "kubernetes", SecretFile: secret, CAFile: ca}, "c")
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestAProviderReplacesItsKey: tokens of the new key count as soon as the provider lists it, and those of a key that it
// does not list never.
func TestAProviderReplacesItsKey(t *testing.T) {
	p, ca := startProvider(t)
	o := newTestSSO(t, p, ca)
	if err := signsIn(o, p); err != nil {
		t.Fatal(err)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "new"},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.signer = signer
	p.mu.Unlock()
	if err := signsIn(o, p); err == nil || !strings.Contains(err.Error(), "checking the ID token") {
		t.Errorf("a key that the provider does not list: %v", err)
	}
	p.mu.Lock()
	p.keys.Keys = []jose.JSONWebKey{{Key: key.Public(), KeyID: "new", Algorithm: "RS256", Use: "sig"}}
	p.mu.Unlock()
	if err := signsIn(o, p); err != nil {
		t.Errorf("the new key: %v", err)
	}
}
