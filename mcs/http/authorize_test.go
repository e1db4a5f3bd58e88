package http

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/join"
)

// closed is a server that serves those with tokens, with all that a cluster has.
func closed(t testing.TB) (Options, *tokens, *minter) {
	t.Helper()
	known, mint := &tokens{}, &minter{}
	return Options{Source: filled(t), Tokens: known, BootstrapTokens: mint, Log: quiet, Now: atNoon}, known, mint
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

func TestWhoGetsAConfig(t *testing.T) {
	o, known, _ := closed(t)
	good := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "worker"})
	bound := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "secret", Node: "a"})
	locked := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "locked", Node: "a"})
	gone := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "gone"})
	expired := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "worker", Expires: metav1.NewTime(noon)})
	revoked := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "worker", Revoked: true})
	once := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "worker", Uses: 1})
	h, _ := Routes(o)
	if r := ask(h, "GET", "/config/worker", "Authorization", bearer(once)); r.StatusCode != 200 {
		t.Fatalf("the first use is answered %d", r.StatusCode)
	}
	wrong := join.Token{ID: good.ID, Secret: bound.Secret}
	unknown := join.Token{ID: "aaaaaaaaaa", Secret: good.Secret}
	for _, c := range []struct {
		because, pool, authorization string
		status                       int
		says                         string
	}{
		{"a good token", "worker", bearer(good), 200, `"version":"3.5.0"`},
		{"a scheme in small letters", "worker", "bearer " + good.String(), 200, ""},
		{"user and password of a URL", "worker", basic(good.ID, good.Secret), 200, ""},
		{"the token as password", "worker", basic("", good.String()), 200, ""},
		{"a token of a node gets secrets", "secret", bearer(bound), 200, hush},
		{"also those that cannot come later", "locked", bearer(locked), 200, hush},
		{"no token", "worker", "", 401, "a provisioning token is needed"},
		{"no token, for a pool that does not exist", "wroker", "", 401, "a provisioning token is needed"},
		{"no token, for no pool", "", "", 401, "a provisioning token is needed"},
		{"no token, for a pool with nothing rendered", "new", "", 401, "a provisioning token is needed"},
		{"garbage", "worker", "Bearer hello", 401, "no provisioning token"},
		{"another scheme", "worker", "Digest " + good.String(), 401, "no provisioning token"},
		{"a token that nobody made", "worker", bearer(unknown), 401, "not known here"},
		{"another token's secret", "worker", bearer(wrong), 401, "not known here"},
		{"an expired token", "worker", bearer(expired), 401, "has expired"},
		{"a revoked token", "worker", bearer(revoked), 403, "was revoked"},
		{"a token that is used up", "worker", bearer(once), 403, "is used up"},
		{"a token of another pool", "infra", bearer(good), 403, "for another pool"},
		{"a token of another pool, for a pool that does not exist", "wroker", bearer(good), 403, "for another pool"},
		{"a token, for no pool", "", bearer(good), 403, "for another pool"},
		{"a token of a pool that is gone", "gone", bearer(gone), 404, `"gone"`},
	} {
		for _, method := range []string{"HEAD", "GET"} {
			r := ask(h, method, "/config/"+c.pool, "Authorization", c.authorization)
			body := text(t, r)
			if r.StatusCode != c.status || method == "GET" && !strings.Contains(body, c.says) {
				t.Errorf("%s: %s is answered %d %q, want %d with %q", c.because, method, r.StatusCode, body, c.status,
					c.says)
			}
			if got := r.Header.Get("WWW-Authenticate"); (got == `Bearer realm="bunsen"`) != (c.status == 401) {
				t.Errorf("%s: WWW-Authenticate is %q", c.because, got)
			}
			if r.StatusCode != 200 && strings.Count(body, "\n") > 1 {
				t.Errorf("%s: the answer has more than a line: %q", c.because, body)
			}
		}
	}
}

func TestUnknownAndWrongReadTheSame(t *testing.T) {
	o, known, _ := closed(t)
	good := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "worker"})
	revoked := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "worker", Revoked: true})
	h, _ := Routes(o)
	answer := func(id, pool string) string {
		r := ask(h, "GET", "/config/"+pool, "Authorization",
			bearer(join.Token{ID: id, Secret: strings.Repeat("A", 43)}))
		return fmt.Sprint(r.StatusCode, r.Header, text(t, r))
	}
	want := answer("aaaaaaaaaa", "worker")
	for _, id := range []string{good.ID, revoked.ID} {
		for _, pool := range []string{"worker", "infra", "wroker"} {
			if got := answer(id, pool); got != want {
				t.Errorf("an id that exists is answered\n%s, one that does not\n%s", got, want)
			}
		}
	}
}

