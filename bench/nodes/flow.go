package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/bench/flow"
	"github.com/bunsen-os/bunsen/bench/machines"
	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/bench/plane"
)

// result is the cost of a pool of one size.
type result struct {
	nodes int
	// objects and bytes are the MachineConfigs after the first commit. target is the size of the config of the pool.
	objects, bytes, target int
	// etcd is the size of the database after the first commit.
	etcd  int64
	steps []step
}

// step is the cost of one change.
type step struct {
	what string
	// rendered and updated are the times from the commit until the pool has its config, and until all nodes run theirs.
	rendered, updated time.Duration
	cpu               time.Duration
	peak              uint64
	// created are the MachineConfigs that the controller created. moved are the nodes that were assigned a config.
	created, moved int
}

// oneRow is the change of a fact of one node.
const oneRow = "one row"

// cluster is a measured cluster.
type cluster struct {
	*flow.Flow
	repo repository
}

// measureSize starts all processes, and measures a pool of one size.
func measureSize(ctx context.Context, o options, nodes int) (r result, err error) {
	r.nodes = nodes
	dir, done, err := measure.Scratch()
	if err != nil {
		return r, err
	}
	defer done()
	f, err := flow.Start(ctx, o.files, dir, auditPolicy)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, f.Stop()) }()
	f.Limit = o.limit
	c := &cluster{Flow: f, repo: repository{dir: filepath.Join(dir, "repository"), nodes: nodes, content: o.content}}
	if err := c.all(ctx, &r); err != nil {
		return r, fmt.Errorf("%w\n%s", err, f.Controller.Tail())
	}
	return r, nil
}

// all measures the first commit, one row, and the document.
func (f *cluster) all(ctx context.Context, r *result) error {
	fleet, err := machines.New(f.Plane.Admin)
	if err != nil {
		return err
	}
	first, err := f.first(ctx, fleet, r)
	if err != nil {
		return fmt.Errorf("the first commit: %w", err)
	}
	r.steps = append(r.steps, first)
	ctx, stop := context.WithCancelCause(ctx)
	lived := make(chan struct{})
	go func() { defer close(lived); stop(fleet.Run(ctx)) }()
	defer func() { stop(nil); <-lived }()
	f.repo.first++
	row, err := f.once(ctx, oneRow)
	if err != nil {
		return fmt.Errorf("one row: %w: %w", err, context.Cause(ctx))
	}
	f.repo.gateway++
	document, err := f.once(ctx, "the document")
	if err != nil {
		return fmt.Errorf("the document: %w: %w", err, context.Cause(ctx))
	}
	r.steps = append(r.steps, row, document)
	return nil
}

// first renders the first commit, and then creates the nodes, which run their own configs.
func (f *cluster) first(ctx context.Context, fleet *machines.Fleet, r *result) (step, error) {
	if err := f.repo.init(ctx); err != nil {
		return step{}, err
	}
	var target string
	s, err := f.charge("the first commit", func(begun time.Time, s *step) error {
		hash, err := f.repo.commit(ctx, "the first commit")
		if err != nil {
			return err
		}
		if err := f.Follow(ctx, f.repo.dir); err != nil {
			return err
		}
		target, err = f.Rendered(ctx, hash)
		s.rendered = time.Since(begun)
		return err
	})
	if err != nil {
		return s, err
	}
	of, err := f.size(ctx, r, target)
	if err != nil {
		return s, err
	}
	p := &mcfgv1.MachineConfigPool{}
	if err := f.Admin.Get(ctx, client.ObjectKey{Name: flow.Pool}, p); err != nil {
		return s, err
	}
	before, tenth := p.DeepCopy(), intstr.FromString("10%")
	p.Spec.MaxUnavailable = &tenth
	if err := f.Admin.Patch(ctx, p, client.MergeFrom(before)); err != nil {
		return s, err
	}
	if err := fleet.Join(ctx, r.nodes, of.Of); err != nil {
		return s, err
	}
	return s, f.updated(ctx, target)
}

// size reads how much the first commit stores. It returns the configs of the nodes.
func (f *cluster) size(ctx context.Context, r *result, target string) (v1alpha1.NodeConfigs, error) {
	var list mcfgv1.MachineConfigList
	if err := f.Admin.List(ctx, &list); err != nil {
		return v1alpha1.NodeConfigs{}, err
	}
	var of v1alpha1.NodeConfigs
	for i := range list.Items {
		mc := &list.Items[i]
		size := len(mc.Spec.Config.Raw)
		for key, value := range mc.Annotations {
			size += len(key) + len(value)
		}
		r.objects, r.bytes = r.objects+1, r.bytes+size
		if mc.Name == target {
			var err error
			if of, err = v1alpha1.ParseNodeConfigs(mc.Annotations[v1alpha1.NodeConfigsAnnotation]); err != nil {
				return of, err
			}
			r.target = size
		}
	}
	if len(of.Nodes) != r.nodes {
		return of, fmt.Errorf("%s has %d nodes with configs of their own, not %d", target, len(of.Nodes), r.nodes)
	}
	var err error
	r.etcd, err = f.Plane.StorageSize(ctx)
	return of, err
}

// once commits a change, and measures it until all nodes run their configs.
func (f *cluster) once(ctx context.Context, what string) (step, error) {
	return f.charge(what, func(begun time.Time, s *step) error {
		hash, err := f.repo.commit(ctx, what)
		if err != nil {
			return err
		}
		target, err := f.Rendered(ctx, hash)
		if err != nil {
			return err
		}
		s.rendered = time.Since(begun)
		if err := f.updated(ctx, target); err != nil {
			return err
		}
		s.updated = time.Since(begun)
		return nil
	})
}

// charge measures the controller during a change.
func (f *cluster) charge(what string, do func(begun time.Time, s *step) error) (step, error) {
	s, moved := step{what: what}, map[string]bool{}
	used, err := f.Charge(func() error { return do(time.Now(), &s) }, func(r plane.Request) {
		switch {
		case r.String() == "create machineconfigs" && r.ResponseStatus.Code < 300:
			s.created++
		case r.String() == "patch nodes" && strings.Contains(string(r.RequestObject), "/desiredConfig"):
			moved[r.ObjectRef.Name] = true
		}
	})
	s.cpu, s.peak, s.moved = used.CPU, used.Peak, len(moved)
	return s, err
}

// updated waits until each node runs its config.
func (f *cluster) updated(ctx context.Context, target string) error {
	_, err := f.Until(ctx, func(p *mcfgv1.MachineConfigPool) bool { return flow.Runs(p, target, f.repo.nodes) })
	return err
}
