package tokens_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/access"
	sourcetokens "github.com/bunsen-os/bunsen/source/tokens"
)

// now is the time of every test: the server checks the times of a JWT against it.
var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// newKey returns a key in PEM, and its public part.
func newKey(t *testing.T, bits int, pkcs8 bool) ([]byte, *rsa.PublicKey) {
	t.Helper()
	t.Setenv("GODEBUG", "rsa1024min=0") // a key that is too small is one of the cases
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	if pkcs8 {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		block = &pem.Block{Type: "PRIVATE KEY", Bytes: der}
	}
	return pem.EncodeToMemory(block), &key.PublicKey
}

// api is a server that answers as GitHub's documentation says, and checks each JWT.
type api struct {
	*httptest.Server
	t        *testing.T
	key      *rsa.PublicKey
	now      time.Time
	lifetime time.Duration

	mu       sync.Mutex
	requests []string
	answer   http.HandlerFunc // nil: the documented answer
}

func newAPI(t *testing.T, key *rsa.PublicKey) *api {
	t.Helper()
	a := &api{t: t, key: key, now: now, lifetime: time.Hour}
	a.Server = httptest.NewUnstartedServer(a)
	a.Config.ErrorLog = log.New(io.Discard, "", 0)
	a.StartTLS()
	t.Cleanup(a.Close)
	return a
}

func (a *api) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.requests)
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	a.requests = append(a.requests, r.Method+" "+r.URL.Path+" "+string(body))
	n, answer := len(a.requests), a.answer
	a.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	if err := a.check(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")); err != nil {
		a.t.Logf("the server refuses a JWT: %v", err)
		http.Error(w, `{"message":"A JSON web token could not be decoded"}`, http.StatusUnauthorized)
		return
	}
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"token": fmt.Sprintf("ghs_token%d", n), "expires_at": a.now.Add(a.lifetime).Format(time.RFC3339),
		"permissions": map[string]string{"contents": "read"},
	})
}

// check reads a JWT as GitHub's documentation says: RS256, a start that is not in the future, an end at most ten
// minutes ahead.
func (a *api) check(jwt string) error {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return errors.New("not three parts")
	}
	var raw [3][]byte
	for i, p := range parts {
		var err error
		if raw[i], err = base64.RawURLEncoding.DecodeString(p); err != nil {
			return err
		}
	}
	var head struct{ Alg, Typ string }
	var claims struct {
		Iat, Exp int64
		Iss      string
	}
	if err := errors.Join(json.Unmarshal(raw[0], &head), json.Unmarshal(raw[1], &claims)); err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err := rsa.VerifyPKCS1v15(a.key, crypto.SHA256, sum[:], raw[2]); err != nil {
		return err
	}
	switch {
	case head.Alg != "RS256" || head.Typ != "JWT":
		return fmt.Errorf("header %v", head)
	case claims.Iss != "4711":
		return fmt.Errorf("issuer %q", claims.Iss)
	case claims.Iat > a.now.Unix() || claims.Exp > a.now.Add(10*time.Minute).Unix() || claims.Exp <= a.now.Unix():
		return fmt.Errorf("from %d to %d, now %d", claims.Iat, claims.Exp, a.now.Unix())
	}
	return nil
}

func (a *api) secret(key []byte, override map[string]string) map[string][]byte {
	out := map[string][]byte{
		"githubAppID": []byte("4711"), "githubAppInstallationID": []byte(" 815\n"), "githubAppPrivateKey": key,
		"ca.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw}),
	}
	for k, v := range override {
		out[k] = []byte(v)
		if v == "" {
			delete(out, k)
		}
	}
	return out
}

func (a *api) app(secret map[string][]byte) *sourcetokens.GitHubApp {
	a.t.Helper()
	app, err := parse(a.t, a.URL+"/team/cfg.git", secret)
	if err != nil {
		a.t.Fatal(err)
	}
	return app
}

