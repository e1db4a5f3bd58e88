package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/policy"
	"github.com/bunsen-os/bunsen/policy/secret"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/review"
	"github.com/bunsen-os/bunsen/review/lineage"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// running is what a cluster holds.
type running struct {
	pools   []mcfgv1.MachineConfigPool
	configs []mcfgv1.MachineConfig
	// source is the GitSource that follows the compared repository, nil where the cluster follows none.
	source *v1alpha1.GitSource
	// rules is the MachineConfiguration, nil where there is none.
	rules *operatorv1.MachineConfiguration
	// policies are the RolloutPolicies and DriftPolicies.
	policies []*unstructured.Unstructured
}

// fromCluster makes what runs now the base. It gives head what the cluster has besides the repository, as the controller
// does: MachineConfigs made through the API, other pools, the disruption policy. It fills facts that were not given by hand.
func (c comparing) fromCluster(ctx context.Context, memory *review.Renderings, head *compared, facts review.Facts) (compared, review.Facts, error) {
	r, err := c.look(ctx)
	if err != nil {
		return compared{}, facts, err
	}
	base := compared{Side: review.Side{Name: "the cluster", Pools: map[string]review.Pool{}, Commit: r.commit()}, policy: policy.Default(), pools: r.pools}
	live := map[string]*mcfgv1.MachineConfig{}
	for i := range r.configs {
		live[r.configs[i].Name] = &r.configs[i]
	}
	if base.Marks, err = r.marks(); err != nil {
		return compared{}, facts, invalid(err)
	}
	for i := range r.pools {
		p := &r.pools[i]
		if base.Pools[p.Name], err = runningPool(p, live); err != nil {
			return compared{}, facts, invalid(err)
		}
		if _, given := facts.Pools[p.Name]; given {
			continue
		}
		nodes := int(p.Status.MachineCount)
		most, err := rollout.MaxUnavailable(p.Name, p.Spec.MaxUnavailable, nodes)
		if err != nil {
			return compared{}, facts, invalid(fmt.Errorf("reading MachineConfigPool %s: %w", p.Name, err))
		}
		facts.Pools[p.Name] = review.PoolFacts{Nodes: nodes, MaxUnavailable: most, Paused: p.Spec.Paused}
	}
	if r.rules != nil {
		if base.policy, err = policy.FromSpec(r.rules.Spec.NodeDisruptionPolicy); err != nil {
			return compared{}, facts, invalid(fmt.Errorf("reading MachineConfiguration cluster: %w", err))
		}
		base.Overrides = policy.OverridesOf(r.rules)
	}
	if base.objects, err = r.objects(head.result.Cluster); err != nil {
		return compared{}, facts, invalid(err)
	}
	return base, facts, c.besides(memory, head, base, r)
}

// look reads the cluster once.
func (c comparing) look(ctx context.Context) (running, error) {
	conn, err := c.cluster.connect("table")
	if err != nil {
		return running{}, err
	}
	var pools mcfgv1.MachineConfigPoolList
	if err := conn.List(ctx, &pools); err != nil {
		return running{}, unread("MachineConfigPools", err)
	}
	var configs mcfgv1.MachineConfigList
	if err := conn.List(ctx, &configs); err != nil {
		return running{}, unreadFor(configViewerRole, "MachineConfigs", err)
	}
	var sources v1alpha1.GitSourceList
	if err := conn.List(ctx, &sources); err != nil && !meta.IsNoMatchError(err) {
		return running{}, unread("GitSources", err)
	}
	out := running{pools: pools.Items, configs: configs.Items}
	if out.source, err = c.follower(sources.Items); err != nil {
		return running{}, invalid(err)
	}
	rules := &operatorv1.MachineConfiguration{}
	switch err := conn.Get(ctx, client.ObjectKey{Name: "cluster"}, rules); {
	case err == nil:
		out.rules = rules
	case !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err):
		return running{}, unread("MachineConfiguration cluster", err)
	}
	return out, out.readPolicies(ctx, conn)
}

// follower is the GitSource that stands for the compared repository; nil where the cluster does not follow it yet, so that
// all that is there stays.
func (c comparing) follower(sources []v1alpha1.GitSource) (*v1alpha1.GitSource, error) {
	var names []string
	for i := range sources {
		if sources[i].Name == c.source || c.source == "" && len(sources) == 1 {
			return &sources[i], nil
		}
		names = append(names, sources[i].Name)
	}
	switch have := strings.Join(names, ", "); {
	case c.source == notFollowed || c.source == "" && len(names) == 0:
		return nil, nil
	case c.source == "":
		return nil, fmt.Errorf("the cluster follows several repositories (%s): say with --source which of them this one is, or --source %s for none of them", have, notFollowed)
	default:
		return nil, fmt.Errorf("--source %s: the cluster has no GitSource of that name; it has: %s; --source %s is for a repository that it does not follow yet", c.source, cmp.Or(have, "none"), notFollowed)
	}
}

