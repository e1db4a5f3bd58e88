package repository

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/membership"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/reconcile/drain"
	"github.com/bunsen-os/bunsen/reconcile/revision"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

type clusterState struct {
	pools   []mcfgv1.MachineConfigPool
	configs []mcfgv1.MachineConfig
	// of each pool
	nodes map[string][]string
	// the one that follows the compared repository; nil if there is none
	source *v1alpha1.GitSource
	// nil if there is none
	disruption *operatorv1.MachineConfiguration
	// RolloutPolicies and DriftPolicies
	policies []*unstructured.Unstructured
	// the nodes of each pool whose pods no other node of the cluster can run
	alone map[string][]string
}

// fromCluster uses the running configs as the base, and reads facts that the flags do not give. It adds to head what
// the controller also merges and the repository does not have: MachineConfigs created through the API, other pools, the
// disruption policy.
func (c DiffOptions) fromCluster(ctx context.Context, memory *review.Renderings, head *side,
	facts review.Facts,
) (side, error) {
	r, err := c.readCluster(ctx)
	if err != nil {
		return side{}, err
	}
	base := side{
		Side: review.Side{
			Name: "the cluster", Pools: map[string]review.Pool{}, Commit: r.commit(), Policy: disruption.Default(),
			Declared: r.pools,
		},
	}
	live := map[string]*mcfgv1.MachineConfig{}
	for i := range r.configs {
		live[r.configs[i].Name] = &r.configs[i]
	}
	if base.Marks, err = r.marks(); err != nil {
		return side{}, cli.Invalid(err)
	}
	for i := range r.pools {
		p := &r.pools[i]
		pool, err := runningPool(p, live)
		if err != nil {
			return side{}, cli.Invalid(err)
		}
		base.Pools[p.Name] = pool
	}
	if err := r.addFacts(facts, head.rolloutPolicies()); err != nil {
		return side{}, err
	}
	if r.disruption != nil {
		if base.Policy, err = disruption.FromSpec(r.disruption.Spec.NodeDisruptionPolicy); err != nil {
			return side{}, cli.Invalid(fmt.Errorf("reading MachineConfiguration cluster: %w", err))
		}
		base.Overrides = disruption.OverridesOf(r.disruption)
	}
	if base.Objects, err = r.objects(head.result.Cluster); err != nil {
		return side{}, cli.Invalid(err)
	}
	return base, c.addFromCluster(memory, head, base, r)
}

// addFacts adds the facts about the cluster's pools that the flags do not give. A policy of the parameter replaces the
// cluster's of that name, and the compared repository's own ones go when it does not have them.
func (r clusterState) addFacts(facts review.Facts, policies []v1alpha1.RolloutPolicy) error {
	for _, o := range r.policies {
		var p v1alpha1.RolloutPolicy
		has := slices.ContainsFunc(policies, func(p v1alpha1.RolloutPolicy) bool { return p.Name == o.GetName() })
		if o.GetKind() == rolloutPolicy.Kind && !has && !r.isFromSource(o) &&
			runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &p) == nil {
			policies = append(policies, p)
		}
	}
	for i := range r.pools {
		p := &r.pools[i]
		if _, given := facts.Pools[p.Name]; given {
			continue
		}
		known, err := review.FactsOf(p, r.nodes[p.Name], poolstate.MostAtOnce(p, policies))
		if err != nil {
			return cli.Invalid(fmt.Errorf("reading MachineConfigPool %s: %w", p.Name, err))
		}
		known.Alone = r.alone[p.Name]
		facts.Pools[p.Name] = known
	}
	return nil
}

func (c DiffOptions) readCluster(ctx context.Context) (clusterState, error) {
	conn, err := c.cluster.Connect()
	if err != nil {
		return clusterState{}, err
	}
	var pools mcfgv1.MachineConfigPoolList
	if err := conn.List(ctx, &pools); err != nil {
		return clusterState{}, kube.ReadError("MachineConfigPools", err)
	}
	var configs mcfgv1.MachineConfigList
	if err := conn.List(ctx, &configs); err != nil {
		return clusterState{}, kube.ReadErrorFor(kube.ConfigViewerRole, "MachineConfigs", err)
	}
	var sources v1alpha1.GitSourceList
	if err := conn.List(ctx, &sources); err != nil && !meta.IsNoMatchError(err) {
		return clusterState{}, kube.ReadError("GitSources", err)
	}
	out := clusterState{pools: pools.Items, configs: configs.Items}
	if err := out.readNodes(ctx, conn); err != nil {
		return clusterState{}, err
	}
	if out.source, err = c.sourceOf(sources.Items); err != nil {
		return clusterState{}, cli.Invalid(err)
	}
	rules := &operatorv1.MachineConfiguration{}
	switch err := conn.Get(ctx, client.ObjectKey{Name: "cluster"}, rules); {
	case err == nil:
		out.disruption = rules
	case !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err):
		return clusterState{}, kube.ReadError("MachineConfiguration cluster", err)
	}
	return out, out.readPolicies(ctx, conn)
}

