package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/mcs/join"
	"github.com/bunsen-os/bunsen/test/ports"
)

// running is a server that was started as by its command line.
type running struct {
	address, certs string
	stop           func()
	done           chan error
}

// freeAddress is one of loopback that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := ports.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// start starts a server on a free port, with the flags that are given.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	r := &running{address: freeAddress(t), certs: t.TempDir(), done: make(chan error, 1)}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	t.Cleanup(stop)
	cmd := command()
	cmd.SetArgs(append([]string{"--listen", r.address, "--cert-dir", r.certs}, args...))
	go func() { r.done <- cmd.ExecuteContext(ctx) }()
	return r
}

// ask gets a path, as soon as the server listens.
func (r *running) ask(t *testing.T, path, bearer string) *http.Response {
	t.Helper()
	if bearer != "" {
		bearer = "Bearer " + bearer
	}
	return r.askWith(t, path, bearer)
}

// askWith gets a path with a header Authorization, as soon as the server listens.
func (r *running) askWith(t *testing.T, path, authorization string) *http.Response {
	t.Helper()
	for {
		select {
		case err := <-r.done:
			t.Fatalf("stopped: %v", err)
		default:
		}
		roots := x509.NewCertPool()
		if ca, err := os.ReadFile(filepath.Join(r.certs, "ca.crt")); err == nil {
			roots.AppendCertsFromPEM(ca)
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+r.address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if authorization != "" {
			request.Header.Set("Authorization", authorization)
		}
		client := &http.Client{Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: roots},
			DisableKeepAlives: true, DisableCompression: true, DialContext: dialSmall,
		}}
		if got, err := client.Do(request); err == nil { // refused until it listens
			t.Cleanup(func() { _ = got.Body.Close() })
			return got
		}
	}
}

// dialSmall makes a connection that takes little before it is read.
func dialSmall(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if tcp, ok := c.(*net.TCPConn); ok && err == nil {
		err = tcp.SetReadBuffer(256 << 10)
	}
	return c, err
}

// ends stops the server, and fails unless it ends well.
func (r *running) ends(t *testing.T) {
	t.Helper()
	r.stop()
	if err := <-r.done; err != nil {
		t.Errorf("stopping: %v", err)
	}
}

func TestItAsksForPatienceWhileTheAPIServerIsAwayAndStopsWhenTold(t *testing.T) {
	said := logged(t)
	r := start(t, "--kubeconfig", kubeconfig(t), "--grace", "7s")
	got := r.ask(t, "/config/worker", "")
	if got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("Retry-After") == "" {
		t.Errorf("got %d, Retry-After %q", got.StatusCode, got.Header.Get("Retry-After"))
	}
	if strings.Contains(said(), "stopping") {
		t.Error("nobody has told it to stop")
	}
	r.ends(t)
	if !strings.Contains(said(),
		`msg="stopping: waiting for running requests, for at most the grace period" grace=7s`) {
		t.Errorf("it does not say that it was told to stop:\n%s", said())
	}
}

// folder has a config of pool worker with a file of this size.
func folder(t *testing.T, size int) string {
	t.Helper()
	return filepath.Dir(write(t, "worker.yaml", `apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {name: worker}
spec:
  config:
    ignition: {version: 3.5.0}
    storage:
      files:
        - path: /etc/big
          contents: {source: "data:,`+strings.Repeat("x", size)+`"}
`))
}

// tokens writes a file with one token of pool worker, of one use, and returns its text.
func tokens(t *testing.T) (file, text string) {
	t.Helper()
	made, err := join.NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "tokens.yaml", fmt.Sprintf(`apiVersion: bunsen.dev/v1alpha1
kind: ProvisioningToken
metadata: {name: %s}
spec: {pool: worker, uses: 1, expires: %q, hash: %s}
`, made.ID, time.Now().Add(time.Hour).UTC().Format(time.RFC3339), made.Hash())), made.String()
}

