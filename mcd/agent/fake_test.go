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
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/agent"

	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/health"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// cluster is one that lives in memory and does what the drain controller would.
type cluster struct {
	annotations map[string]string
	configs     map[string]mcfgv1.MachineConfig
	// drift is the drift policy of the pool; driftAway makes it unreachable.
	drift     drift.Policy
	driftAway bool
	rules     plan.Rules
	// drains: what is asked for is acknowledged at once.
	drains bool
	// uncordoned: somebody uncordoned the node after its last drain. recordoned: and cordoned it again.
	uncordoned, recordoned bool
	// down: nothing can be reached.
	down error
	// onReport is called with each report.
	onReport func(report string)
	// told are all reports in order, without the common prefix.
	told []string
	// onSecrets answers for the servers of secrets; asked counts the requests.
	onSecrets func(config string) (v1alpha1.NodeSecrets, error)
	asked     int
	// changed is signalled after each report.
	changed chan struct{}
	// calls counts them; from number failFrom on, if it is set, none is answered.
	calls, failFrom int
	// last is a report after which the cluster goes down, and how.
	last    string
	lastErr error
}

// downAt lets the cluster go down once a key was reported.
func (c *cluster) downAt(key string, how error) { c.last, c.lastErr = key, how }

func newCluster() *cluster {
	return &cluster{
		annotations: map[string]string{}, configs: map[string]mcfgv1.MachineConfig{}, drains: true,
		rules: plan.Rules{Policy: disruption.Default()}, changed: make(chan struct{}, 1),
	}
}

func (c *cluster) Node(context.Context) (report.Node, error) {
	if err := c.away(); err != nil {
		return report.Node{}, err
	}
	n := report.NodeOf(c.annotations)
	n.Unschedulable = strings.HasPrefix(n.LastAppliedDrain, "drain-") && !c.uncordoned
	n.Recordoned = n.Unschedulable && c.recordoned
	return n, nil
}

// away is what a cluster says that cannot be reached.
func (c *cluster) away() error {
	c.calls++
	if c.failFrom > 0 && c.calls >= c.failFrom {
		return fmt.Errorf("%w: %w", report.ErrUnreachable, errRefused)
	}
	if c.down == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", report.ErrUnreachable, c.down)
}

func (c *cluster) SetAnnotations(_ context.Context, annotations map[string]string) error {
	if err := c.away(); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		c.annotations[key] = annotations[key]
		_, short, _ := strings.Cut(key, "/")
		c.told = append(c.told, fmt.Sprintf("%s=%s", short, annotations[key]))
		if c.onReport != nil {
			c.onReport(c.told[len(c.told)-1])
		}
		if short == c.last {
			c.down, c.last = c.lastErr, ""
		}
	}
	if want := c.annotations[v1alpha1.DesiredDrainAnnotation]; c.drains && want != "" &&
		want != c.annotations[v1alpha1.LastAppliedDrainAnnotation] {
		c.uncordoned = false
		c.annotations[v1alpha1.LastAppliedDrainAnnotation] = want
	}
	c.signal()
	return nil
}

// acknowledge drains the node as it was requested last.
func (c *cluster) acknowledge() {
	c.uncordoned = false
	c.annotations[v1alpha1.LastAppliedDrainAnnotation] = c.annotations[v1alpha1.DesiredDrainAnnotation]
	c.signal()
}

func (c *cluster) signal() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

func (c *cluster) Config(_ context.Context, name string) (mcfgv1.MachineConfig, error) {
	if err := c.away(); err != nil {
		return mcfgv1.MachineConfig{}, err
	}
	mc, ok := c.configs[name]
	if !ok {
		return mc, apierrors.NewNotFound(schema.GroupResource{Resource: "machineconfigs"}, name)
	}
	return mc, nil
}

// Secrets implements secrets.Source.
func (c *cluster) Secrets(_ context.Context, config string) (v1alpha1.NodeSecrets, error) {
	c.asked++
	if c.onSecrets != nil {
		return c.onSecrets(config)
	}
	return v1alpha1.NodeSecrets{}, report.ErrNoSecrets
}

func (c *cluster) Rules(context.Context) (plan.Rules, error) { return c.rules, c.away() }

func (c *cluster) DriftRules(context.Context, string) (drift.Policy, error) {
	if c.driftAway {
		return drift.Policy{}, report.ErrUnreachable
	}
	return c.drift, c.away()
}

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
	mc := mcfgv1.MachineConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: raw}},
	}
	for _, f := range change {
		f(&mc.Spec)
	}
	c.configs[name] = mc
}

// commit says which commit brought a config.
func (c *cluster) commit(name, hash, subject string) {
	mc := c.configs[name]
	mc.Annotations = map[string]string{
		v1alpha1.RevisionAnnotation: "main@sha1:" + hash, v1alpha1.CommitSubjectAnnotation: subject,
		v1alpha1.CommitAuthorAnnotation: "Alice <alice@example.org>",
	}
	c.configs[name] = mc
}

func (c *cluster) desire(name string) { c.annotations[v1alpha1.DesiredConfigAnnotation] = name }