func (r *clusterState) readNodes(ctx context.Context, conn client.Reader) error {
	var list corev1.NodeList
	if err := conn.List(ctx, &list); err != nil {
		return kube.ReadError("Nodes", err)
	}
	objects := make([]*mcfgv1.MachineConfigPool, len(r.pools))
	for i := range r.pools {
		objects[i] = &r.pools[i]
	}
	members := membership.New(objects)
	r.nodes, r.alone = map[string][]string{}, map[string][]string{}
	for i := range list.Items {
		n := &list.Items[i]
		// The rollout leaves a node alone that no pool or several pools have, so a forecast has none for it.
		if pool, _, err := members.For(n.Name, n.Labels); err == nil && pool != "" {
			r.nodes[pool] = append(r.nodes[pool], n.Name)
			if drain.IsAlone(list.Items, n.Name) {
				r.alone[pool] = append(r.alone[pool], n.Name)
			}
		}
	}
	return nil
}

// sourceOf returns the GitSource that follows the compared repository; nil if none matches, and then all objects of the
// cluster stay.
func (c DiffOptions) sourceOf(sources []v1alpha1.GitSource) (*v1alpha1.GitSource, error) {
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
		return nil, fmt.Errorf("the cluster follows several repositories (%s): say with --source which of them this "+
			"one is, or --source %s for none of them", have, notFollowed)
	default:
		return nil, fmt.Errorf("--source %s: the cluster has no GitSource of that name; it has: %s; --source %s is "+
			"for a repository that it does not follow yet", c.source, cmp.Or(have, "none"), notFollowed)
	}
}

// notFollowed is the value of --source for a repository that no GitSource follows.
const notFollowed = "-"

// isFromSource reports whether the compared repository created an object, so that it goes when a user removes it there.
func (r clusterState) isFromSource(o client.Object) bool {
	return r.source != nil && o.GetLabels()[v1alpha1.SourceLabel] == r.source.Name &&
		(r.source.Spec.Prune == nil || *r.source.Spec.Prune)
}