func TestSecretsAreLeftOutForWhoIsBoundToNoNode(t *testing.T) {
	o, known, _ := closed(t)
	loose := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "secret"})
	for _, c := range []struct {
		because string
		access  Access
		header  []string
		gets    bool
	}{
		{"a token of no node", Access{}, []string{"Authorization", bearer(loose)}, false},
		{"nobody in particular", Access{Open: true}, nil, false},
		{"a token of no node, where all get them", Access{SecretsToAll: true}, []string{"Authorization", bearer(loose)}, true},
		{"nobody in particular, where all get them", Access{Open: true, SecretsToAll: true}, nil, true},
	} {
		o.Access = c.access
		h, _ := Routes(o)
		for _, encoding := range []string{"", "gzip"} {
			r := ask(h, "GET", "/config/secret", append(c.header, "Accept-Encoding", encoding)...)
			body := text(t, r)
			if encoding != "" {
				body = unzip(t, body)
			}
			if r.StatusCode != 200 || strings.Contains(body, hush) != c.gets ||
				strings.Contains(body, "bunsen.dev%2Fwithheld") == c.gets {
				t.Errorf("%s: %d %s", c.because, r.StatusCode, body)
			}
		}
	}
}

func TestOpenAccessTakesATokenThatIsGood(t *testing.T) {
	o, known, _ := closed(t)
	o.Access.Open = true
	h, _ := Routes(o)
	bound := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "secret", Node: "a", Uses: 1})
	for i, c := range []struct {
		because string
		gets    bool
	}{{"a good token is served as one", true}, {"one that is used up is as good as none", false}} {
		r := ask(h, "GET", "/config/secret", "Authorization", bearer(bound))
		if body := text(t, r); r.StatusCode != 200 || strings.Contains(body, hush) != c.gets {
			t.Errorf("%s: %d %s", c.because, r.StatusCode, body)
		}
		if n := len(known.uses()); n != 1 {
			t.Errorf("after %d answers there are %d uses", i+1, n)
		}
	}
}

func certified(by authority, pool string, subject pkix.Name) *http.Request {
	r := httptest.NewRequest("GET", "https://host/config/"+pool, nil)
	leaf := &x509.Certificate{Subject: subject}
	r.TLS = &tls.ConnectionState{
		PeerCertificates: []*x509.Certificate{leaf},
		VerifiedChains:   [][]*x509.Certificate{{leaf, by.cert}},
	}
	return r
}

func TestWhatAClientCertificateIsGoodFor(t *testing.T) {
	o, known, _ := closed(t)
	used := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "secret", Revoked: true})
	machines := newAuthority(t, "machines")
	o.ClientCAs = believing(t, machines)
	h, _ := Routes(o)
	pools := []string{"bunsen:pool:worker", "bunsen:pool:secret"}
	for _, c := range []struct {
		because, pool string
		subject       pkix.Name
		authorization string
		status        int
		gets          bool
	}{
		{"its pool", "worker", pkix.Name{CommonName: "rack 4", Organization: pools}, "", 200, false},
		{"its pool, of no node", "secret", pkix.Name{CommonName: "rack 4", Organization: pools}, "", 200, false},
		{"its pool, of a node", "secret", pkix.Name{CommonName: "bunsen:node:a", Organization: pools}, "", 200, true},
		{"its pool, of a node as Kubernetes names it", "secret", pkix.Name{CommonName: "system:node:a", Organization: pools}, "", 200, true},
		{"a node of no name", "secret", pkix.Name{CommonName: "system:node:", Organization: pools}, "", 200, false},
		{"beside a token that is no good", "secret", pkix.Name{CommonName: "bunsen:node:a", Organization: pools}, bearer(used), 200, true},
		{"another pool", "infra", pkix.Name{CommonName: "bunsen:node:a", Organization: pools}, "", 403, false},
		{"another pool, and a bad token", "infra", pkix.Name{CommonName: "bunsen:node:a", Organization: pools}, "Bearer x", 401, false},
		{"a kubelet's own", "worker", pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes"}}, "", 403, false},
		{"an organization that is only a prefix", "", pkix.Name{Organization: []string{"bunsen:pool:"}}, "", 403, false},
	} {
		r := certified(machines, c.pool, c.subject)
		r.Header.Set("Authorization", c.authorization)
		if c.authorization == "" {
			r.Header.Del("Authorization")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status || strings.Contains(w.Body.String(), hush) != c.gets {
			t.Errorf("%s: %d %s", c.because, w.Code, w.Body)
		}
	}
	r := certified(machines, "worker", pkix.Name{Organization: pools})
	r.TLS.VerifiedChains = nil
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != 401 {
		t.Errorf("a certificate that nobody verified is answered %d", w.Code)
	}
	if n := len(known.uses()); n != 0 {
		t.Errorf("certificates used tokens %d times", n)
	}
}

func TestATokenForOneUseServesExactlyOneOfMany(t *testing.T) {
	o, known, mint := closed(t)
	o.Source = joining(t, filled(t))
	once := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "worker", Uses: 1})
	h, counts := Routes(o)
	var clients sync.WaitGroup
	answers := make(chan int, 50)
	for range cap(answers) {
		clients.Go(func() {
			r := ask(h, "GET", "/config/worker", "Authorization", bearer(once))
			if body := text(t, r); (r.StatusCode == 200) != strings.Contains(body, `"version":"3.5.0"`) {
				t.Errorf("%d with %s", r.StatusCode, body)
			}
			answers <- r.StatusCode
		})
	}
	clients.Wait()
	close(answers)
	got := map[int]int{}
	for status := range answers {
		got[status]++
	}
	if diff := cmp.Diff(map[int]int{200: 1, 403: 49}, got); diff != "" {
		t.Errorf("answers -want +got:\n%s", diff)
	}
	if counts.Served() != 1 || counts.Refused() != 49 || len(known.uses()) != 1 || mint.count() < 1 {
		t.Errorf("counted %d served, %d refused, %d uses, %d bootstrap tokens", counts.Served(), counts.Refused(),
			len(known.uses()), mint.count())
	}
}

