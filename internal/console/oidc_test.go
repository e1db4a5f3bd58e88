package console

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// provider is an OpenID provider that signs in everybody as Ada. It checks the client's secret and the verifier.
type provider struct {
	*httptest.Server
	signer jose.Signer
	keys   jose.JSONWebKeySet

	mu    sync.Mutex
	asked url.Values
	// forge changes the claims of the next ID token; nil for none.
	forge func(map[string]any)
}

func startProvider(t *testing.T) (*provider, string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{keys: jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{
		Key: key.Public(), KeyID: "k", Algorithm: "RS256",
		Use: "sig",
	}}}}
	if p.signer,
		err = jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}},
		nil); err != nil {
		t.Fatal(err)
	}
	p.Server = httptest.NewTLSServer(p)
	t.Cleanup(p.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	return p, ca
}

// ServeHTTP has the provider's settings, its keys, and the exchange of a code.
func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var answer any
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		answer = map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/auth", "token_endpoint": p.URL + "/token",
			"jwks_uri":                              p.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"RS256"}, "response_types_supported": []string{"code"},
			"subject_types_supported": []string{"public"},
		}
	case "/keys":
		answer = p.keys
	case "/token":
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		_, secret, _ := r.BasicAuth()
		if r.FormValue("code") != "the-code" || secret != "the-secret" ||
			base64.RawURLEncoding.EncodeToString(sum[:]) != p.asked.Get("code_challenge") {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":"invalid_grant","error_description":"the-secret"}`))
			return
		}
		claims := map[string]any{
			"iss": p.URL, "aud": "kubernetes", "sub": "1", "email": "ada@example.org", "email_verified": true,
			"nonce": p.asked.Get("nonce"),
			"iat":   time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
		}
		if p.forge != nil {
			p.forge(claims)
		}
		token, err := jwt.Signed(p.signer).Claims(claims).Serialize()
		if err != nil {
			panic(err)
		}
		answer = map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": token}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// TestSigningInAtAProvider runs the code flow with a provider that a real API server trusts, and with answers that an