func parse(t *testing.T, url string, secret map[string][]byte) (*sourcetokens.GitHubApp, error) {
	t.Helper()
	at, err := source.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client, err := access.Client(at, secret, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sourcetokens.ParseGitHubApp(secret, at, client)
}

func TestATokenIsRequestedOnceForAllSources(t *testing.T) {
	for _, pkcs8 := range []bool{false, true} {
		key, public := newKey(t, 2048, pkcs8)
		a := newAPI(t, public)
		var tokens sourcetokens.GitHubTokens
		var all sync.WaitGroup
		for range 50 {
			app := a.app(a.secret(key, nil)) // each source reads the Secret itself
			all.Go(func() {
				if token, err := tokens.Token(t.Context(), app, now); token != "ghs_token1" || err != nil {
					t.Errorf("got %q, %v", token, err)
				}
			})
		}
		all.Wait()
		want := `POST /api/v3/app/installations/815/access_tokens {"permissions":{"contents":"read"}}`
		if a.count() != 1 || a.requests[0] != want {
			t.Errorf("the requests are %q, want one %q", a.requests, want)
		}
	}
}

func TestAGitHubTokenIsReplacedFiveMinutesBeforeItsEnd(t *testing.T) {
	key, public := newKey(t, 2048, false)
	for name, test := range map[string]struct {
		lifetime time.Duration // as the server says
		after    time.Duration
		want     int // requests
	}{
		"before":                   {time.Hour, 54*time.Minute + 59*time.Second, 1},
		"five minutes before":      {time.Hour, 55 * time.Minute, 2},
		"a token of four minutes":  {4 * time.Minute, 0, 2},
		"a token of a year":        {365 * 24 * time.Hour, 55 * time.Minute, 2},
		"a token that ended":       {-time.Hour, 0, 2},
		"the same moment":          {time.Hour, 0, 1},
		"an hour and a half later": {time.Hour, 90 * time.Minute, 2},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t, public)
			a.lifetime = test.lifetime
			app := a.app(a.secret(key, nil))
			var tokens sourcetokens.GitHubTokens
			if _, err := tokens.Token(t.Context(), app, now); err != nil {
				t.Fatal(err)
			}
			a.now = now.Add(test.after)
			if _, err := tokens.Token(t.Context(), app, a.now); err != nil || a.count() != test.want {
				t.Errorf("%d requests, %v; want %d", a.count(), err, test.want)
			}
		})
	}
}

func TestARefusedGitHubTokenIsNotUsedAgain(t *testing.T) {
	key, public := newKey(t, 2048, false)
	a := newAPI(t, public)
	app := a.app(a.secret(key, nil))
	var tokens sourcetokens.GitHubTokens
	first, _ := tokens.Token(t.Context(), app, now)
	tokens.Forget(app, "another one")
	if again, _ := tokens.Token(t.Context(), app, now); again != first {
		t.Errorf("the token of another source was dropped: %q", again)
	}
	tokens.Forget(app, first)
	if again, err := tokens.Token(t.Context(), app, now); again == first || err != nil {
		t.Errorf("the refused token is used again: %q, %v", again, err)
	}
}

// TestClocksMayDiffer: GitHub refuses a JWT that starts in the future, or ends more than ten minutes ahead.
func TestClocksMayDiffer(t *testing.T) {
	key, public := newKey(t, 2048, false)
	for skew, ok := range map[time.Duration]bool{
		0: true, 59 * time.Second: true, -59 * time.Second: true,
		2 * time.Minute: false, -10 * time.Minute: false,
	} {
		a := newAPI(t, public)
		var tokens sourcetokens.GitHubTokens
		_, err := tokens.Token(t.Context(), a.app(a.secret(key, nil)), now.Add(skew))
		if ok != (err == nil) {
			t.Errorf("a clock that is off by %v: %v", skew, err)
		}
	}
}

