package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/certs"
	"github.com/bunsen-os/bunsen/mcs/cluster"

	"github.com/bunsen-os/bunsen/mcs/join"
)

// unlimited are tokens of pool worker of any number of uses.
type unlimited map[string]*v1alpha1.ProvisioningToken

func (u unlimited) Token(id string) *v1alpha1.ProvisioningToken { return u[id] }

func (u unlimited) Use(context.Context, string, v1alpha1.TokenUse) error { return nil }

func (u unlimited) create(t *testing.T) join.Token {
	t.Helper()
	made, err := join.NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	u[made.ID] = &v1alpha1.ProvisioningToken{
		ObjectMeta: metav1.ObjectMeta{Name: made.ID},
		Spec: v1alpha1.ProvisioningTokenSpec{
			Pool: "worker", Expires: metav1.NewTime(time.Now().Add(time.Hour)), Hash: made.Hash(),
		},
	}
	return made
}

// mintingCluster is a cluster whose API server takes every bootstrap token.
func mintingCluster(t *testing.T, s *mcs.Pools, log *slog.Logger) *cluster.Cluster {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}})
	}))
	t.Cleanup(api.Close)
	c, err := cluster.New(&rest.Config{Host: api.URL}, cluster.Options{Pools: s, Log: log, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// besieged is a server with the default flags, for attackers and honest machines of loopback addresses.
type besieged struct {
	address string
	roots   *x509.CertPool
}

// besiege starts a server until the test ends.
func besiege(t *testing.T, known unlimited) (besieged, *cluster.Cluster) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	p := &program{log: log, pools: mcs.NewPools(), started: time.Now()}
	defaults := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, g := range p.groups() {
		defaults.AddFlagSet(g.flags)
	}
	if err := defaults.Parse([]string{"--grace=1s"}); err != nil {
		t.Fatal(err)
	}
	rendered := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: "rendered-worker-1"}}
	rendered.Spec.Config.Raw = []byte(`{"ignition":{"version":"3.5.0"}}`)
	err := errors.Join(p.pools.Set("worker", rendered),
		p.pools.SetExtra(mcs.Extra{Join: &mcs.Join{Server: "https://api.example.com:6443", CA: []byte("a CA")}}))
	p.pools.SetSynced()
	api := mintingCluster(t, p.pools, log)
	p.apis.tokens, p.apis.bootstrapTokens = known, api
	if err == nil {
		p.cert, err = certs.OpenCertificates(t.TempDir(), nil, log)
	}
	if err == nil {
		p.listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	server, err := p.server()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.serve(ctx, server) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	b := besieged{p.listener.Addr().String(), x509.NewCertPool()}
	b.roots.AppendCertsFromPEM(p.cert.CA())
	return b, api
}

func (b besieged) dial(ctx context.Context, from string) (net.Conn, error) {
	return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(ctx, "tcp", b.address)
}

// get asks for the config from an address, within two seconds.
func (b besieged) get(from string, with join.Token) (status int, body string, err error) {
	const within = 2 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+b.address+"/config/worker", nil)
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Authorization", "Bearer "+with.String())
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: b.roots},
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return b.dial(ctx, from) },
		DisableKeepAlives: true,
	}}
	r, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	return r.StatusCode, string(text), err
}

// attack holds more silent connections than there may be, and asks with a token all the time, until the context ends.
func (b besieged) attack(ctx context.Context, t *testing.T, workers *sync.WaitGroup, with join.Token) {
	t.Helper()
	const silent, askers = 5000, 4
	from := func(i int) string { return fmt.Sprint("127.0.1.", 1+i%64) }
	for i := range silent {
		c, err := b.dial(ctx, from(i))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	for w := range askers {
		workers.Go(func() {
			for i := w; ctx.Err() == nil; i += askers {
				_, _, _ = b.get(from(i), with)
			}
		})
	}
}

// A leaked token has been used from one address for as long as that got bootstrap tokens, and is now used from many.
func TestHonestMachinesJoinDuringASiege(t *testing.T) {
	const files = 12_000 // both ends of each connection are in this process
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < files {
		t.Fatalf("needs %d open files, and %d are allowed: ulimit -n (%v)", files, limit.Cur, err)
	}
	known := unlimited{}
	leaked, other := known.create(t), known.create(t)
	b, api := besiege(t, known)
	for spent, n := new(mcs.ShareError), 0; ; n++ {
		_, err := api.CreateBootstrapToken(t.Context(), mcs.JoiningMachine{
			Pool: "worker", Token: leaked.ID,
			Address: "127.0.1.1",
		})
		if errors.As(err, &spent) && n > 1000 {
			t.Logf("the address has %d bootstrap tokens: %s", n, spent.Share)
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	defer workers.Wait()
	defer stop()
	b.attack(ctx, t, &workers, leaked)
	if status, body, err := b.get("127.0.1.1", leaked); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, "this address's share") {
		t.Errorf("the attacker is answered %d %q, %v", status, body, err)
	}
	slowest := time.Duration(0)
	for i := range 20 {
		for because, honest := range map[string]struct {
			from string
			with join.Token
		}{
			"a machine with another token":  {"127.0.2.1", other},
			"a machine with the same token": {fmt.Sprint("127.0.3.", 1+i), leaked},
		} {
			began := time.Now()
			status, body, err := b.get(honest.from, honest.with)
			if err != nil || status != http.StatusOK || !strings.Contains(body, "/etc/kubernetes/kubeconfig") {
				t.Errorf("%s, time %d: %d %.200q %v", because, i, status, body, err)
			}
			slowest = max(slowest, time.Since(began))
		}
	}
	t.Logf("the slowest answer took %s", slowest.Round(time.Millisecond))
}
