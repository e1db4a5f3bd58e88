package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/agent"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/policy"
)

// cluster is one that lives in memory and does what the drain controller would.
type cluster struct {
	annotations map[string]string
	configs     map[string]mcfgv1.MachineConfig
	rules       plan.Rules
	// drains: what is asked for is acknowledged at once.
	drains bool
	// down: nothing can be reached.
	down error
	// told are all reports in order, without the common prefix.
	told []string
	// changed is signalled after each report.
	changed chan struct{}
}

func newCluster() *cluster {
	return &cluster{
		annotations: map[string]string{}, configs: map[string]mcfgv1.MachineConfig{}, drains: true,
		rules: plan.Rules{Policy: policy.Default()}, changed: make(chan struct{}, 1),
	}
}

func (c *cluster) Assignment(context.Context) (agent.Assignment, error) {
	return agent.AssignmentOf(c.annotations), c.down
}

func (c *cluster) Report(_ context.Context, annotations map[string]string) error {
	if c.down != nil {
		return c.down
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		c.annotations[key] = annotations[key]
		_, short, _ := strings.Cut(key, "/")
		c.told = append(c.told, fmt.Sprintf("%s=%s", short, annotations[key]))
	}
	if want := c.annotations[v1alpha1.DesiredDrainAnnotation]; c.drains && want != "" {
		c.annotations[v1alpha1.LastAppliedDrainAnnotation] = want
	}
	c.signal()
	return nil
}

func (c *cluster) signal() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

func (c *cluster) Config(_ context.Context, name string) (mcfgv1.MachineConfig, error) {
	mc, ok := c.configs[name]
	if !ok {
		return mc, fmt.Errorf("machineconfigs %q not found", name)
	}
	return mc, c.down
}

func (c *cluster) Rules(context.Context) (plan.Rules, error) { return c.rules, c.down }

// add adds a config whose Ignition is given without its version.
func (c *cluster) add(t *testing.T, name, ignition string, change ...func(*mcfgv1.MachineConfigSpec)) {
	t.Helper()
	var config map[string]any
	if err := json.Unmarshal([]byte("{"+ignition+"}"), &config); err != nil {
		t.Fatal(err)
	}
	config["ignition"] = map[string]any{"version": "3.5.0"}
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	mc := mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: raw}}}
	for _, f := range change {
		f(&mc.Spec)
	}
	c.configs[name] = mc
}

func (c *cluster) desire(name string) { c.annotations[v1alpha1.DesiredConfigAnnotation] = name }

// says compares the Node's annotations of the protocol with `state reason current desired`.
func (c *cluster) says(t *testing.T, state, current string, reason ...string) {
	t.Helper()
	is := agent.AssignmentOf(c.annotations)
	if is.State != state || is.Current != current {
		t.Errorf("the node says state %q, current %q, reason %q; want %q, %q", is.State, is.Current, is.Reason, state, current)
	}
	if len(reason) == 0 && is.Reason != "" {
		t.Errorf("the node gives a reason: %q", is.Reason)
	}
	for _, r := range reason {
		if !strings.Contains(is.Reason, r) {
			t.Errorf("the reason %q does not say %q", is.Reason, r)
		}
	}
}

// rig is a node with its cluster.
type rig struct {
	t *testing.T
	c *cluster
	m *hosttest.Machine
	a *agent.Agent
	// log is all that was logged.
	log strings.Builder
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, c: newCluster(), m: hosttest.NewMachine()}
	r.c.add(t, "rendered-a", file("/etc/containers/policy.json", "a"))
	r.c.add(t, "rendered-b", file("/etc/containers/policy.json", "b"))
	r.start(r.m.Host())
	return r
}

// start is a daemon that starts anew.
func (r *rig) start(h host.Host) {
	r.a = agent.New(agent.Config{Node: "worker-0", Cluster: r.c, Host: h, Log: slog.New(slog.NewTextHandler(io.MultiWriter(r.t.Output(), &r.log), nil))})
}

// settle syncs until nothing is left to do but to wait for somebody else; reboots happen.
func (r *rig) settle() error {
	var err error
	for range 10 {
		select {
		case <-r.c.changed:
		default:
		}
		if _, err = r.a.Sync(r.t.Context()); errors.Is(err, agent.ErrRebooting) {
			r.start(r.m.Host())
			continue
		}
		if len(r.c.changed) == 0 || err != nil {
			return err
		}
	}
	r.t.Fatal("it never came to rest")
	return err
}

// disk is a file's contents.
func (r *rig) disk(p string) string {
	text, err := r.m.Host().Files.Read(p)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func file(p, text string) string {
	return fmt.Sprintf(`"storage":{"files":[{"path":%q,"overwrite":true,"contents":{"source":"data:,%s"}}]}`, p, text)
}
