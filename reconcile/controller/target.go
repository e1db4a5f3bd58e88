package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/reconcile/revision"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/source"
)

// target is the record of who asked for a rendered config.
func target(ctx context.Context, r *Render, f renderFacts, rendered render.Rendered, src *v1alpha1.GitSource) (v1alpha1.PoolTarget, error) {
	was, err := v1alpha1.ParsePoolTarget(f.pool.Annotations[v1alpha1.TargetAnnotation])
	if err != nil || was.Config != f.pool.Spec.Configuration.Name { // a user changed the annotation or the pool's configuration
		was = v1alpha1.PoolTarget{Config: f.pool.Spec.Configuration.Name, Requester: v1alpha1.RequesterOf(f.pool.Annotations, f.pool.Spec.Configuration.Name)}
	}
	facts, err := targetFacts(r, f, was)
	if err != nil {
		return was, err
	}
	facts.Config, facts.Healthy = rendered.Name, rollout.HealthyConfig(f.pool)
	if src != nil {
		facts.Commit = *src.Status.AppliedCommit
	}
	if f.pool.Status.ObservedGeneration > 0 && f.pool.Status.MachineCount == 0 { // it has no nodes, so none can fail what is in force
		facts.Healthy = was.Config
	}
	next := revision.NextTarget(was, facts)
	if was.Config == "" {
		next, err = withEarlierRequest(ctx, r.Client, next)
	}
	if was.Config != next.Config {
		attributeNew(ctx, r.Live, &next, r.Now())
	}
	return next, err
}

// withEarlierRequest is the target of a pool without a record, as of one that was deleted while no controller ran: where changes through the
// API first asked for its config, and the commit that they came on is still in force, they asked for it and not that commit.
func withEarlierRequest(ctx context.Context, c client.Client, t v1alpha1.PoolTarget) (v1alpha1.PoolTarget, error) {
	mc := &mcfgv1.MachineConfig{}
	if err := c.Get(ctx, client.ObjectKey{Name: t.Config}, mc); err != nil {
		if err = client.IgnoreNotFound(err); err != nil {
			err = fmt.Errorf("reading MachineConfig %q: %w", t.Config, err)
		}
		return t, err
	}
	asked := v1alpha1.ParseConfigRequest(mc.Annotations[v1alpha1.RequestAnnotation], t.Config)
	if asked.ByAPI() && asked.Revision == t.Revision {
		t.Commit, t.Requester = t.Requester, asked
	}
	return t, nil
}

// targetFacts is what a pool is rendered from. was is its record before.
func targetFacts(r *Render, f renderFacts, was v1alpha1.PoolTarget) (revision.TargetFacts, error) {
	inputs, err := r.seen.Inputs(f.selected)
	if err != nil {
		return revision.TargetFacts{}, err
	}
	facts := revision.TargetFacts{Pool: f.pool.Name, Sources: map[string]string{}, Inputs: inputs}
	for name, owner := range f.sources {
		_, before := was.Sources[name]
		gives := slices.ContainsFunc(inputs, func(in v1alpha1.TargetInput) bool { return in.Source == name })
		if before || gives {
			facts.Sources[name] = owner.Status.AppliedRevision
		}
	}
	return facts, nil
}

// attributeNew fills in who made the changes of a target that are new, and when.
func attributeNew(ctx context.Context, live client.Reader, t *v1alpha1.PoolTarget, now time.Time) {
	known := map[string]v1alpha1.APIChange{}
	fill := func(c *v1alpha1.APIChange) {
		if !c.At.IsZero() {
			return
		}
		key := c.Kind + "/" + c.Name
		if _, ok := known[key]; !ok {
			attribute(ctx, live, c, now)
			known[key] = *c
		}
		*c = known[key]
	}
	for i := range t.InForce {
		fill(&t.InForce[i].APIChange)
	}
	for i := range t.API {
		fill(&t.API[i])
	}
	for i := range t.After {
		fill(&t.After[i])
	}
}

// attribute fills in who changed an object through the API, and when. The manager's cache has no field managers, so it asks the API
// server; where that does not answer, the time of the render is as close as it gets.
func attribute(ctx context.Context, live client.Reader, c *v1alpha1.APIChange, now time.Time) {
	c.At = metav1.NewTime(now.UTC().Truncate(time.Second))
	if c.Action == v1alpha1.APIDeleted {
		return
	}
	o, field := client.Object(&mcfgv1.MachineConfig{}), []string{"f:spec"}
	if c.Kind == revision.KindMachineConfigPool {
		o, field = &mcfgv1.MachineConfigPool{}, []string{"f:spec", "f:" + configSelectorField}
	}
	o.SetName(c.Name)
	if last := lastManager(ctx, live, o, field...); last != nil {
		c.Manager, c.At = last.Manager, metav1.NewTime(last.Time.UTC())
	}
}

// lastManager is the entry of the field manager that last wrote a field of an object, or fields below it, as the API server has it: field is
// its path, such as f:spec. It is nil where that is not known. The manager of the standard pools does not count: it puts back what others wrote.
func lastManager(ctx context.Context, live client.Reader, of client.Object, field ...string) *metav1.ManagedFieldsEntry {
	if live == nil {
		return nil
	}
	kind := revision.KindMachineConfig
	if _, isPool := of.(*mcfgv1.MachineConfigPool); isPool {
		kind = revision.KindMachineConfigPool
	}
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(mcfgv1.GroupVersion.WithKind(kind))
	if live.Get(ctx, client.ObjectKey{Name: of.GetName()}, o) != nil {
		return nil
	}
	var last *metav1.ManagedFieldsEntry
	for i := range o.ManagedFields {
		e := &o.ManagedFields[i]
		if e.FieldsV1 == nil || e.Time == nil || !ownsField(e.FieldsV1.GetRawBytes(), field) || e.Manager == string(standardOwner) {
			continue
		}
		if last == nil || !e.Time.Before(last.Time) { // of one second, the later in the order of the API server
			last = e
		}
	}
	return last
}

// ownsField reports whether a set of managed fields has the field at a path, or a field below it. The object at the path alone, which is
// written ".", does not count: its creator owns that for as long as it exists.
func ownsField(set []byte, path []string) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(set, &fields) != nil {
		return false
	}
	if len(path) == 0 {
		_, itself := fields["."]
		return len(fields) > 1 || !itself
	}
	below, ok := fields[path[0]]
	return ok && ownsField(below, path[1:])
}

// sourceSpec is the spec of a source as SourceSpecAnnotation has it.
func sourceSpec(src *v1alpha1.GitSource) string {
	spec := *src.Spec.DeepCopy()
	spec.URL, spec.Suspend = source.Redact(spec.URL), false
	text, err := json.Marshal(spec)
	if err != nil {
		return "" // it consists of texts and numbers, which always marshal
	}
	return string(text)
}
