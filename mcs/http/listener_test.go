package http

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/join"
)

func TestAForeignAddressIsClosedBeforeTLS(t *testing.T) {
	var log syncBuffer
	networks := []netip.Prefix{netip.MustParsePrefix("127.0.0.3/32")}
	o := open(filled(t))
	o.Access.AllowFrom = networks
	h, counts := Routes(o)
	server := start(t, Server{
		Handler: h, AllowFrom: networks, Metrics: counts, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Bounds: Bounds{Connections: 8, PerSource: 8, Header: time.Minute}, // foreign ones cost none of them
	})
	const foreign = 20
	for range foreign {
		c, err := server.dial("127.0.0.2")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if said, after := ends(t, c); said != "" || after > 5*time.Second {
			t.Fatalf("it is told %q, and closed after %s", said, after)
		}
	}
	if _, err := server.shake("127.0.0.2"); err == nil {
		t.Error("it gets a TLS handshake")
	}
	for because, c := range map[string]struct {
		from, path string
		want       int
	}{
		"an address that may ask":              {"127.0.0.3", "/config/worker", 200},
		"a probe of an address that may ask":   {"127.0.0.3", "/readyz", 200},
		"a probe of this host, by its address": {"127.0.0.1", "/readyz", 200},
		"a config for this host":               {"127.0.0.1", "/config/worker", 403},
	} {
		r, err := server.client(c.from).Get(server.url(c.path))
		if err != nil || r.StatusCode != c.want {
			t.Errorf("%s: %v, %v", because, r, err)
		}
	}
	want := []string{`bunsen_mcs_closed_connections_total{reason="Foreign"} 21`}
	if diff := cmp.Diff(want, closedCounts(t, counts)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if said := log.String(); !strings.Contains(said, "reason=Foreign source=127.0.0.2/32") ||
		strings.Count(said, "Foreign") > 10 {
		t.Errorf("the log has\n%s", said)
	}
}

func closedCounts(t *testing.T, counts *Metrics) (all []string) {
	for _, line := range exposed(t, counts) {
		if strings.HasPrefix(line, "bunsen_mcs_closed_connections_total") {
			all = append(all, line)
		}
	}
	return all
}

// syncBuffer is a buffer that goroutines may share.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// patient are bounds in which nothing ends by itself while a test runs.
var patient = Bounds{Header: time.Minute, Read: time.Minute, Stop: 20 * time.Second}

func TestASourceOverItsShareLosesItsOldestSilentConnection(t *testing.T) {
	b := patient
	b.PerSource, b.Silent = 3, time.Nanosecond
	server := start(t, Server{Handler: openRoutes(filled(t)), Bounds: b})
	var held []net.Conn
	for range 8 { // each has its place before the next one comes
		c, err := server.shake("127.0.0.2")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		held = append(held, c)
	}
	for i, c := range held[:5] {
		if _, after := ends(t, c); after > 5*time.Second {
			t.Errorf("connection %d of a source that opened 8 and may have 3 was closed after %s", i, after)
		}
	}
	for _, c := range held[5:] {
		if _, err := io.WriteString(c, "GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Error(err)
		}
		if said, _ := ends(t, c); !strings.HasPrefix(said, "HTTP/1.1 200 ") {
			t.Errorf("one of the last three is closed, too, or answered %q", said)
		}
	}
	for _, from := range []string{"127.0.0.2", "127.0.0.9"} {
		if r, err := server.client(from).Get(server.url("/config/worker")); err != nil || r.StatusCode != 200 {
			t.Errorf("a machine of %s is answered %v, %v", from, r, err)
		}
	}
}

func TestASourceMayNotOpenConnectionsWithoutEnd(t *testing.T) {
	h, counts := Routes(open(filled(t)))
	server := start(t, Server{
		Handler: h, Metrics: counts, Bounds: Bounds{Wait: 100 * time.Millisecond},
		Limits: Limits{Requests: Rate{PerSecond: 0.001, Burst: 1}},
	})
	served := 0
	for refused := 0; refused < 3 && served < 20; {
		if _, err := server.client("127.0.0.2").Get(server.url("/config/worker")); err != nil {
			refused++
		} else {
			served++
		}
	}
	if served < 4 || served > 6 { // One counts as soon as it ends, which the client does not wait for.
		t.Errorf("%d connections are served, want 4 or little more", served)
	}
	if _, err := server.client("127.0.0.9").Get(server.url("/config/worker")); err != nil {
		t.Errorf("another source: %v", err)
	}
	if diff := cmp.Diff([]string{`bunsen_mcs_closed_connections_total{reason="TooMany"} 3`},
		closedCounts(t, counts)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestMachinesWithAValidTokenAreNotLimitedByTheirAddress(t *testing.T) {
	o, known, _ := closed(t)
	o.Limits = Limits{Requests: Rate{PerSecond: 0.001, Burst: 1}}
	h, counts := Routes(o)
	server := start(t, Server{
		Handler: h, Metrics: counts, Bounds: Bounds{Wait: 100 * time.Millisecond, PerSource: 1}, Limits: o.Limits,
	})
	good := known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "worker"})
	wrong := join.Token{ID: good.ID, Secret: strings.Repeat("A", 43)}
	get := func(with join.Token) (status int) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.url("/config/worker"), nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", bearer(with))
		if r, err := server.client("127.0.0.2").Do(request); err == nil {
			status = r.StatusCode
		}
		return status
	}
	for i := range 20 {
		if status := get(good); status != 200 {
			t.Errorf("request %d with a valid token is answered %d", i, status)
		}
	}
	for refused := 0; refused < 20 && get(wrong) != 0; refused++ {
		if refused > 6 {
			t.Fatalf("%d requests with an invalid token have reached the server", refused)
		}
	}
	if status := get(good); status != 0 {
		t.Errorf("a connection of an address that has spent its limit is answered %d", status)
	}
}

