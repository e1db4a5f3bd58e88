package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
)

// selecting is a pool that selects nodes by a role and assigns a config.
func selecting(name, config string) *mcfgv1.MachineConfigPool {
	pool := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pool.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"node-role.kubernetes.io/" +
		name: ""}}
	pool.Spec.Configuration.Name = config
	return pool
}

// inRoles is a node that an administrator labelled.
func inRoles(name string, roles ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, role := range roles {
		n.Labels["node-role.kubernetes.io/"+role] = ""
	}
	return n
}

// nodeConfigs asks as nodes would that are in one pool, two, none and too many.
func nodeConfigs(t *testing.T, p *plane) {
	pools := []client.Object{
		selecting("gpu", "rendered-gpu-1"), selecting("db", ""),
		selecting("edge", "rendered-edge-1"),
	}
	p.create(t, pools...)
	defer func() {
		for _, pool := range pools {
			if err := p.admin.Delete(t.Context(), pool); err != nil {
				t.Error(err)
			}
		}
	}()
	own := rendered("rendered-gpu-own", "o")
	own.Annotations = map[string]string{
		v1alpha1.VariantOfAnnotation:    "rendered-gpu-0",
		v1alpha1.VariantNodesAnnotation: "gpu-1,both",
	}
	p.create(
		t, own, rendered("rendered-gpu-1", "a"), rendered("rendered-gpu-0", "b"), rendered("rendered-edge-1", "c"),
		rendered("00-gpu", "d"),
		inRoles("gpu-0", "gpu"), inRoles("gpu-1", "gpu"), inRoles("edge-0", "edge"), inRoles("both", "gpu", "db"),
		inRoles("plain"),
	)
	cached, err := OpenCache(filepath.Join(t.TempDir(), "cache"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var way line
	config := rest.CopyConfig(p.server)
	config.Dial = way.dial
	told := make(chan []byte, 1)
	c, log, stop := run(t, config, Options{Cache: cached, NodeCA: func(ca []byte) { told <- ca }})
	log.await(t, "ready")
	if ca := string(<-told); !strings.Contains(ca, "BEGIN CERTIFICATE") {
		t.Errorf("the CA of kubelets is %q", ca)
	}
	reads := func(c *Cluster, because, node, config, want string) {
		t.Helper()
		raw, err := c.NodeConfig(t.Context(), node, config)
		var refused *mcs.NotForNodeError
		switch {
		case want == "" && (err != nil || !strings.Contains(string(raw), `"kind":"MachineConfig"`) ||
			!strings.Contains(string(raw), config)):
			t.Errorf("%s: %v %s", because, err, raw)
		case want == "none" && !errors.Is(err, mcs.ErrNoSuchConfig), want == "away" &&
			!errors.Is(err, mcs.ErrAPIUnavailable):
			t.Errorf("%s: %v", because, err)
		case want != "" && want != "none" && want != "away" &&
			(!errors.As(err, &refused) || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v", because, err)
		}
	}
	reads(c, "the config that its pool assigns", "gpu-0", "rendered-gpu-1", "")
	reads(c, "an earlier config of its pool", "gpu-0", "rendered-gpu-0", "")
	reads(c, "a config of its pool that is gone", "gpu-0", "rendered-gpu-2", "none")
	reads(c, "a config of another pool", "gpu-0", "rendered-edge-1", "node gpu-0 may not read rendered-edge-1: it is "+
		"in pool gpu, not in edge")
	reads(c, "an old config of other nodes of its pool", "gpu-0", "rendered-gpu-own",
		"node gpu-0 may not read rendered-gpu-own: it is the config of other nodes")
	reads(c, "its own config", "gpu-1", "rendered-gpu-own", "")
	reads(c, "a config that is not rendered", "gpu-0", "00-gpu", "not the name of a rendered config")
	reads(c, "a node in no pool", "plain", "rendered-gpu-1", "it is in no pool; label it for pool gpu")
	reads(c, "a node in two custom pools", "both", "rendered-gpu-1", "belongs to 2 custom pools")
	reads(c, "a node that is not there", "nobody", "rendered-gpu-1", "there is no Node of that name")
	reads(c, "another node's config", "edge-0", "rendered-edge-1", "")
	if names := cached.Keys(); slices.Contains(names, "config-rendered-gpu-0") ||
		!slices.Contains(names, "config-rendered-gpu-1") {
		t.Errorf("kept are %v: want those that a pool names", names)
	}

	moved := inRoles("edge-0", "edge")
	if err := p.admin.Patch(t.Context(), moved, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"node-role.kubernetes.io/edge":null}}}`))); err != nil {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave() // a client that closes its side: what the API server says now counts, not what it said before
	if _, err := c.NodeConfig(gone, "edge-0", "rendered-edge-1"); !errors.As(err, new(*mcs.NotForNodeError)) {
		t.Errorf("a node that has left its pool, and does not wait: %v", err)
	}
	reads(c, "a node that has left its pool", "edge-0", "rendered-edge-1", "it is in no pool")
	if err := p.admin.Delete(t.Context(), inRoles("both")); err != nil {
		t.Fatal(err)
	}
	reads(c, "a node that was deleted", "both", "rendered-gpu-1", "there is no Node of that name")

	await(t, "the pools of nodes to be kept", func() bool { return len(cached.nodePools()) == 2 })
	way.set(true)
	reads(c, "the API server is away", "gpu-0", "rendered-gpu-1", "")
	reads(c, "the API server is away, and the config was not kept", "gpu-0", "rendered-gpu-0", "away")
	reads(c, "the API server is away, and its own config was kept", "gpu-1", "rendered-gpu-own", "")
	reads(c, "the API server is away, and a config of other nodes was kept", "gpu-0", "rendered-gpu-own",
		"it is the config of other nodes")
	reads(c, "the API server is away, and the node left", "edge-0", "rendered-edge-1", "away")
	reads(c, "the API server is away, and the config is another pool's", "gpu-0", "rendered-edge-1",
		"it is in pool gpu, not in edge")
	stop()
	again, log, _ := run(t, config, Options{Cache: cached, NodeCA: func([]byte) {}})
	log.await(t, "waiting for the API server")
	reads(again, "a server that started without the API server", "gpu-0", "rendered-gpu-1", "")
	reads(again, "a server that started without the API server, and its own config", "gpu-1", "rendered-gpu-own", "")
	if raw, err := again.NodeConfig(t.Context(), "gpu-0", "rendered-gpu-own"); !errors.Is(err, mcs.ErrNotSynced) ||
		raw != nil {
		t.Errorf("a server that started without the API server, and a config of other nodes: %v %s", err, raw)
	}
	if raw, err := again.nodes.machineConfig("rendered-gpu-own"); err != nil ||
		!strings.Contains(string(raw), "rendered-gpu-own") {
		t.Errorf("a machine of its node, and a server that started without the API server: %v", err)
	}
	if _, err := again.NodeConfig(t.Context(), "edge-0", "rendered-edge-1"); !errors.Is(err, mcs.ErrNotSynced) {
		t.Errorf("a server that started without the API server, and a node that is not known: %v", err)
	}
}

// TestAConfigIsReadOnceForAll has many nodes ask at once for a config that is not known yet.
func TestAConfigIsReadOnceForAll(t *testing.T) {
	t.Parallel()
	api := newAPIServer(t)
	api.config(rendered("rendered-worker-1", "a"))
	api.pool("worker", "rendered-worker-9")
	c, log, _ := run(t, &rest.Config{Host: api.URL}, Options{})
	log.await(t, "ready")
	var group errgroup.Group
	for range 100 {
		group.Go(func() error {
			raw, err := c.nodes.content(t.Context(), "rendered-worker-1")
			if err == nil && len(raw) == 0 {
				err = errors.New("it is empty")
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	api.mu.Lock()
	defer api.mu.Unlock()
	if n := api.gets["rendered-worker-1"]; n > 50 {
		t.Errorf("100 nodes at once had it read %d times", n)
	}
}

// TestABootstrapTokenCountsThoughItsMachineLeft has the client leave while the API server writes: the Secret is there,
// so it counts.
func TestABootstrapTokenCountsThoughItsMachineLeft(t *testing.T) {
	t.Parallel()
	for because, c := range map[string]struct {
		code  int
		fails bool
		count int
	}{
		"it is written":      {http.StatusCreated, false, 1},
		"it is refused":      {http.StatusForbidden, true, 0},
		"nobody knows of it": {http.StatusServiceUnavailable, true, 1},
	} {
		t.Run(because, func(t *testing.T) {
			t.Parallel()
			api := newAPIServer(t)
			ctx, leave := context.WithCancel(t.Context())
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost {
					api.ServeHTTP(w, r)
					return
				}
				leave()
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.code)
				if c.code == http.StatusCreated {
					_, _ = w.Write([]byte(`{"kind":"Secret","apiVersion":"v1"}`))
				} else {
					_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{
						APIVersion: "v1",
						Kind:       "Status",
					}, Status: "Failure", Code: int32(c.code)})
				}
			}))
			t.Cleanup(front.Close)
			t.Cleanup(front.CloseClientConnections)
			cluster, _, _ := run(t, &rest.Config{Host: front.URL}, Options{Now: func() time.Time { return morning }})
			machine := mcs.JoiningMachine{Pool: "worker", Token: "aaaaaaaaaa", Address: "192.0.2.1", Attested: true}
			if _, err := cluster.CreateBootstrapToken(ctx, machine); (err != nil) != c.fails {
				t.Errorf("minting: %v", err)
			}
			if n := left(t, new(ShareLimits), machine) - left(t, &cluster.tokenLimits, machine); n != c.count {
				t.Errorf("%d are counted, want %d", n, c.count)
			}
		})
	}
}