func TestWhatTheAPIAnswers(t *testing.T) {
	const leak = "INTERNAL-4711"
	key, public := newKey(t, 2048, false)
	status := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", now.Format(http.TimeFormat))
			w.Header().Set("Location", "https://evil.example/?"+leak)
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			fmt.Fprint(w, `{"message":"`+leak+`"}`)
		}
	}
	body := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated); fmt.Fprint(w, text) }
	}
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		kind   fault.Kind
		reason string
		words  string
	}{
		"another key":         {status(401), fault.Stalled, v1alpha1.ReasonAuthentication, "check that githubAppPrivateKey is a key of the app githubAppID (401"},
		"a wrong clock":       {status(401, "Date", now.Add(time.Hour).Format(http.TimeFormat)), fault.Stalled, v1alpha1.ReasonAuthentication, "correct the clock"},
		"suspended":           {status(403), fault.Stalled, v1alpha1.ReasonAuthentication, "the installation is suspended"},
		"a limit":             {status(403, "X-RateLimit-Remaining", "0"), fault.Retry, v1alpha1.ReasonUnreachable, "GitHub limits the requests"},
		"too many requests":   {status(429, "Retry-After", "60"), fault.Retry, v1alpha1.ReasonUnreachable, "GitHub limits the requests"},
		"no installation":     {status(404), fault.Stalled, v1alpha1.ReasonAuthentication, "no installation 815: install it, or correct githubAppInstallationID"},
		"no right":            {status(422), fault.Stalled, v1alpha1.ReasonAuthentication, "give it the permission Contents: Read-only"},
		"a redirect":          {status(307), fault.Stalled, v1alpha1.ReasonAuthentication, "the API redirects, which the controller does not follow"},
		"a failure":           {status(502), fault.Retry, v1alpha1.ReasonUnreachable, "does not answer the request (502 Bad Gateway)"},
		"a success":           {status(200), fault.Retry, v1alpha1.ReasonUnreachable, "does not answer the request (200 OK)"},
		"a page":              {body("<html>" + leak), fault.Retry, v1alpha1.ReasonUnreachable, "is not one of GitHub's API"},
		"no token":            {body(`{"expires_at":"2026-03-04T06:06:07Z"}`), fault.Retry, v1alpha1.ReasonUnreachable, "is not one of GitHub's API"},
		"no end":              {body(`{"token":"` + leak + `"}`), fault.Retry, v1alpha1.ReasonUnreachable, "is not one of GitHub's API"},
		"a header as token":   {body(`{"token":"a\r\nX: ` + leak + `","expires_at":"2026-03-04T06:06:07Z"}`), fault.Retry, v1alpha1.ReasonUnreachable, "is not one of GitHub's API"},
		"an endless answer":   {body(strings.Repeat(" ", 2<<20) + `{"token":"x"}`), fault.Retry, v1alpha1.ReasonUnreachable, "is not one of GitHub's API"},
		"a closed connection": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, fault.Retry, v1alpha1.ReasonUnreachable, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t, public)
			a.answer = test.answer
			app := a.app(a.secret(key, nil))
			var tokens sourcetokens.GitHubTokens
			_, err := tokens.Token(t.Context(), app, now)
			wantFault(t, err, test.kind, test.reason, test.words)
			want := "requesting a token of GitHub App 4711 from " + a.URL + "/api/v3: "
			if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), leak) ||
				strings.Contains(err.Error(), "Bearer") {
				t.Errorf("the error is %v, want %s", err, want)
			}
			if _, again := tokens.Token(t.Context(), app, now.Add(time.Second)); again == nil ||
				again.Error() != err.Error() || a.count() != 1 {
				t.Errorf("the next source sends a request of its own: %d, %v", a.count(), again)
			}
			a.mu.Lock()
			a.answer = nil
			a.mu.Unlock()
			a.now = now.Add(2 * time.Minute)
			if _, err := tokens.Token(t.Context(), app, a.now); err != nil {
				t.Errorf("after two minutes: %v", err)
			}
		})
	}
}

// TestACallerThatGivesUp: a server that hangs delays a caller only until the caller's own deadline.
func TestACallerThatGivesUp(t *testing.T) {
	key, public := newKey(t, 2048, false)
	a := newAPI(t, public)
	arrived, end := make(chan struct{}), make(chan struct{})
	a.answer = func(http.ResponseWriter, *http.Request) { close(arrived); <-end }
	app := a.app(a.secret(key, nil))
	var tokens sourcetokens.GitHubTokens
	ctx, cancel := context.WithCancel(t.Context())
	var first sync.WaitGroup
	first.Go(func() {
		_, err := tokens.Token(ctx, app, now)
		wantFault(t, err, fault.Retry, v1alpha1.ReasonUnreachable, "context canceled")
	})
	<-arrived
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, err := tokens.Token(gone, app, now)
	wantFault(t, err, fault.Retry, v1alpha1.ReasonUnreachable, "waiting for the token of GitHub App 4711: context "+
		"canceled")
	cancel()
	first.Wait()
	close(end)
	a.mu.Lock()
	a.answer = nil
	a.mu.Unlock()
	if _, err := tokens.Token(t.Context(), app, now); err != nil {
		t.Errorf("the failure of a caller that gave up is the failure of the next one: %v", err)
	}
}