func TestATokenInUseElsewhereLeavesRoom(t *testing.T) {
	o, known, _ := closed(t)
	o.Source, o.Limits = large(t), DefaultLimits()
	h, counts := Routes(o)
	b := patient
	b.Connections, b.PerSource = 16, 8
	server := start(t, Server{Handler: h, Metrics: counts, Bounds: b},
		func(l net.Listener) net.Listener { return narrow{l} })
	stolen := bearer(known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "worker"}))
	own := bearer(known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "worker"}))
	for range 12 { // of which 8 are half of all
		c, err := server.readSlowly("127.0.0.2", stolen)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for because, with := range map[string]string{"the same token": stolen, "another token": own} {
		if err := boot(server, with); err != nil {
			t.Errorf("a machine with %s at another address: %v", because, err)
		}
	}
}

func TestSilentConnectionsAreClosedForNewOnes(t *testing.T) {
	b := patient
	b.Connections, b.Silent = 4, 100*time.Millisecond
	server := start(t, Server{Handler: openRoutes(filled(t)), Bounds: b})
	for kind, open := range besiegers[:3] {
		for range 12 {
			if c, err := open(server, "127.0.0.2"); err == nil { // or it was closed at once
				defer c.Close()
			}
		}
		began := time.Now()
		r, err := server.client("127.0.0.9").Get(server.url("/config/worker"))
		if err != nil || r.StatusCode != 200 || time.Since(began) > 10*time.Second {
			t.Errorf("kind %d: an honest client is answered %v, %v after %s", kind, r, err, time.Since(began))
		}
	}
}

func TestSilentConnectionsDoNotHoldUpTheirOwnAddress(t *testing.T) {
	o, known, _ := closed(t)
	h, _ := Routes(o)
	b := patient
	b.PerSource, b.Silent = 4, time.Minute
	server := start(t, Server{Handler: h, Bounds: b})
	good := bearer(known.make(t, v1alpha1.ProvisioningTokenSpec{Pool: "worker"}))
	for kind, open := range besiegers[:3] {
		for range b.PerSource {
			c, err := open(server, honest)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
		}
		if err := boot(server, good); err != nil {
			t.Errorf("kind %d: a machine behind the same address: %v", kind, err)
		}
	}
}

// blocking is a handler whose requests last until they are let go.
type blocking struct{ begun, release chan struct{} }

func (b blocking) ServeHTTP(http.ResponseWriter, *http.Request) {
	b.begun <- struct{}{}
	<-b.release
}

