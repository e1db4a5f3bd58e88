package console

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bunsen-os/bunsen/internal/cli/kube"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// played is a console on a real port, whose cluster is what the test publishes.
type played struct {
	*Local
	publish chan update
	// base is the address without a path.
	base string
}

type update struct {
	pools   []string
	problem error
}

func (u update) cluster() fleet.Cluster {
	var c fleet.Cluster
	for _, name := range u.pools {
		c.Pools = append(c.Pools, mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return c
}

// follow publishes a state, and those of a channel.
func follow(first update, states <-chan update) FeedSource[fleet.Cluster] {
	return func(ctx context.Context, publish func(fleet.Cluster, error)) {
		for u := first; ; {
			publish(u.cluster(), u.problem)
			select {
			case u = <-states:
			case <-ctx.Done():
				return
			}
		}
	}
}

func play(t *testing.T, first update) *played {
	t.Helper()
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	states := make(chan update)
	p := playAs(t, fake.NewClientBuilder().WithScheme(scheme).Build(), follow(first, states), false)
	p.publish = states
	return p
}

// playAs starts a console of the user alice.
func playAs(t *testing.T, api client.Client, source FeedSource[fleet.Cluster], readOnly bool) *played {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &played{base: "http://" + listener.Addr().String()}
	v := newVisitor("alice", api, statesOf(source))
	v.readOnly = readOnly
	if p.Local, err = newLocal(listener, "kind", v); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return p
}

// stranger is a browser without a session. It follows no redirects.
func stranger(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Jar: jar, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// signIn returns a browser that opened the address.
func (p *played) signIn(t *testing.T) *http.Client {
	t.Helper()
	c := stranger(t)
	if r := get(t, c, p.Address); r.status != http.StatusSeeOther || r.header.Get("Location") != "/" {
		t.Fatalf("the address answers %d %s", r.status, r.body)
	}
	return c
}

type response struct {
	status int
	header http.Header
	body   string
}

func get(t *testing.T, c *http.Client, address string, headers ...string) response {
	t.Helper()
	return send(t, c, http.MethodGet, address, headers...)
}

func send(t *testing.T, c *http.Client, method, address string, headers ...string) response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
		}
		req.Header.Add(name, value)
	}
	r, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{r.StatusCode, r.Header, string(body)}
}

type events struct{ lines *bufio.Scanner }

func (p *played) listen(t *testing.T, c *http.Client, path string, headers ...string) *events {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	r, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Body.Close() })
	if r.StatusCode != http.StatusOK {
		t.Fatalf("the stream answers %s", r.Status)
	}
	lines := bufio.NewScanner(r.Body)
	lines.Buffer(nil, 10<<20)
	return &events{lines}
}

func (e *events) next(t *testing.T) (id, data string) {
	t.Helper()
	for e.lines.Scan() {
		line := e.lines.Text()
		if value, ok := strings.CutPrefix(line, "id: "); ok {
			id = value
		}
		if value, ok := strings.CutPrefix(line, "data: "); ok {
			data += value + "\n"
		}
		if line == "" && data != "" {
			return id, data
		}
	}
	t.Fatalf("the stream ended: %v", e.lines.Err())
	return "", ""
}

func streamOf(t *testing.T, page string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, `sse-connect="`)
	path, _, end := strings.Cut(rest, `"`)
	if !ok || !end {
		t.Fatalf("the page has no stream:\n%s", page)
	}
	return strings.ReplaceAll(path, "&amp;", "&")
}

// TestAPageFollowsTheCluster: a stream sends what differs from the page, then each change, an outage and its end.
func TestAPageFollowsTheCluster(t *testing.T) {
	p := play(t, update{pools: []string{"worker"}})
	c := p.signIn(t)
	page := get(t, c, p.base+"/")
	for _, want := range []string{
		`<h1 data-needs="0">All is well</h1>`, `href="/pool/worker"`, "alice", "kind", "bunsen status",
		`id="problem"`,
	} {
		if page.status != 200 || !strings.Contains(page.body, want) {
			t.Errorf("status %d: the page has no %q:\n%s", page.status, want, page.body)
		}
	}
	p.publish <- update{pools: []string{"worker", "infra"}}
	s := p.listen(t, c, streamOf(t, page.body))
	first, data := s.next(t)
	if !strings.Contains(data, `<section id="rest" hx-swap-oob="true"`) || !strings.Contains(data, "infra") ||
		strings.Contains(data, "problem") {
		t.Errorf("since the page, it sends\n%s", data)
	}
	p.publish <- update{problem: fmt.Errorf("connection refused")}
	outage, data := s.next(t)
	if !strings.Contains(data, `<div id="problem" hx-swap-oob="true"`) || !strings.Contains(data, "earlier state") ||
		!strings.Contains(data, "connection refused") || strings.Contains(data, "infra") {
		t.Errorf("in an outage, it sends\n%s", data)
	}
	if page := get(t, c, p.base+"/"); page.status != 200 || !strings.Contains(page.body, "connection refused") ||
		!strings.Contains(page.body, "infra") {
		t.Errorf("a page in an outage has status %d:\n%s", page.status, page.body)
	}
	p.publish <- update{pools: []string{"worker", "infra"}}
	if id, data := s.next(t); id != first ||
		!strings.Contains(data, `<div id="problem" hx-swap-oob="true" role="status"></div>`) {
		t.Errorf("after the outage, it sends\n%s", data)
	}
	again := p.listen(t, c, streamOf(t, page.body), "Last-Event-ID: "+outage)
	if _, data := again.next(t); strings.Contains(data, "infra") || !strings.Contains(data, `id="problem"`) {
		t.Errorf("a browser that lost the stream during the outage gets\n%s", data)
	}
	old := p.listen(t, c, strings.ReplaceAll(streamOf(t, page.body), "made=", "made=1"))
	if _, data := old.next(t); !strings.Contains(data, "infra") || !strings.Contains(data, `id="problem"`) ||
		!strings.Contains(data, `id="warnings"`) {
		t.Errorf("an old page gets\n%s", data)
	}
}

// TestWithoutAStateThePageSaysWhy: an outage at the start is a page of its own, and a missing right names the role.
func TestWithoutAStateThePageSaysWhy(t *testing.T) {
	p := play(t, update{problem: fmt.Errorf("connection refused")})
	c := p.signIn(t)
	if page := get(t, c, p.base+"/"); page.status != 503 || !strings.Contains(page.body, "connection refused") ||
		page.header.Get("Refresh") != "5" {
		t.Errorf("status %d:\n%s", page.status, page.body)
	}
	s := p.listen(t, c, "/events?page="+url.QueryEscape("/"))
	if _, data := s.next(t); !strings.Contains(data, "connection refused") {
		t.Errorf("the stream sends %s", data)
	}
	p.publish <- update{pools: []string{"worker"}}
	if _, data := s.next(t); !strings.Contains(data, "worker") || !strings.Contains(data, `id="problem"`) {
		t.Errorf("the stream sends %s", data)
	}
}

// dialer connects to one address, whatever the name is.
func dialer(address string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp4", address)
	}
}