// says compares the Node's annotations of the protocol with `state reason current desired`.
func (c *cluster) says(t *testing.T, state, current string, reason ...string) {
	t.Helper()
	is := report.NodeOf(c.annotations)
	if is.State != state || is.Current != current {
		t.Errorf("the node says state %q, current %q, reason %q; want %q, %q", is.State, is.Current, is.Reason, state,
			current)
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
	// health is the gate, nil for none; life is what it sees.
	health *agent.HealthOptions
	life   *life
	// events are all that were told, as `Reason message`.
	events    events
	counts    counts
	published published
	// reported counts the calls of Config.Reported.
	reported int
}

// counts is what was counted, as words.
type counts []string

// State implements Metrics.
func (c *counts) State(state, _ string) { *c = append(*c, "state "+state) }

// Update implements Metrics.
func (c *counts) Update(config string, err error) {
	*c = append(*c, fmt.Sprintf("update %s %v", config, err != nil))
}

// Drift implements Metrics.
func (c *counts) Drift(at time.Time) { *c = append(*c, fmt.Sprintf("drift %v", !at.IsZero())) }

// Reboot implements Metrics.
func (c *counts) Reboot(err error) { *c = append(*c, fmt.Sprintf("reboot %v", err != nil)) }

// Pivot implements Metrics.
func (c *counts) Pivot(err error) { *c = append(*c, fmt.Sprintf("pivot %v", err != nil)) }

// Boot implements Metrics.
func (c *counts) Boot(os, version string) { *c = append(*c, "boot "+os+" "+version) }

// events is a list of them.
type events []string

// Event implements Events.
func (e *events) Event(reason report.EventReason, message string) {
	*e = append(*e, string(reason)+" "+message)
}

// has tells that an event of a reason has all words.
func (e events) has(reason report.EventReason, words ...string) bool {
	return slices.ContainsFunc(e, func(s string) bool {
		return strings.HasPrefix(s, string(reason)+" ") && !slices.ContainsFunc(words, func(w string) bool {
			return !strings.Contains(s, w)
		})
	})
}

// life is what runs on a machine: by its disk, as it booted.
type life struct {
	m *hosttest.Machine
	// unitDies, kubeletDies and cutsOff are what a unit, the kubelet and the network do not live with.
	unitDies, kubeletDies, cutsOff poison
}

// poison is a text in a file; any text where it is empty. The zero value is none.
type poison struct{ path, text string }

func (l *life) has(p poison) bool {
	if p.path == "" {
		return false
	}
	text, err := l.m.Host().Files.Read(p.path)
	return err == nil && strings.Contains(string(text), p.text)
}

// Active implements HealthUnits.
func (l *life) Active(context.Context, string) (state, sub, result string, err error) {
	if l.has(l.unitDies) {
		return "failed", "failed", "exit-code", nil
	}
	return "active", "running", "success", nil
}

func (l *life) kubelet(context.Context) error {
	if l.has(l.kubeletDies) {
		return errors.New("connection refused")
	}
	return nil
}

// heard is what an error of asking the cluster means: a machine that is cut off hears nothing, others know that it is
// down.
func (l *life) heard(err error) health.API {
	switch {
	case l.has(l.cutsOff):
		return health.NoAnswer
	case err == nil:
		return health.Answers
	case errors.Is(err, errSilent):
		return health.NoAnswer
	}
	return health.RefusedElsewhere
}

// errRefused is a cluster that is down, on machines that are up.
var errRefused = errors.New("connection refused")

// errSilent is a cluster of which nothing is heard.
var errSilent = errors.New("i/o timeout")

// watched gives the rig a gate.
func (r *rig) watched() *life {
	r.life = &life{m: r.m}
	r.health = &agent.HealthOptions{Units: r.life, Kubelet: r.life.kubelet, API: r.life.heard}
	r.start(r.m.Host())
	return r.life
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, c: newCluster(), m: hosttest.NewMachine()}
	r.c.add(t, "rendered-a", file("/etc/containers/policy.json", "a"))
	r.c.add(t, "rendered-b", file("/etc/containers/policy.json", "b"))
	r.start(r.m.Host())
	t.Cleanup(func() {
		if strings.Contains(r.log.String(), "illegal transition") {
			t.Error("a phase followed another that it may not follow")
		}
	})
	return r
}

// start is a daemon that starts anew.
func (r *rig) start(h host.Host) {
	r.a = agent.New(agent.Config{
		Node: "worker-0", Cluster: r.c, Host: h, Health: r.health, Events: &r.events,
		Metrics: &r.counts, Status: &r.published, Log: r.logger(), Reported: func() { r.reported++ },
	})
}

func (r *rig) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(io.MultiWriter(r.t.Output(), &r.log), nil))
}

// syncOnce is one call of Sync, with the desired config and the error of its outcome.
func syncOnce(ctx context.Context, a *agent.Agent) (desired string, err error) {
	o := a.Sync(ctx)
	return o.Desired, o.Err
}

// settle syncs until nothing is left to do but to wait for somebody else; reboots happen.
func (r *rig) settle() error {
	var err error
	for range 10 {
		select {
		case <-r.c.changed:
		default:
		}
		if _, err = syncOnce(r.t.Context(), r.a); errors.Is(err, agent.ErrRebooting) {
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

// rest syncs, through reboots, until only the cluster is waited for.
func (r *rig) rest() {
	for range 10 {
		_, err := syncOnce(r.t.Context(), r.a)
		switch {
		case errors.Is(err, agent.ErrRebooting):
			r.start(r.m.Host())
		case errors.Is(err, report.ErrUnreachable):
			return
		case err != nil:
			r.t.Fatal(err)
		}
	}
	r.t.Fatal("it never came to rest")
}

// disk is a file's contents.
func (r *rig) disk(p string) string {
	text, err := r.m.Host().Files.Read(p)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (r *rig) tree() string { return treeOf(r.m) }

// treeOf is a machine's disk without the daemon's own state.
func treeOf(m *hosttest.Machine) string {
	var b strings.Builder
	for line := range strings.Lines(m.Tree()) {
		if !strings.HasPrefix(line, host.StateDir) {
			b.WriteString(line)
		}
	}
	return b.String()
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