// attacker sends.
func TestSigningInAtAProvider(t *testing.T) {
	idp, ca := startProvider(t)
	rc, admin := startCluster(t, func(api *envtest.APIServer) {
		api.Configure().Set("oidc-issuer-url", idp.URL).Set("oidc-ca-file", ca).Set("oidc-client-id", "kubernetes").
			Set("oidc-username-claim", "email").Set("oidc-signing-algs", "RS256")
	})
	create(t, admin, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "ada"}, RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName,
			Kind:     "ClusterRole", Name: "bunsen-viewer",
		},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "ada@example.org"}},
	})
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("the-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	shared, err := Share(t.Context(), Sharing{
		Address: "127.0.0.1:0", Hosts: []string{"console.example.org"}, API: rc, Name: "kind",
		OIDC: OIDC{Issuer: idp.URL, ClientID: "kubernetes", SecretFile: secret, CAFile: ca, Scopes: []string{"email"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- shared.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	const base = "https://console.example.org"
	// begin goes to the provider, and returns what the console requested.
	begin := func(t *testing.T, c *http.Client) url.Values {
		t.Helper()
		form := get(t, c, base+"/search?q=x")
		if form.status != 401 || !strings.Contains(form.body, `href="/oidc/start?next=%2Fsearch%3Fq%3Dx"`) {
			t.Fatalf("%d %s", form.status, form.body)
		}
		r := get(t, c, base+"/oidc/start?next=%2Fsearch%3Fq%3Dx")
		to := mustParse(t, r.header.Get("Location"))
		if r.status != http.StatusSeeOther || !strings.HasPrefix(to.String(), idp.URL+"/auth?") ||
			!strings.Contains(r.header.Get("Set-Cookie"), "SameSite=Lax") {
			t.Fatalf("%d %v %s", r.status, r.header, r.body)
		}
		q := to.Query()
		if q.Get("redirect_uri") != base+"/oidc/callback" || q.Get("code_challenge_method") != "S256" ||
			q.Get("scope") != "openid email" || len(q.Get("nonce")) < 26 || len(q.Get("state")) < 26 {
			t.Errorf("it requests %v", q)
		}
		idp.mu.Lock()
		defer idp.mu.Unlock()
		idp.asked, idp.forge = q, nil
		return q
	}
	comeBack := []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}

	t.Run("the user of the ID token reads", func(t *testing.T) {
		c := shared.browser(t)
		q := begin(t, c)
		answer := base + "/oidc/callback?code=the-code&state=" + q.Get("state")
		r := get(t, c, answer, comeBack...)
		if r.status != http.StatusSeeOther || r.header.Get("Location") != "/search?q=x" {
			t.Fatalf("%d %v %s", r.status, r.header, r.body)
		}
		if page := get(t, c, base+"/"); page.status != 200 || !strings.Contains(page.body, "ada@example.org") {
			t.Errorf("%d %s", page.status, page.body)
		}
		if again := get(t, shared.browser(t), answer, comeBack...); again.status != 401 ||
			len(again.header.Values("Set-Cookie")) > 1 {
			t.Errorf("the answer works in another browser: %d", again.status)
		}
		if again := get(t, c, answer, comeBack...); again.status == http.StatusSeeOther &&
			again.header.Get("Location") == "/search?q=x" {
			t.Errorf("the answer works twice: %d", again.status)
		}
	})
	for sentence, x := range map[string]struct {
		query string
		forge func(map[string]any)
		want  string
	}{
		"another state":            {"code=the-code&state=x", nil, "does not belong to an attempt"},
		"no state":                 {"code=the-code", nil, "does not belong to an attempt"},
		"a wrong code":             {"code=x&state=STATE", nil, "refused the code: invalid_grant"},
		"the provider says no":     {"error=access_denied&error_description=%3Cscript%3Ealert(1)%3C/script%3E&state=STATE", nil, "did not sign you in: access_denied &lt;script&gt;"},
		"a token for another app":  {"code=the-code&state=STATE", func(c map[string]any) { c["aud"] = "other" }, "checking the ID token"},
		"a token of another user":  {"code=the-code&state=STATE", func(c map[string]any) { c["nonce"] = "stolen" }, "is of another attempt"},
		"a token without a nonce":  {"code=the-code&state=STATE", func(c map[string]any) { delete(c, "nonce") }, "is of another attempt"},
		"an expired token":         {"code=the-code&state=STATE", func(c map[string]any) { c["exp"] = time.Now().Add(-time.Hour).Unix() }, "checking the ID token"},
		"a token of other issuers": {"code=the-code&state=STATE", func(c map[string]any) { c["iss"] = "https://evil.example" }, "checking the ID token"},
		"a user without a name":    {"code=the-code&state=STATE", func(c map[string]any) { delete(c, "email") }, "does not accept this token"},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := shared.browser(t)
			q := begin(t, c)
			idp.mu.Lock()
			idp.forge = x.forge
			idp.mu.Unlock()
			r := get(t, c, base+"/oidc/callback?"+strings.ReplaceAll(x.query, "STATE", q.Get("state")), comeBack...)
			if r.status != 401 || !strings.Contains(r.body, x.want) || strings.Contains(r.body, "the-secret") ||
				strings.Contains(r.body, "<script>alert") {
				t.Errorf("%d %s", r.status, r.body)
			}
			if page := get(t, c, base+"/"); page.status != 401 {
				t.Errorf("after that, a page has status %d", page.status)
			}
		})
	}
}

// TestSettingsOfAProvider: each wrong one is named.
func TestSettingsOfAProvider(t *testing.T) {
	for want, o := range map[string]OIDC{
		"--oidc-issuer is missing":              {ClientID: "x"},
		`--oidc-issuer "http://id.example.org"`: {Issuer: "http://id.example.org", ClientID: "x"},
		"--oidc-client-id is missing":           {Issuer: "https://id.example.org"},
	} {
		if err := o.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", o, err)
		}
	}
	if _, err := newSSO(OIDC{CAFile: "missing"}, "c"); err == nil || !strings.Contains(err.Error(), "--oidc-ca") {
		t.Error(err)
	}
	if _, err := newSSO(OIDC{SecretFile: "missing"}, "c"); err == nil ||
		!strings.Contains(err.Error(), "--oidc-client-secret-file") {
		t.Error(err)
	}
}