func TestWithoutAClusterAMachineWithATokenGetsItsConfigOnce(t *testing.T) {
	file, text := tokens(t)
	cache, log := t.TempDir(), filepath.Join(t.TempDir(), "audit.json")
	metrics := freeAddress(t)
	args := []string{
		"--metrics-listen", metrics, "--from-dir", folder(t, 10), "--tokens-file", file, "--cache-dir",
		cache, "--audit-log", log,
	}
	r := start(t, args...)
	for r.ask(t, "/readyz", "").StatusCode != http.StatusOK {
		if t.Context().Err() != nil {
			t.Fatal("it never gets ready")
		}
	}
	if got := r.ask(t, "/config/worker", ""); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %d", got.StatusCode)
	}
	got := r.ask(t, "/config/worker", text)
	body, err := io.ReadAll(got.Body)
	if err != nil || got.StatusCode != http.StatusOK || !strings.Contains(string(body), "data:,xxxxxxxxxx") {
		t.Errorf("with the token: %d %s %v", got.StatusCode, body, err)
	}
	if got := r.ask(t, "/config/worker", text); got.StatusCode != http.StatusForbidden {
		t.Errorf("a second time: %d", got.StatusCode)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	// counted after it was sent
	for got := ""; !strings.Contains(got, `bunsen_mcs_requests_total{code="200",pool="worker"} 1`); {
		if got = scrape(t, metrics); ctx.Err() != nil {
			t.Fatalf("the metrics are\n%s", got)
		}
	}
	r.ends(t)
	audit, err := os.ReadFile(log)
	if err != nil || strings.Count(string(audit), "\n") != 3 || strings.Contains(string(audit), text) {
		t.Errorf("the audit log has %s (%v)", audit, err)
	}
	r = start(t, args...)
	for r.ask(t, "/readyz", "").StatusCode != http.StatusOK {
		if t.Context().Err() != nil {
			t.Fatal("it never gets ready")
		}
	}
	if got := r.ask(t, "/config/worker", text); got.StatusCode != http.StatusForbidden {
		t.Errorf("after a restart: %d", got.StatusCode)
	}
	r.ends(t)
}

// scrape is what Prometheus reads.
func scrape(t *testing.T, address string) string {
	t.Helper()
	got, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestNoGraceIsNone(t *testing.T) {
	r := start(t, "--from-dir", folder(t, 6<<20), "--open", "--grace", "0s")
	for r.ask(t, "/readyz", "").StatusCode != http.StatusOK {
		if t.Context().Err() != nil {
			t.Fatal("it never gets ready")
		}
	}
	r.ask(t, "/config/worker", "") // and reads none of it
	r.stop()
	select {
	case <-r.done:
	case <-time.After(2 * time.Minute):
		t.Error("it waits for the one who reads nothing")
	}
}

func TestAnAnswerUnderWayEndsBeforeTheServerDoes(t *testing.T) {
	const size = 6 << 20 // more than a connection's buffers take, of which ours is a small one
	r := start(t, "--from-dir", folder(t, size), "--open")
	for r.ask(t, "/readyz", "").StatusCode != http.StatusOK {
		if t.Context().Err() != nil {
			t.Fatal("it never gets ready")
		}
	}
	got := r.ask(t, "/config/worker", "")
	r.stop()
	for { // until it takes no more connections
		c, err := net.Dial("tcp", r.address)
		if err != nil {
			break
		}
		_ = c.Close()
	}
	select {
	case err := <-r.done:
		t.Fatalf("it ended before the answer did: %v", err)
	default:
	}
	n, err := io.Copy(io.Discard, got.Body)
	if err != nil || n != got.ContentLength || n < size {
		t.Errorf("%d bytes of %d arrived: %v", n, got.ContentLength, err)
	}
	if err := <-r.done; err != nil {
		t.Errorf("stopping: %v", err)
	}
}
