package cluster

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
)

var quiet = slog.New(slog.DiscardHandler)

func rendered(name, contents string) *mcfgv1.MachineConfig {
	mc := &mcfgv1.MachineConfig{}
	mc.Name = name
	mc.Annotations = map[string]string{v1alpha1.RevisionAnnotation: "main@sha1:01"}
	mc.Spec.Config.Raw = []byte(
		`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/a","contents":{"source":"data:,` + contents +
			`"}}]}}`)
	return mc
}

// lines is a log that a test can wait on.
type lines chan string

func (l lines) Write(p []byte) (int, error) { l <- string(p); return len(p), nil }

func (l lines) await(t *testing.T, parts ...string) {
	t.Helper()
	var seen []string
	deadline := time.After(time.Minute)
	for {
		select {
		case line := <-l:
			seen = append(seen, line)
			all := true
			for _, part := range parts {
				all = all && strings.Contains(line, part)
			}
			if all {
				return
			}
		case <-deadline:
			t.Fatalf("no line with %q in\n%s", parts, seen)
		}
	}
}

// run runs a Cluster until the test ends or the function that it returns is called.
func run(t *testing.T, config *rest.Config, o Options) (*Cluster, lines, func()) {
	t.Helper()
	log := make(lines, 10000)
	o.Log, o.Now = slog.New(slog.NewTextHandler(log, nil)), time.Now
	if o.Pools == nil {
		o.Pools = mcs.NewPools()
	}
	cluster, err := New(config, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- cluster.Run(ctx) }()
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("stopping: %v", err)
		}
	}
	t.Cleanup(stop)
	return cluster, log, stop
}

// start runs a Cluster against the small server until the test ends.
func start(t *testing.T, api *apiServer) (*mcs.Pools, lines) {
	t.Helper()
	c, log, _ := run(t, &rest.Config{Host: api.URL}, Options{Serve: v1alpha1.ServeNewest})
	return c.Pools, log
}

func serves(t *testing.T, s *mcs.Pools, pool, want string) {
	t.Helper()
	o, err := s.Config(pool)
	if err != nil {
		t.Fatalf("pool %s: %v", pool, err)
	}
	if o.Name() != want {
		t.Errorf("pool %s serves %s, want %s", pool, o.Name(), want)
	}
}

func TestTheShelfFollowsTheCluster(t *testing.T) {
	t.Parallel()
	api := newAPIServer(t)
	for _, name := range []string{"rendered-worker-1", "rendered-worker-2", "rendered-other-1"} {
		api.config(rendered(name, "a"))
	}
	api.pool("worker", "rendered-worker-1")
	api.pool("new", "")
	s, log := start(t, api)

	log.await(t, "ready")
	serves(t, s, "worker", "rendered-worker-1")
	if _, err := s.Config("new"); !errors.Is(err, mcs.ErrNothingRendered) {
		t.Errorf("a pool without a config: %v", err)
	}
	if _, err := s.Config("nobody"); !errors.Is(err, mcs.ErrUnknownPool) {
		t.Errorf("no pool: %v", err)
	}
	api.pool("worker", "rendered-worker-2")
	log.await(t, "msg=serving", "rendered-worker-2")
	serves(t, s, "worker", "rendered-worker-2")
	api.pool("worker", "rendered-worker-2") // a status that moves on
	api.pool("late", "rendered-other-1")
	log.await(t, "msg=serving", "rendered-other-1")
	serves(t, s, "late", "rendered-other-1")

	api.mu.Lock()
	defer api.mu.Unlock()
	if api.gets["rendered-worker-2"] != 1 || api.gets["rendered-worker-1"] != 1 {
		t.Errorf("each config is read once, got %v", api.gets)
	}
}

func TestTheLastGoodConfigIsServedWhateverHappens(t *testing.T) {
	t.Parallel()
	api := newAPIServer(t)
	api.config(rendered("rendered-worker-1", "a"))
	api.pool("worker", "rendered-worker-1")
	s, log := start(t, api)
	log.await(t, "ready")

	api.pool("worker", "rendered-worker-2")
	log.await(t, "it keeps its config", "rendered-worker-2 not found")
	serves(t, s, "worker", "rendered-worker-1")
	api.config(rendered("rendered-worker-2", "b"))
	log.await(t, "msg=serving", "rendered-worker-2")

	bad := rendered("rendered-worker-3", "")
	bad.Spec.Config.Raw = []byte(`{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"relative"}]}}`)
	api.config(bad)
	api.pool("worker", "rendered-worker-3")
	log.await(t, "the pool keeps its previous one", "rendered-worker-3", "relative")
	serves(t, s, "worker", "rendered-worker-2")

	api.change(func() { api.away = true })
	api.CloseClientConnections()
	serves(t, s, "worker", "rendered-worker-2")
	if !s.Ready() {
		t.Error("not ready while the API server is away")
	}
	api.config(rendered("rendered-worker-4", "d"))
	api.pool("worker", "rendered-worker-4")
	api.pool("other", "rendered-worker-4")
	api.remove("other")
	api.change(func() { api.away = false })
	log.await(t, "msg=serving", "rendered-worker-4")
	serves(t, s, "worker", "rendered-worker-4")
}

func TestAPoolThatIsGoneIsUnknown(t *testing.T) {
	t.Parallel()
	api := newAPIServer(t)
	api.config(rendered("rendered-worker-1", "a"))
	api.pool("worker", "rendered-worker-1")
	api.pool("gone", "rendered-worker-1")
	s, log := start(t, api)
	log.await(t, "ready")
	serves(t, s, "gone", "rendered-worker-1")
	api.remove("gone")
	await(t, "the pool is unknown", func() bool {
		_, err := s.Config("gone")
		return errors.Is(err, mcs.ErrUnknownPool)
	})
}
