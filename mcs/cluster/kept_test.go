package cluster

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/cache"
)

func TestAPoolServesWhatItWasWellWith(t *testing.T) {
	t.Parallel()
	api := newAPIServer(t)
	for _, name := range []string{"rendered-worker-1", "rendered-worker-2", "rendered-worker-3"} {
		api.config(rendered(name, "a"))
	}
	keeper, err := cache.Open(t.TempDir(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	api.pool("worker", "rendered-worker-2", v1alpha1.RolloutRecord{Config: "rendered-worker-2", Healthy: "rendered-worker-1"})
	api.pool("young", "rendered-worker-3", v1alpha1.RolloutRecord{Config: "rendered-worker-3"})
	c, log, _ := run(t, &rest.Config{Host: api.URL}, Options{Serve: v1alpha1.ServeHealthy, Keeper: keeper})
	log.await(t, "ready")
	serves(t, c.Shelf, "worker", "rendered-worker-1")
	serves(t, c.Shelf, "young", "rendered-worker-3")

	api.pool("young", "rendered-worker-3", v1alpha1.RolloutRecord{Config: "rendered-worker-3", Verdict: v1alpha1.RolloutHalted})
	log.await(t, "deciding what to serve", "pool=young", "was halted")
	if _, err := c.Shelf.Offer("young"); !errors.Is(err, mcs.ErrNothingRendered) || !strings.Contains(err.Error(), "was halted") {
		t.Errorf("a pool whose first rollout was halted: %v", err)
	}
	if got := c.pools.serving()["young"]; got.Config != "" || !strings.Contains(got.Problem, "was halted") {
		t.Errorf("told of it is %+v", got)
	}
	if got := keeper.Names(); slices.Contains(got, "pool-young") || !slices.Contains(got, "pool-worker") {
		t.Errorf("kept are %v", got) // the next start serves no halted config either
	}
	api.pool("worker", "rendered-worker-2", v1alpha1.RolloutRecord{Config: "rendered-worker-2", Healthy: "rendered-worker-2"})
	log.await(t, "msg=serving", "rendered-worker-2")
	if got := keptConfigs(keeper, quiet)["worker"]; got == nil || got.Name != "rendered-worker-2" {
		t.Errorf("kept is %v", got)
	}
}

func TestAStartWithoutTheAPIServerServesWhatWasKept(t *testing.T) {
	t.Parallel()
	api := newAPIServer(t)
	api.config(rendered("rendered-worker-1", "a"))
	dir := t.TempDir()
	keeper, err := cache.Open(dir, quiet)
	if err != nil {
		t.Fatal(err)
	}
	for _, pool := range []string{"worker", "halted", "gone"} {
		api.pool(pool, "rendered-worker-1")
	}
	_, log, stop := run(t, &rest.Config{Host: api.URL}, Options{Keeper: keeper})
	log.await(t, "ready")
	stop()
	deleted := []byte(`[{"metadata":{"name":"aaaaaaaaaa"},"spec":{"pool":"worker"}}]`)
	if err := errors.Join(keeper.Put("pool-odd", []byte("{")), keeper.Put(tokensKey, deleted)); err != nil {
		t.Fatal(err)
	}
	api.change(func() { api.away = true })
	api.CloseClientConnections()

	c, log, _ := run(t, &rest.Config{Host: api.URL}, Options{Keeper: keeper})
	log.await(t, "waiting for the API server")
	log.await(t, "ready with what was kept")
	for _, pool := range []string{"worker", "halted", "gone"} {
		serves(t, c.Shelf, pool, "rendered-worker-1")
	}
	if c.Token("aaaaaaaaaa") == nil {
		t.Error("the token is not known")
	}
	api.remove("gone")
	api.pool("halted", "rendered-worker-1", v1alpha1.RolloutRecord{Config: "rendered-worker-1", Verdict: v1alpha1.RolloutHalted})
	api.change(func() { api.away = false })
	log.await(t, "ready: all pools are known")
	serves(t, c.Shelf, "worker", "rendered-worker-1")
	if c.Token("aaaaaaaaaa") != nil {
		t.Error("a token that went meanwhile is still known")
	}
	await(t, "the token to be kept no longer", func() bool { return len(*keptTokens(keeper, quiet)) == 0 })
	if _, err := c.Shelf.Offer("gone"); !errors.Is(err, mcs.ErrUnknownPool) {
		t.Errorf("a pool that went meanwhile: %v", err)
	}
	if _, err := c.Shelf.Offer("halted"); err == nil || !strings.Contains(err.Error(), "was halted") {
		t.Errorf("a pool that halted meanwhile: %v", err)
	}
	if got := keptConfigs(keeper, quiet); len(got) != 1 || got["worker"] == nil {
		t.Errorf("kept are %v", got)
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
	if c.Shelf.Ready() {
		t.Error("ready with nothing")
	}
	if _, err := c.Shelf.Offer("worker"); !errors.Is(err, mcs.ErrNotSynced) {
		t.Errorf("got %v", err)
	}
	api.change(func() { api.away = false })
	log.await(t, "msg=serving", "rendered-worker-1")
}