func TestARequestUnderWayIsNotClosedForNewConnections(t *testing.T) {
	b := patient
	b.Connections, b.PerSource = 4, 3
	h := blocking{make(chan struct{}), make(chan struct{})}
	server := start(t, Server{Handler: h, Bounds: b})
	answers := make(chan error)
	for range 2 {
		go func() {
			r, err := server.client("127.0.0.2").Get(server.url("/"))
			if err == nil && r.StatusCode != 200 {
				err = io.ErrUnexpectedEOF
			}
			answers <- err
		}()
		<-h.begun
	}
	if r, err := server.client("127.0.0.2").Get(server.url("/")); err != nil || r.StatusCode != 503 ||
		r.Header.Get("Retry-After") != "5" {
		t.Errorf("a source with as many requests as are left for others is answered %v, %v", r, err)
	}
	for i := range 20 { // from two sources, so that the oldest of all is closed each time
		c, err := server.dial([]string{"127.0.0.3", "127.0.0.4"}[i%2])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	close(h.release)
	for range 2 {
		if err := <-answers; err != nil {
			t.Errorf("a request under way ends with %v", err)
		}
	}
}

func TestConnectionsWaitWhileEachHasARequestUnderWay(t *testing.T) {
	b := patient
	b.Connections = 2
	h := blocking{make(chan struct{}), make(chan struct{})}
	server := start(t, Server{Handler: h, Bounds: b})
	answers := make(chan error)
	get := func(from string) {
		_, err := server.client(from).Get(server.url("/"))
		answers <- err
	}
	go get("127.0.0.2")
	<-h.begun
	go get("127.0.0.3")
	<-h.begun
	go get("127.0.0.4")
	h.release <- struct{}{} // one of the first two ends, so that the third begins
	<-h.begun
	close(h.release)
	for range 3 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
}

func TestThisHostIsServedWhileAllPlacesAreTaken(t *testing.T) {
	b := patient
	b.Connections, b.PerSource = 2, 1
	var probes http.ServeMux
	probes.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	h := blocking{make(chan struct{}), make(chan struct{})}
	probes.Handle("/", h)
	server := start(t, Server{Handler: &probes, Bounds: b, Limits: Limits{Requests: Rate{PerSecond: 1e-3, Burst: 1}}})
	var others sync.WaitGroup
	defer others.Wait()
	for _, from := range []string{"127.0.0.2", "127.0.0.3"} {
		others.Go(func() { _, _ = server.client(from).Get(server.url("/")) })
		<-h.begun
	}
	defer close(h.release)
	for i := range 3 {
		if r, err := server.client("127.0.0.1").Get(server.url("/healthz")); err != nil || r.StatusCode != 200 {
			t.Errorf("probe %d of the kubelet of this host is answered %v, %v", i, r, err)
		}
	}
}

func TestAServerStopsWhileAConnectionWaits(t *testing.T) {
	table := Bounds{Connections: 1, PerSource: 2}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newListener(inner, table.OrDefault(), Server{Log: quiet})
	first, err := dialer("127.0.0.9").Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	l.mu.Lock()
	err = l.table.begin(accepted.(*conn))
	l.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	second, err := dialer("127.0.0.9").Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("a closed listener accepts")
	}
	ends(t, second)
}

func TestARequestWithABodyIsNotWaitedFor(t *testing.T) {
	server := start(t, Server{Handler: openRoutes(filled(t)), Bounds: patient})
	for because, header := range map[string]string{
		"a length": "Content-Length: 10",
		"chunks":   "Transfer-Encoding: chunked",
	} {
		c, err := server.shake("127.0.0.9")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET /config/worker HTTP/1.1\r\nHost: a\r\n"+header+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if said, after := ends(t, c); !strings.HasPrefix(said, "HTTP/1.1 413 ") || after > 5*time.Second {
			t.Errorf("%s: answered %.40q after %s", because, said, after)
		}
	}
}

func TestAConnectionHasOneRequest(t *testing.T) {
	server := start(t, Server{Handler: openRoutes(filled(t)), Bounds: patient})
	c, err := server.shake("127.0.0.9")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, strings.Repeat("GET /config/nothing HTTP/1.1\r\nHost: a\r\n\r\n", 10)); err != nil {
		t.Fatal(err)
	}
	if said, _ := ends(t, c); strings.Count(said, "HTTP/1.1 404 ") != 1 ||
		!strings.Contains(said, "Connection: close") {
		t.Errorf("answered %q", said)
	}
}