func TestSecretsOfApps(t *testing.T) {
	key, public := newKey(t, 2048, false)
	small, _ := newKey(t, 1024, false)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(curve)
	if err != nil {
		t.Fatal(err)
	}
	a := newAPI(t, public)
	const git = "https://git.example.org/team/cfg"
	for name, test := range map[string]struct {
		url      string
		override map[string]string
		words    string // "" for success
	}{
		"complete":              {git, nil, ""},
		"a client ID":           {git, map[string]string{"githubAppID": "Iv23liABC.def"}, ""},
		"no App ID":             {git, map[string]string{"githubAppID": ""}, "without githubAppID: add it"},
		"no installation":       {git, map[string]string{"githubAppInstallationID": ""}, "without githubAppInstallationID: add it"},
		"no key":                {git, map[string]string{"githubAppPrivateKey": ""}, "without githubAppPrivateKey: add it"},
		"an App ID as JSON":     {git, map[string]string{"githubAppID": `4711","iss":"1`}, "githubAppID of the Secret is not an App ID"},
		"a path as a number":    {git, map[string]string{"githubAppInstallationID": "1/../2"}, "githubAppInstallationID of the Secret is not a number"},
		"a key that is no PEM":  {git, map[string]string{"githubAppPrivateKey": "S3CR3T"}, "is not a key in PEM"},
		"a key of a curve":      {git, map[string]string{"githubAppPrivateKey": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))}, "is not an RSA key"},
		"a damaged key":         {git, map[string]string{"githubAppPrivateKey": "-----BEGIN RSA PRIVATE KEY-----\nUzNDUjNU\n-----END RSA PRIVATE KEY-----\n"}, "is not an RSA key"},
		"a small key":           {git, map[string]string{"githubAppPrivateKey": string(small)}, "has 1024 bits, at least 2048"},
		"a password as well":    {git, map[string]string{"password": "S3CR3T"}, "holds both a GitHub App and password: keep one of them"},
		"plain http":            {"http://git.example.org/team/cfg", nil, "for https only"},
		"ssh":                   {"git@git.example.org:team/cfg", nil, "for https only"},
		"the host's own API":    {git, map[string]string{"githubAppBaseURL": "https://GIT.example.org/api/v3/"}, ""},
		"GitHub's own API":      {"https://github.com/team/cfg", map[string]string{"githubAppBaseURL": "https://api.github.com"}, ""},
		"a tenant's own API":    {"https://octo.ghe.com/team/cfg", map[string]string{"githubAppBaseURL": "https://api.octo.ghe.com/"}, ""},
		"another host's API":    {git, map[string]string{"githubAppBaseURL": "https://evil.example/api/v3"}, "githubAppBaseURL leads to evil.example, which the key hosts of the Secret does not name"},
		"another port":          {git, map[string]string{"githubAppBaseURL": "https://git.example.org:8443/api/v3"}, "leads to git.example.org:8443, which"},
		"an API that is listed": {git, map[string]string{"githubAppBaseURL": "https://api.example.org/v3", "hosts": "git.example.org api.example.org"}, ""},
		"an API over http":      {git, map[string]string{"githubAppBaseURL": "http://git.example.org/api/v3"}, "is not the address of an API"},
		"an API with a user":    {git, map[string]string{"githubAppBaseURL": "https://me:S3CR3T@git.example.org/api/v3"}, "is not the address of an API"},
		"an API with a query":   {git, map[string]string{"githubAppBaseURL": "https://git.example.org/api/v3?x=S3CR3T"}, "is not the address of an API"},
		"an API with dots":      {git, map[string]string{"githubAppBaseURL": "https://git.example.org/api/../v3"}, "is not the address of an API"},
		"the API of a host below one that is GitHub's": {"https://evil.ghe.com.example/team/cfg", map[string]string{"githubAppBaseURL": "https://api.github.com"}, "leads to api.github.com, which"},
	} {
		t.Run(name, func(t *testing.T) {
			secret := a.secret(key, test.override)
			_, err := parse(t, test.url, secret)
			switch {
			case test.words == "" && err != nil:
				t.Error(err)
			case test.words != "" && (err == nil || !strings.Contains(err.Error(), test.words) ||
				strings.Contains(err.Error(), "S3CR3T")):
				t.Errorf("got %v, want %q", err, test.words)
			}
		})
	}
	if sourcetokens.DescribesGitHubApp(map[string][]byte{"username": nil}) ||
		!sourcetokens.DescribesGitHubApp(maps.Clone(a.secret(key, nil))) {
		t.Error("which Secrets describe an app is wrong")
	}
}

func wantFault(t *testing.T, err error, kind fault.Kind, reason, words string) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != kind || f.Reason != reason || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v, want %v %s with %q", err, kind, reason, words)
	}
}
