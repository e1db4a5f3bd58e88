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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/bench/flow"
	"github.com/bunsen-os/bunsen/bench/machines"
)

// result is the cost of one rollout.
type result struct {
	what  string
	nodes int
	wall  time.Duration
	// cpu is the user and system time of the controller; peak is the maximum of its memory.
	cpu  time.Duration
	peak uint64
	// syncs is how often the controller reconciled the pool, and took the total time of that.
	syncs int
	took  time.Duration
	requests
}

// cluster is a measured cluster.
type cluster struct {
	*flow.Flow
	nodes int
}

// rollOut starts all processes, and rolls out two changes: one without a policy, and one with it.
func rollOut(ctx context.Context, o options, nodes int, dir string) (results []result, err error) {
	f, err := flow.Start(ctx, o.files, dir, auditPolicy)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Stop()) }()
	f.Limit = o.limit
	c := &cluster{Flow: f, nodes: nodes}
	fleet, err := machines.New(f.Plane.Admin)
	if err != nil {
		return nil, err
	}
	if err := c.settle(ctx, fleet); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, f.Controller.Tail())
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
			if err := f.Admin.Create(ctx, way.policy); err != nil {
				return nil, err
			}
		}
		r, err := c.once(ctx, way.what, i)
		if err != nil {
			return nil, fmt.Errorf("rolling out (%s): %w: %w\n%s", way.what, err, context.Cause(ctx),
				f.Controller.Tail())
		}
		results = append(results, r)
	}
	return results, nil
}

// carefully returns a policy that uses most fields.
func carefully() *v1alpha1.RolloutPolicy {
	few, zone := intstr.FromString("1%"), intstr.FromString("20%")
	p := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "carefully"}}
	p.Spec.Pools = []string{flow.Pool}
	p.Spec.Canary = &v1alpha1.RolloutCanary{Nodes: &few, Soak: metav1.Duration{Duration: time.Second}}
	p.Spec.Batches = []v1alpha1.RolloutBatch{{UpTo: intstr.FromString("10%")}, {UpTo: intstr.FromString("50%")}}
	p.Spec.MaxUnavailablePerZone = &zone
	p.Spec.Gates = []v1alpha1.HealthGate{{
		Name:  "ready",
		Ready: &v1alpha1.ReadyGate{For: metav1.Duration{Duration: time.Second}},
	}}
	p.Spec.Windows = []v1alpha1.MaintenanceWindow{{
		Name: "not at midnight", Kind: v1alpha1.WindowDeny,
		Schedule: "0 0 1 1 *", Duration: metav1.Duration{Duration: time.Minute},
	}}
	return p
}

// settle brings the pool and its nodes to a first config.
func (f *cluster) settle(ctx context.Context, fleet *machines.Fleet) error {
	if err := f.Admin.Create(ctx, machineConfig("00-worker", "first")); err != nil {
		return err
	}
	p, err := f.Until(ctx, func(p *mcfgv1.MachineConfigPool) bool { return p.Spec.Configuration.Name != "" })
	if err != nil {
		return fmt.Errorf("waiting for the first config: %w", err)
	}
	before := p.DeepCopy()
	tenth := intstr.FromString("10%")
	p.Spec.MaxUnavailable = &tenth
	if err := f.Admin.Patch(ctx, p, client.MergeFrom(before)); err != nil {
		return err
	}
	first := func(string) string { return p.Spec.Configuration.Name }
	if err := fleet.Join(ctx, f.nodes, first); err != nil {
		return err
	}
	_, err = f.Until(ctx, func(p *mcfgv1.MachineConfigPool) bool {
		return flow.Runs(p, p.Spec.Configuration.Name, f.nodes)
	})
	if err != nil {
		return fmt.Errorf("waiting for the nodes to be seen: %w", err)
	}
	return nil
}

// once rolls out a change to all nodes, and measures it.
func (f *cluster) once(ctx context.Context, what string, number int) (result, error) {
	r := result{what: what, nodes: f.nodes, requests: newRequests()}
	syncs, took, err := countSyncs(ctx, f.Controller)
	if err != nil {
		return r, err
	}
	p, err := f.Until(ctx, func(*mcfgv1.MachineConfigPool) bool { return true })
	if err != nil {
		return r, err
	}
	was, begun := p.Spec.Configuration.Name, time.Now()
	used, err := f.Charge(func() error {
		if err := f.Admin.Create(ctx, machineConfig(fmt.Sprintf("50-change-%d", number), what)); err != nil {
			return err
		}
		_, err := f.Until(ctx, func(p *mcfgv1.MachineConfigPool) bool {
			return p.Spec.Configuration.Name != was && flow.Runs(p, p.Spec.Configuration.Name, f.nodes)
		})
		r.wall = time.Since(begun)
		return err
	}, r.add)
	if err != nil {
		return r, err
	}
	r.cpu, r.peak = used.CPU, used.Peak
	all, allTook, err := countSyncs(ctx, f.Controller)
	r.syncs, r.took = all-syncs, allTook-took
	return r, err
}

// each is the CPU time of the controller for one node.
func (r result) each() time.Duration { return r.cpu / time.Duration(r.nodes) }

// machineConfig returns a MachineConfig with one file.
func machineConfig(name, text string) *mcfgv1.MachineConfig {
	config := map[string]any{
		"ignition": map[string]any{"version": v1alpha1.IgnitionVersion},
		"storage": map[string]any{"files": []any{map[string]any{
			"path": "/etc/" + name, "mode": 0o644, "contents": map[string]any{"source": "data:," +
				fmt.Sprintf("%x", text)},
		}}},
	}
	raw, err := json.Marshal(config)
	if err != nil {
		raw = nil // unreachable: texts and numbers always marshal
	}
	return &mcfgv1.MachineConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.RoleLabel: flow.Pool}},
		Spec:       mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: raw}},
	}
}