// notFollowed is what --source says of a repository that no GitSource follows.
const notFollowed = "-"

// brings tells whether an object is there because of the compared repository, and goes when the repository has it no more.
func (r running) brings(o client.Object) bool {
	return r.source != nil && o.GetLabels()[v1alpha1.SourceLabel] == r.source.Name && (r.source.Spec.Prune == nil || *r.source.Spec.Prune)
}

// commit is the one that all pools were rendered from; nil where they differ, or where that is not known.
func (r running) commit() *review.Commit {
	hash := ""
	for i := range r.pools {
		a := r.pools[i].Annotations
		if r.source == nil || a[v1alpha1.SourceAnnotation] != r.source.Name {
			continue
		}
		revision, err := source.ParseRevision(a[v1alpha1.RevisionAnnotation])
		if err != nil || hash != "" && hash != revision.Hash {
			return nil
		}
		hash = revision.Hash
	}
	if hash == "" {
		return nil
	}
	return &review.Commit{Hash: hash}
}

// runningPool is what a pool's nodes are told to run.
func runningPool(p *mcfgv1.MachineConfigPool, live map[string]*mcfgv1.MachineConfig) (review.Pool, error) {
	name := p.Spec.Configuration.Name
	if name == "" {
		return review.Pool{}, nil // nothing is rendered yet: the pool comes
	}
	mc := live[name]
	if mc == nil {
		return review.Pool{}, fmt.Errorf("reading MachineConfigPool %s: its config %s is not on the cluster", p.Name, name)
	}
	config, err := machineconfig.Parse(mc.Spec)
	if err != nil {
		return review.Pool{}, fmt.Errorf("reading MachineConfig %s: %w", name, err)
	}
	values := sync.OnceValue(func() *lineage.Lineage {
		layers, err := lineage.LayersOf([]*mcfgv1.MachineConfig{mc}, nil)
		if err != nil {
			return nil // it was read above
		}
		return lineage.New(layers, lineage.Options{Pool: p.Name})
	})
	marked, err := secret.ParsePaths(mc.Annotations[v1alpha1.SecretPathsAnnotation])
	if err != nil {
		return review.Pool{}, fmt.Errorf("reading annotation %s of MachineConfig %s: %w", v1alpha1.SecretPathsAnnotation, name, err)
	}
	return review.Pool{Rendered: name, Config: config, Secrets: marked, Lineage: func(kind policy.ChangeKind, name string) (lineage.Item, bool) {
		if values() == nil {
			return lineage.Item{}, false
		}
		item, err := values().Explain(kind, name) // what wrote it is not known here, only what it is
		return item, err == nil
	}}, nil
}

// besides renders head again with what the cluster keeps though the repository does not have it.
func (c comparing) besides(memory *review.Renderings, head *compared, base compared, r running) error {
	var layers []*mcfgv1.MachineConfig
	for i := range r.configs {
		if mc := &r.configs[i]; !r.brings(mc) && !strings.HasPrefix(mc.Name, "rendered-") {
			layers = append(layers, mc)
		}
	}
	result := head.result
	ours := func(kind, name string) bool {
		return slices.ContainsFunc(result.Cluster, func(o transpile.ClusterObject) bool { return o.Object.GetKind() == kind && o.Object.GetName() == name })
	}
	var kept []transpile.ClusterObject
	for i := range r.pools {
		p := &r.pools[i]
		if ours("MachineConfigPool", p.Name) || r.brings(p) && p.Name != "master" && p.Name != "worker" {
			continue
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
		if err != nil {
			return fmt.Errorf("reading MachineConfigPool %s: %w", p.Name, err)
		}
		u := &unstructured.Unstructured{Object: content}
		u.SetGroupVersionKind(mcfgv1.GroupVersion.WithKind("MachineConfigPool"))
		kept = append(kept, transpile.ClusterObject{Object: u, File: "the cluster"})
		head.pools = append(head.pools, *p)
	}
	result.Cluster = slices.Concat(result.Cluster, kept)
	rendering := review.RenderWith(result, &memory.Renderer, c.defaults, layers)
	if rendering.Err != nil {
		return invalid(fmt.Errorf("rendering with what the cluster has besides: %w", rendering.Err))
	}
	side := rendering.Side(head.Name)
	side.Commit = head.Commit
	head.Side = side
	if r.rules != nil && !r.brings(r.rules) && !ours("MachineConfiguration", r.rules.Name) {
		head.policy, head.Overrides = base.policy, base.Overrides
		head.PolicyFile = "MachineConfiguration cluster"
	}
	return nil
}
