package main

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/agent"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/linux"

	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// oneNode is a cluster of one node that wants one config.
type oneNode struct {
	mu          sync.Mutex
	annotations map[string]string
	rules       drift.Policy
	changed     chan struct{}
}

func (c *oneNode) Node(context.Context) (report.Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return report.NodeOf(c.annotations), nil
}

func (c *oneNode) SetAnnotations(_ context.Context, annotations map[string]string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(c.annotations, annotations)
	select {
	case c.changed <- struct{}{}:
	default:
	}
	return nil
}

func (c *oneNode) Config(_ context.Context, name string) (mcfgv1.MachineConfig, error) {
	const ignition = `{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/etc/containers/policy.json","contents":{"source":"data:,right"}}]}}`
	return mcfgv1.MachineConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: []byte(ignition)}},
	}, nil
}

func (c *oneNode) Secrets(context.Context, string) (v1alpha1.NodeSecrets, error) {
	return v1alpha1.NodeSecrets{}, report.ErrNoSecrets
}

func (c *oneNode) Rules(context.Context) (plan.Rules, error) {
	return plan.Rules{Policy: disruption.Default()}, nil
}

func (c *oneNode) DriftRules(context.Context, string) (drift.Policy, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rules, nil
}

// await waits until the Node says something.
func (c *oneNode) await(t *testing.T, what string, ok func(annotations map[string]string) bool) {
	t.Helper()
	limit := time.After(2 * time.Minute)
	for {
		c.mu.Lock()
		is, said := ok(c.annotations), maps.Clone(c.annotations)
		c.mu.Unlock()
		if is {
			return
		}
		select {
		case <-c.changed:
		case <-limit:
			t.Fatalf("it never was: %s; the Node says %v", what, said)
		}
	}
}

// TestARunningDaemonNoticesWhatSomebodyDoes: real files, real inotify, no timer.
func TestARunningDaemonNoticesWhatSomebodyDoes(t *testing.T) {
	dir := t.TempDir()
	h, root, err := linux.OpenSimulated(dir, func(line string) { t.Log(line) })
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	watcher, err := linux.NewWatcher(root)
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	c := &oneNode{
		changed:     make(chan struct{}, 1),
		annotations: map[string]string{v1alpha1.DesiredConfigAnnotation: "rendered-worker-1"},
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	a := agent.New(agent.Config{
		Node: "n", Cluster: c, Host: h, Drift: watcher,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	go func() { done <- a.Run(ctx, nil) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()

	state := func(want string) func(map[string]string) bool {
		return func(is map[string]string) bool {
			return is[v1alpha1.StateAnnotation] == want &&
				(want == v1alpha1.StateDone) == (is[v1alpha1.DriftAnnotation] == "")
		}
	}
	file := filepath.Join(dir, "etc/containers/policy.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c.await(t, "Done", state(v1alpha1.StateDone))
	write("wrong")
	c.await(t, "Degraded by an edit", state(v1alpha1.StateDegraded))
	write("right")
	c.await(t, "Done, healed by hand", state(v1alpha1.StateDone))
	if err := os.RemoveAll(filepath.Dir(file)); err != nil {
		t.Fatal(err)
	}
	c.await(t, "Degraded by a directory that is gone", func(is map[string]string) bool {
		return state(v1alpha1.StateDegraded)(is) && strings.Contains(is[v1alpha1.DriftAnnotation], `"kind":"missing"`)
	})
	c.mu.Lock()
	c.rules.Rules = []drift.Rule{{Pattern: "/etc/containers/**", Action: v1alpha1.DriftRepair}}
	c.mu.Unlock()
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	c.await(t, "Done, repaired", state(v1alpha1.StateDone))
	if text, err := os.ReadFile(file); err != nil || string(text) != "right" {
		t.Errorf("%q, %v", text, err)
	}
}
