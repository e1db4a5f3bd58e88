package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/bench/machines"
	"github.com/bunsen-os/bunsen/bench/plane"
	"github.com/bunsen-os/bunsen/reconcile/controller"
)

// result is the cost of one rollout.
type result struct {
	what string
	wall time.Duration
	// cpu is the user and system time of the controller; peak is the maximum of its memory.
	cpu  time.Duration
	peak uint64
	// syncs is how often the controller reconciled the pool, and took the total time of that.
	syncs int
	took  time.Duration
	requests
}

// flow is a measured cluster.
type flow struct {
	options
	plane *plane.Plane
	child *plane.Controller
	admin client.Client
	read  int64 // position in the audit log
}

// rollOut starts all processes, and rolls out two changes: one without a policy, and one with it.
func rollOut(ctx context.Context, o options, dir string) (results []result, err error) {
	p, err := plane.Start(o.files, dir, auditPolicy)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	c, err := p.StartController(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Stop()
	scheme, err := controller.Scheme()
	if err != nil {
		return nil, err
	}
	f := &flow{options: o, plane: p, child: c}
	if f.admin, err = client.New(p.Admin, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	fleet, err := machines.New(p.Admin)
	if err != nil {
		return nil, err
	}
	if err := f.settle(ctx, fleet); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, c.Tail())
	}
	ctx, stop := context.WithCancelCause(ctx)
	lived := make(chan struct{})
	go func() { defer close(lived); stop(fleet.Run(ctx)) }()
	defer func() { stop(nil); <-lived }()
	for i, way := range []struct {
		what   string
		policy *v1alpha1.RolloutPolicy
	}{{"no policy", nil}, {"canary, batches, zones", carefully()}} {
		if way.policy != nil {
			if err := f.admin.Create(ctx, way.policy); err != nil {
				return nil, err
			}
		}
		r, err := f.once(ctx, way.what, i)
		if err != nil {
			return nil, fmt.Errorf("rolling out (%s): %w: %w\n%s", way.what, err, context.Cause(ctx), c.Tail())
		}
		results = append(results, r)
	}
	return results, nil
}

// carefully returns a policy that uses most fields.
func carefully() *v1alpha1.RolloutPolicy {
	few, zone := intstr.FromString("1%"), intstr.FromString("20%")
	p := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "carefully"}}
	p.Spec.Pools = []string{pool}
	p.Spec.Canary = &v1alpha1.RolloutCanary{Nodes: &few, Soak: metav1.Duration{Duration: time.Second}}
	p.Spec.Batches = []v1alpha1.RolloutBatch{{UpTo: intstr.FromString("10%")}, {UpTo: intstr.FromString("50%")}}
	p.Spec.MaxUnavailablePerZone = &zone
	p.Spec.Gates = []v1alpha1.HealthGate{{Name: "ready", Ready: &v1alpha1.ReadyGate{For: metav1.Duration{Duration: time.Second}}}}
	p.Spec.Windows = []v1alpha1.MaintenanceWindow{{Name: "not at midnight", Kind: v1alpha1.WindowDeny, Schedule: "0 0 1 1 *", Duration: metav1.Duration{Duration: time.Minute}}}
	return p
}

// pool is the measured pool.
const pool = "worker"

// settle brings the pool and its nodes to a first config.
func (f *flow) settle(ctx context.Context, fleet *machines.Fleet) error {
	if err := f.admin.Create(ctx, machineConfig("00-worker", "first")); err != nil {
		return err
	}
	p, err := f.until(ctx, func(p *mcfgv1.MachineConfigPool) bool { return p.Spec.Configuration.Name != "" })
	if err != nil {
		return fmt.Errorf("waiting for the first config: %w", err)
	}
	before := p.DeepCopy()
	tenth := intstr.FromString("10%")
	p.Spec.MaxUnavailable = &tenth
	if err := f.admin.Patch(ctx, p, client.MergeFrom(before)); err != nil {
		return err
	}
	first := func(string) string { return p.Spec.Configuration.Name }
	if err := fleet.Join(ctx, f.nodes, first); err != nil {
		return err
	}
	_, err = f.until(ctx, func(p *mcfgv1.MachineConfigPool) bool { return f.done(p, p.Spec.Configuration.Name) })
	if err != nil {
		return fmt.Errorf("waiting for the nodes to be seen: %w", err)
	}
	return nil
}

// done reports whether every node runs a config.
func (f *flow) done(p *mcfgv1.MachineConfigPool, config string) bool {
	s := p.Status
	return s.Configuration.Name == config && int(s.UpdatedMachineCount) == f.nodes && int(s.ReadyMachineCount) == f.nodes
}

// until reads the pool until it meets a condition.
func (f *flow) until(ctx context.Context, is func(*mcfgv1.MachineConfigPool) bool) (*mcfgv1.MachineConfigPool, error) {
	p := &mcfgv1.MachineConfigPool{}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, f.limit, true, func(ctx context.Context) (bool, error) {
		err := f.admin.Get(ctx, client.ObjectKey{Name: pool}, p)
		return err == nil && is(p), client.IgnoreNotFound(err)
	})
	if err != nil {
		err = fmt.Errorf("%w; the pool has %d of %d nodes updated: %v", err, p.Status.UpdatedMachineCount, p.Status.MachineCount, p.Status.Conditions)
	}
	return p, err
}

// once rolls out a change to all nodes, and measures it.
func (f *flow) once(ctx context.Context, what string, number int) (result, error) {
	r := result{what: what}
	_, read, err := readRequests(f.plane, f.read)
	if err != nil {
		return r, err
	}
	before, err := f.child.Usage()
	if err != nil {
		return r, err
	}
	syncs, took, err := countSyncs(ctx, f.child)
	if err != nil {
		return r, err
	}
	p, err := f.until(ctx, func(*mcfgv1.MachineConfigPool) bool { return true })
	if err != nil {
		return r, err
	}
	was, begun := p.Spec.Configuration.Name, time.Now()
	if err := f.admin.Create(ctx, machineConfig(fmt.Sprintf("50-change-%d", number), what)); err != nil {
		return r, err
	}
	if _, err = f.until(ctx, func(p *mcfgv1.MachineConfigPool) bool {
		return p.Spec.Configuration.Name != was && f.done(p, p.Spec.Configuration.Name)
	}); err != nil {
		return r, err
	}
	r.wall = time.Since(begun)
	after, err := f.child.Usage()
	if err != nil {
		return r, err
	}
	r.cpu, r.peak = after.CPU-before.CPU, after.Peak
	all, allTook, err := countSyncs(ctx, f.child)
	if err != nil {
		return r, err
	}
	r.syncs, r.took = all-syncs, allTook-took
	r.requests, f.read, err = readRequests(f.plane, read)
	return r, err
}

// machineConfig returns a MachineConfig with one file.
func machineConfig(name, text string) *mcfgv1.MachineConfig {
	config := map[string]any{
		"ignition": map[string]any{"version": v1alpha1.IgnitionVersion},
		"storage": map[string]any{"files": []any{map[string]any{
			"path": "/etc/" + name, "mode": 0o644, "contents": map[string]any{"source": "data:," + fmt.Sprintf("%x", text)},
		}}},
	}
	raw, err := json.Marshal(config)
	if err != nil {
		raw = nil // unreachable: texts and numbers always marshal
	}
	return &mcfgv1.MachineConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.RoleLabel: pool}},
		Spec:       mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: raw}},
	}
}