// commit returns the commit of the pools whose configs come from the source; nil if their commits differ or one is
// unknown.
func (r clusterState) commit() *review.Commit {
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

func runningPool(p *mcfgv1.MachineConfigPool, live map[string]*mcfgv1.MachineConfig) (review.Pool, error) {
	name := p.Spec.Configuration.Name
	if name == "" {
		return review.Pool{}, nil // The pool is new, and has no rendered config yet.
	}
	mc := live[name]
	if mc == nil {
		return review.Pool{}, fmt.Errorf("reading MachineConfigPool %s: its config %s is not on the cluster", p.Name,
			name)
	}
	pool, err := review.LivePool(p.Name, mc)
	if err != nil {
		return review.Pool{}, err
	}
	return review.WithLiveNodes(pool, mc, live)
}

// addFromCluster renders head again together with the MachineConfigs that only the cluster has.
func (c DiffOptions) addFromCluster(memory *review.Renderings, head *side, base side, r clusterState) error {
	var layers []*mcfgv1.MachineConfig
	for i := range r.configs {
		if mc := &r.configs[i]; !r.isFromSource(mc) && !strings.HasPrefix(mc.Name, "rendered-") {
			layers = append(layers, mc)
		}
	}
	result := head.result
	ours := func(kind, name string) bool {
		return slices.ContainsFunc(result.Cluster, func(o transpile.ClusterObject) bool {
			return o.Object.GetKind() == kind && o.Object.GetName() == name
		})
	}
	var kept []transpile.ClusterObject
	for i := range r.pools {
		p := &r.pools[i]
		if ours("MachineConfigPool", p.Name) || r.isFromSource(p) && p.Name != "master" && p.Name != "worker" {
			continue
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
		if err != nil {
			return fmt.Errorf("reading MachineConfigPool %s: %w", p.Name, err)
		}
		u := &unstructured.Unstructured{Object: content}
		u.SetGroupVersionKind(mcfgv1.GroupVersion.WithKind("MachineConfigPool"))
		kept = append(kept, transpile.ClusterObject{Object: u, File: "the cluster"})
	}
	result.Cluster = slices.Concat(result.Cluster, kept)
	rendering := review.Render(result, &memory.Renderer, c.defaults, layers)
	if rendering.Err != nil {
		return cli.Invalid(fmt.Errorf("rendering with what the cluster has besides: %w", rendering.Err))
	}
	pools := rendering.Side(head.Name)
	head.Pools, head.Declared, head.Marks = pools.Pools, pools.Declared, pools.Marks
	if r.disruption != nil && !r.isFromSource(r.disruption) && !ours("MachineConfiguration", r.disruption.Name) {
		head.Policy, head.Overrides = base.Policy, base.Overrides
		head.PolicyFile = "MachineConfiguration cluster"
	}
	return nil
}

// The kinds that the cluster/ directory of a repository may contain.
var (
	poolKind       = mcfgv1.GroupVersion.WithKind("MachineConfigPool")
	rulesKind      = operatorv1.GroupVersion.WithKind("MachineConfiguration")
	rolloutPolicy  = v1alpha1.GroupVersion.WithKind("RolloutPolicy")
	driftPolicy    = v1alpha1.GroupVersion.WithKind("DriftPolicy")
	imageSet       = mcfgv1.GroupVersion.WithKind("PinnedImageSet")
	writtenByOther = [][]string{{"status"}, {"spec", "configuration"}, {"spec", "paused"}}
)

func (r *clusterState) readPolicies(ctx context.Context, c client.Reader) error {
	for _, kind := range []schema.GroupVersionKind{rolloutPolicy, driftPolicy, imageSet} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := c.List(ctx, list); err != nil && !meta.IsNoMatchError(err) {
			return kube.ReadError(kind.Kind+" objects", err)
		}
		for i := range list.Items {
			r.policies = append(r.policies, &list.Items[i])
		}
	}
	return nil
}

// objects returns the cluster's objects that the compared repository created or that head also has, as a repository has
// them: without fields that neither of them sets, such as defaults of the API server.
func (r clusterState) objects(head []transpile.ClusterObject) (out []transpile.ClusterObject, err error) {
	of := map[string]transpile.ClusterObject{}
	for _, o := range head {
		of[o.Object.GetKind()+" "+o.Object.GetName()] = o
	}
	add := func(kind schema.GroupVersionKind, o client.Object) error {
		ours, has := of[kind.Kind+" "+o.GetName()]
		switch {
		case !has && !r.isFromSource(o):
			return nil
		case has && o.GetAnnotations()[v1alpha1.DigestAnnotation] == ours.Digest:
			out = append(out, ours)
			return nil
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return fmt.Errorf("reading %s %s: %w", kind.Kind, o.GetName(), err)
		}
		live := &unstructured.Unstructured{Object: content}
		live.SetGroupVersionKind(kind)
		wanted, err := wantedOf(live)
		if err != nil {
			return err
		}
		if wanted != nil && new(revision.Digests).OfObject(live) != "" {
			live = wanted // As the repository wrote it, so that 90m is no change to 1h30m0s.
		}
		for _, field := range writtenByOther {
			unstructured.RemoveNestedField(live.Object, field...)
		}
		keepFields(live, wanted, ours.Object)
		live.SetLabels(userEntries(live.GetLabels()))
		live.SetAnnotations(userEntries(live.GetAnnotations()))
		out = append(out, transpile.ClusterObject{Object: live, File: "the cluster"})
		return nil
	}
	for i := range r.pools {
		if err := add(poolKind, &r.pools[i]); err != nil {
			return nil, err
		}
	}
	if r.disruption != nil {
		if err := add(rulesKind, r.disruption); err != nil {
			return nil, err
		}
	}
	for _, p := range r.policies {
		if err := add(p.GroupVersionKind(), p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// wantedOf returns what the repository required of a live object when it was applied last; nil if no source applied it.
func wantedOf(live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if live.GetAnnotations()[v1alpha1.WantedAnnotation] == "" {
		return nil, nil
	}
	return revision.WantedObject(live)
}

// keepFields removes the fields of a spec that neither of two others has. Applying those leaves the fields as they are.
func keepFields(live, wanted, head *unstructured.Unstructured) {
	spec, isMap := live.Object["spec"].(map[string]any)
	if !isMap {
		return
	}
	of := func(o *unstructured.Unstructured) map[string]any {
		if o == nil {
			return nil
		}
		fields, _ := o.Object["spec"].(map[string]any)
		return fields
	}
	before, after := of(wanted), of(head)
	maps.DeleteFunc(spec, func(field string, _ any) bool {
		_, was := before[field]
		_, is := after[field]
		return !was && !is
	})
}

func userEntries(entries map[string]string) map[string]string {
	out := maps.Clone(entries)
	maps.DeleteFunc(out, func(key, _ string) bool {
		return strings.HasPrefix(key, "bunsen.dev/") && key != disruption.InPlaceAnnotation ||
			strings.HasPrefix(key, "kubectl.kubernetes.io/")
	})
	return out
}

func (r clusterState) marks() (review.Marks, error) {
	out := review.Marks{}
	for i := range r.pools {
		if err := out.Add(poolKind.Kind, r.pools[i].Name, r.pools[i].Annotations); err != nil {
			return nil, err
		}
	}
	if r.disruption == nil {
		return out, nil
	}
	return out, out.Add(rulesKind.Kind, r.disruption.Name, r.disruption.Annotations)
}
