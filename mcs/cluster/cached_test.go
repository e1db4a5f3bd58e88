package cluster

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
)

func TestAPoolServesWhatItWasWellWith(t *testing.T) {
	t.Parallel()
	api := newAPIServer(t)
	for _, name := range []string{"rendered-worker-1", "rendered-worker-2", "rendered-worker-3"} {
		api.config(rendered(name, "a"))
	}
	cached, err := OpenCache(t.TempDir(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	api.pool("worker", "rendered-worker-2", v1alpha1.RolloutRecord{
		Config:  "rendered-worker-2",
		Healthy: "rendered-worker-1",
	})
	api.pool("young", "rendered-worker-3", v1alpha1.RolloutRecord{Config: "rendered-worker-3"})
	c, log, _ := run(t, &rest.Config{Host: api.URL}, Options{Serve: v1alpha1.ServeHealthy, Cache: cached})
	log.await(t, "ready")
	serves(t, c.Pools, "worker", "rendered-worker-1")
	serves(t, c.Pools, "young", "rendered-worker-3")

	api.pool("young", "rendered-worker-3", v1alpha1.RolloutRecord{
		Config:     "rendered-worker-3",
		RolloutEnd: v1alpha1.RolloutEnd{Verdict: v1alpha1.RolloutHalted},
	})
	log.await(t, "choosing the config to serve", "pool=young", "was halted") // the server logs the reason, then acts
	await(t, "the halted config to leave the cache", func() bool {
		return !slices.Contains(cached.Keys(), "pool-young")
	})
	if _, err := c.Pools.Config("young"); !errors.Is(err, mcs.ErrNothingRendered) ||
		!strings.Contains(err.Error(), "was halted") {
		t.Errorf("a pool whose first rollout was halted: %v", err)
	}
	if got := c.pools.status()["young"]; got.Config != "" || !strings.Contains(got.Problem, "was halted") {
		t.Errorf("told of it is %+v", got)
	}
	if got := cached.Keys(); !slices.Contains(got, "pool-worker") {
		t.Errorf("kept are %v", got)
	}
	api.pool("worker", "rendered-worker-2", v1alpha1.RolloutRecord{
		Config:  "rendered-worker-2",
		Healthy: "rendered-worker-2",
	})
	log.await(t, "msg=serving", "rendered-worker-2")
	if got := cached.configs()["worker"]; got == nil || got.Name != "rendered-worker-2" {
		t.Errorf("kept is %v", got)
	}
}

func TestAStartWithoutTheAPIServerServesWhatWasKept(t *testing.T) {
	t.Parallel()
	api := newAPIServer(t)
	api.config(rendered("rendered-worker-1", "a"))
	dir := t.TempDir()
	cached, err := OpenCache(dir, quiet)
	if err != nil {
		t.Fatal(err)
	}
	for _, pool := range []string{"worker", "halted", "gone"} {
		api.pool(pool, "rendered-worker-1")
	}
	_, log, stop := run(t, &rest.Config{Host: api.URL}, Options{Cache: cached})
	log.await(t, "ready")
	stop()
	deleted := []byte(`[{"metadata":{"name":"aaaaaaaaaa"},"spec":{"pool":"worker"}}]`)
	if err := errors.Join(cached.Put("pool-odd", []byte("{")), cached.Put(tokensKey, deleted)); err != nil {
		t.Fatal(err)
	}
	api.change(func() { api.away = true })
	api.CloseClientConnections()

	c, log, _ := run(t, &rest.Config{Host: api.URL}, Options{Cache: cached})
	log.await(t, "waiting for the API server")
	log.await(t, "unreachable: serving from the cache")
	for _, pool := range []string{"worker", "halted", "gone"} {
		serves(t, c.Pools, pool, "rendered-worker-1")
	}
	if _, err := c.Pools.Config("new"); !errors.Is(err, mcs.ErrNotSynced) || !c.Pools.Ready() || c.Pools.Synced() {
		t.Errorf("a pool that may have been made meanwhile: %v", err)
	}
	if c.Token("aaaaaaaaaa") == nil {
		t.Error("the token is not known")
	}
	api.remove("gone")
	api.pool("halted", "rendered-worker-1", v1alpha1.RolloutRecord{
		Config:     "rendered-worker-1",
		RolloutEnd: v1alpha1.RolloutEnd{Verdict: v1alpha1.RolloutHalted},
	})
	api.change(func() { api.away = false })
	log.await(t, "ready: all pools are known")
	serves(t, c.Pools, "worker", "rendered-worker-1")
	if c.Token("aaaaaaaaaa") != nil {
		t.Error("a token that went meanwhile is still known")
	}
	await(t, "the token to be kept no longer", func() bool { return len(cached.tokens()) == 0 })
	if _, err := c.Pools.Config("gone"); !errors.Is(err, mcs.ErrUnknownPool) {
		t.Errorf("a pool that went meanwhile: %v", err)
	}
	if _, err := c.Pools.Config("halted"); err == nil || !strings.Contains(err.Error(), "was halted") {
		t.Errorf("a pool that halted meanwhile: %v", err)
	}
	if got := cached.configs(); len(got) != 1 || got["worker"] == nil {
		t.Errorf("kept are %v", got)
	}
}

// TestANewSecretPathIsWithheldAtOnce: the config of the pool stays the same, and only the pool says that a file of it
// is secret now. A server that starts again without the API server knows it too.
func TestANewSecretPathIsWithheldAtOnce(t *testing.T) {
	t.Parallel()
	api := newAPIServer(t)
	config := rendered("rendered-worker-1", "a")
	config.Annotations = map[string]string{v1alpha1.SecretPathsAnnotation: "/etc/other"}
	api.config(config)
	api.pool("worker", "rendered-worker-1")
	cached, err := OpenCache(t.TempDir(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	withheld := func(c *Cluster) string {
		served, err := c.Pools.Config("worker")
		if err != nil {
			t.Fatal(err)
		}
		body, err := served.Body(mcs.ServedFormat{Version: mcs.Newest, Withhold: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(body.Withheld, ", ")
	}
	c, log, stop := run(t, &rest.Config{Host: api.URL}, Options{Cache: cached, Serve: v1alpha1.ServeNewest})
	log.await(t, "ready")
	if got := withheld(c); got != "" {
		t.Errorf("without a mark it withholds %s", got)
	}
	api.mark("worker", "/etc/a")
	log.await(t, "msg=serving")
	const want = "/etc/a"
	if got := withheld(c); !strings.Contains(got, want) {
		t.Errorf("it withholds %q", got)
	}
	stop()
	api.change(func() { api.away = true })
	api.CloseClientConnections()
	c, log, _ = run(t, &rest.Config{Host: api.URL}, Options{Cache: cached, Serve: v1alpha1.ServeNewest})
	log.await(t, "unreachable: serving from the cache")
	if got := withheld(c); !strings.Contains(got, want) {
		t.Errorf("from the cache it withholds %q", got)
	}
}

func TestWithoutAnythingKeptAStartWaits(t *testing.T) {
	t.Parallel()
	api := newAPIServer(t)
	api.config(rendered("rendered-worker-1", "a"))
	api.pool("worker", "rendered-worker-1")
	api.change(func() { api.away = true })
	c, log, _ := run(t, &rest.Config{Host: api.URL}, Options{})
	log.await(t, "waiting for the API server")
	if c.Pools.Ready() {
		t.Error("ready with nothing")
	}
	if _, err := c.Pools.Config("worker"); !errors.Is(err, mcs.ErrNotSynced) {
		t.Errorf("got %v", err)
	}
	api.change(func() { api.away = false })
	log.await(t, "msg=serving", "rendered-worker-1")
}

// Whatever keeps the healthy config from being read: one that a rollout was halted on is served no more from the moment
// that this is known, neither now nor by the next start.
func TestAHaltedConfigIsServedNoMoreThoughNoOtherCanBe(t *testing.T) {
	t.Parallel()
	for because, healthy := range map[string]func(*apiServer){
		"it is gone": func(*apiServer) {},
		"it cannot be served": func(api *apiServer) {
			bad := rendered("rendered-worker-1", "")
			bad.Spec.Config.Raw = []byte(`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"relative"}]}}`)
			api.config(bad)
		},
	} {
		t.Run(because, func(t *testing.T) {
			t.Parallel()
			api := newAPIServer(t)
			healthy(api)
			api.config(rendered("rendered-worker-2", "b"))
			cached, err := OpenCache(t.TempDir(), quiet)
			if err != nil {
				t.Fatal(err)
			}
			record := v1alpha1.RolloutRecord{Config: "rendered-worker-2", Healthy: "rendered-worker-1"}
			api.pool("worker", "rendered-worker-2", record)
			c, log, _ := run(t, &rest.Config{Host: api.URL}, Options{Serve: v1alpha1.ServeNewest, Cache: cached})
			log.await(t, "ready")
			serves(t, c.Pools, "worker", "rendered-worker-2")

			record.Verdict = v1alpha1.RolloutHalted
			api.pool("worker", "rendered-worker-2", record)
			log.await(t, "the server has no config for new machines", "rendered-worker-2")
			if _, err := c.Pools.Config("worker"); !errors.Is(err, mcs.ErrNothingRendered) ||
				!strings.Contains(err.Error(), "rendered-worker-1") {
				t.Errorf("got %v", err)
			}
			if kept := cached.configs(); len(kept) != 0 {
				t.Errorf("kept are %v", kept)
			}
			api.config(rendered("rendered-worker-3", "c"))
			api.pool("worker", "rendered-worker-3", v1alpha1.RolloutRecord{
				Config:  "rendered-worker-3",
				Healthy: "rendered-worker-1",
			})
			log.await(t, "msg=serving", "rendered-worker-3")
		})
	}
}

// A pool whose config cannot be read tells so, to machines and in the report, instead of that it is being read for
// ever.
func TestWhatAPoolWaitsForIsTold(t *testing.T) {
	t.Parallel()
	api := newAPIServer(t)
	api.pool("worker", "rendered-worker-1")
	c, log, _ := run(t, &rest.Config{Host: api.URL}, Options{})
	log.await(t, "will retry", "rendered-worker-1")
	for _, said := range []string{offered(c), c.pools.status()["worker"].Problem} {
		if !strings.Contains(said, "its config rendered-worker-1 is not on the cluster") {
			t.Errorf("said is %q", said)
		}
	}
	api.config(rendered("rendered-worker-1", "a"))
	log.await(t, "msg=serving", "rendered-worker-1")
}

func offered(c *Cluster) string {
	if _, err := c.Pools.Config("worker"); err != nil {
		return err.Error()
	}
	return ""
}

// What was kept is for as long as the pools are not known; that the kubelets' CA cannot be read does not keep a replica
// that has an earlier one from following them.
func TestAKeptCAIsGoodEnoughToFollowThePools(t *testing.T) {
	t.Parallel()
	api := newAPIServer(t) // has no ConfigMap
	api.config(rendered("rendered-worker-1", "a"))
	api.config(rendered("rendered-worker-2", "b"))
	api.pool("worker", "rendered-worker-2")
	cached, err := OpenCache(t.TempDir(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	old, err := json.Marshal(rendered("rendered-worker-1", "a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(cached.Put(kubeletCAKey, []byte("PEM")), cached.Put("pool-worker", old)); err != nil {
		t.Fatal(err)
	}
	told := make(chan []byte, 1)
	c, log, _ := run(t, &rest.Config{Host: api.URL}, Options{Cache: cached, KubeletCA: func(pem []byte) {
		told <- pem
	}})
	log.await(t, "ready: all pools are known")
	serves(t, c.Pools, "worker", "rendered-worker-2")
	if got := <-told; string(got) != "PEM" {
		t.Errorf("told is %q", got)
	}
}