func TestOnlyAnAnswerWithABodyIsAUse(t *testing.T) {
	o, known, mint := closed(t)
	o.Source = joining(t, filled(t))
	twice := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "worker", Uses: 2})
	h, _ := Routes(o)
	head := ask(h, "HEAD", "/config/worker", "Authorization", bearer(twice))
	tag := head.Header.Get("ETag")
	if !strings.HasPrefix(tag, "W/") {
		t.Errorf("a body that differs by its token has the strong ETag %s", tag)
	}
	for _, c := range []struct {
		because, method, pool string
		header                []string
		status                int
	}{
		{"the head", "HEAD", "worker", nil, 200},
		{"nothing new", "GET", "worker", []string{"If-None-Match", tag}, 304},
		{"nothing new, by a strong ETag", "GET", "worker", []string{"If-None-Match", strings.TrimPrefix(tag, "W/")}, 304},
		{"a version that is not served", "GET", "worker", []string{"Accept", accept + "4.0.0"}, 400},
		{"another pool", "GET", "infra", nil, 403},
	} {
		r := ask(h, c.method, "/config/"+c.pool, append(c.header, "Authorization", bearer(twice))...)
		if r.StatusCode != c.status || len(known.uses()) != 0 || mint.count() != 0 {
			t.Errorf("%s: %d, with %d uses and %d bootstrap tokens", c.because, r.StatusCode, len(known.uses()),
				mint.count())
		}
	}
	r := ask(h, "GET", "/config/worker", "Authorization", bearer(twice))
	body := text(t, r)
	if r.StatusCode != 200 || head.Header.Get("Content-Length") != fmt.Sprint(len(body)) {
		t.Errorf("GET is answered %d with %d bytes, after HEAD said %s", r.StatusCode, len(body),
			head.Header.Get("Content-Length"))
	}
	want := []v1alpha1.TokenUse{{
		Time: metav1.NewTime(noon), Address: "192.0.2.1", Config: "rendered-worker-1",
		Commit: "main@sha1:01",
	}}
	if diff := cmp.Diff(want, known.uses()); diff != "" {
		t.Errorf("uses -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]mcs.JoiningMachine{{Pool: "worker", Token: twice.ID, Address: "192.0.2.1", Attested: true}},
		mint.made); diff != "" {
		t.Errorf("bootstrap tokens -want +got:\n%s", diff)
	}
}

func TestWhatCannotBeSettledIsAskedForAgain(t *testing.T) {
	for _, c := range []struct {
		because string
		prepare func(*tokens, *minter)
		says    string
		used    int
		made    int
	}{
		{"the use cannot be counted", func(k *tokens, _ *minter) { k.away = errAway }, "the use of the provisioning token cannot be counted: retry later\n", 0, 1},
		{"no bootstrap token can be made", func(_ *tokens, m *minter) { m.err = errAway }, "no bootstrap token can be created: retry later\n", 0, 0},
	} {
		o, known, mint := closed(t)
		o.Source = joining(t, filled(t))
		good := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "worker", Uses: 1})
		c.prepare(known, mint)
		h, _ := Routes(o)
		r := ask(h, "GET", "/config/worker", "Authorization", bearer(good))
		if body := text(t, r); r.StatusCode != 503 || body != c.says || r.Header.Get("Retry-After") != "5" ||
			r.Header.Get("ETag") != "" {
			t.Errorf("%s: %d %q, %v", c.because, r.StatusCode, body, r.Header)
		}
		if len(known.uses()) != c.used || mint.count() != c.made {
			t.Errorf("%s: %d uses, %d bootstrap tokens", c.because, len(known.uses()), mint.count())
		}
	}
	o := open(joining(t, filled(t)))
	h, _ := Routes(o)
	if r := ask(h, "GET", "/config/worker"); r.StatusCode != 503 {
		t.Errorf("a server that can make no bootstrap tokens answers %d", r.StatusCode)
	}
}

func TestATokenThatIsNotYetKnownIsAskedForAgain(t *testing.T) {
	o, known, _ := closed(t)
	o.Source = notStarted{o.Source}
	h, _ := Routes(o)
	soon := join.Token{ID: "aaaaaaaaaa", Secret: strings.Repeat("A", 43)}
	good := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "worker"})
	for _, header := range []string{"", bearer(soon), bearer(good)} {
		if r := ask(h, "GET", "/config/worker", "Authorization", header); r.StatusCode != 503 {
			t.Errorf("before all is known %q is answered %d", header, r.StatusCode)
		}
	}
}

type notStarted struct{ Source }

func (notStarted) Started() bool { return false }

func TestOnlySomeAddressesMayAsk(t *testing.T) {
	o := open(filled(t))
	var err error
	if o.Access.AllowFrom, err = ParseAllowFrom([]string{"192.0.2.0/24", "2001:db8::/32", "198.51.100.7"}); err != nil {
		t.Fatal(err)
	}
	h, _ := Routes(o)
	for address, want := range map[string]int{
		"192.0.2.77:1": 200, "[::ffff:192.0.2.77]:1": 200, "198.51.100.7:1": 200, "[2001:db8:1::1]:1": 200,
		"[2001:db8:1::1%eth0]:1": 200,
		"192.0.3.1:1":            403, "198.51.100.8:1": 403, "[2001:db9::1]:1": 403, "@": 403,
	} {
		r := httptest.NewRequest("GET", "/config/worker", nil)
		r.RemoteAddr = address
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s is answered %d, want %d", address, w.Code, want)
		}
	}
}

func TestNetworksAreReadOrNamed(t *testing.T) {
	got, err := ParseAllowFrom([]string{"10.1.2.3/8", "::1"})
	want := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" ||
		err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	_, err = ParseAllowFrom([]string{"10.0.0.0/33", "example.com", "10.0.0.1", "fe80::1%eth0", "::ffff:10.0.0.0/104"})
	for _, bad := range []string{"10.0.0.0/33", "example.com", "fe80::1%eth0", "::ffff:10.0.0.0/104"} {
		if err == nil || !strings.Contains(err.Error(), `"`+bad+`"`) {
			t.Errorf("the error does not name %s: %v", bad, err)
		}
	}
}

func TestASlowClusterIsNotWaitedForWithoutEnd(t *testing.T) {
	for because, requests := range map[string]int{
		"it has room at once":                     1,
		"its token has room, after three seconds": 2,
	} {
		synctest.Test(t, func(t *testing.T) {
			o, known, _ := closed(t)
			good := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "worker"})
			o.Tokens = slow{known}
			h, _ := Routes(o)
			inner := crowd{make(chan net.Conn)}
			l := newListener(inner, Bounds{Connections: 2}.OrDefault(), Server{Log: quiet})
			began := time.Now()
			status := make(chan int)
			for range requests { // The first one has all room of their token.
				inner.arriving <- &member{from: 1}
				c, err := l.Accept()
				if err != nil {
					t.Fatal(err)
				}
				r := httptest.NewRequest("GET", "/config/worker", nil)
				r.Header.Set("Authorization", bearer(good))
				go func() {
					w := httptest.NewRecorder()
					l.handler(h).ServeHTTP(w, r.WithContext(connContext(t.Context(), c)))
					status <- w.Code
				}()
				time.AfterFunc(3*time.Second, func() { _ = c.Close() })
				synctest.Wait()
			}
			for range requests {
				if code, waited := <-status, time.Since(began); code != 503 || waited != headersWithin {
					t.Errorf("a request, and %s: answered %d after %s", because, code, waited)
				}
			}
			_ = l.Close()
		})
	}
}

// slow is an API server that takes requests and answers none.
type slow struct{ *tokens }

func (slow) Use(ctx context.Context, _ string, _ v1alpha1.TokenUse) error {
	<-ctx.Done()
	return ctx.Err()
}
