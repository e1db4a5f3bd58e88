package render

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/revision"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	"github.com/bunsen-os/bunsen/source"
)

// newTarget returns the record of the requester of a rendered config.
func (r *Controller) newTarget(ctx context.Context, f facts, rendered Rendered,
	src *v1alpha1.GitSource,
) (v1alpha1.PoolTarget, error) {
	was, err := v1alpha1.ParsePoolTarget(f.pool.Annotations[v1alpha1.TargetAnnotation])
	// A user has changed the annotation or the pool's configuration.
	if err != nil || was.Config != f.pool.Spec.Configuration.Name {
		was = v1alpha1.PoolTarget{
			Config:    f.pool.Spec.Configuration.Name,
			Requester: v1alpha1.RequesterOf(f.pool.Annotations, f.pool.Spec.Configuration.Name),
		}
	}
	facts, err := r.targetFacts(f, was)
	if err != nil {
		return was, err
	}
	facts.Config, facts.Healthy = rendered.Name, poolstate.HealthyConfig(f.pool).Config
	if src != nil {
		facts.Commit = *src.Status.AppliedCommit
		facts.Rewritten = slices.ContainsFunc(src.Status.History, func(e v1alpha1.HistoryEntry) bool {
			return e.Rewritten && e.Revision == facts.Commit.Revision
		})
	}
	// If the history cannot be read, the rollout controller begins it again.
	past, _ := v1alpha1.ParseRolloutHistory(f.pool.Annotations[v1alpha1.RolloutHistoryAnnotation])
	for _, o := range past {
		facts.Earlier = append(facts.Earlier, o.Config)
	}
	// A pool without nodes counts as healthy, because no node can fail the target.
	if f.pool.Status.ObservedGeneration > 0 && f.pool.Status.MachineCount == 0 {
		facts.Healthy = was.Config
	}
	next := revision.NextTarget(was, facts)
	next.Nodes = len(rendered.Nodes.Nodes)
	if was.Config == "" {
		next, err = withEarlierRequest(ctx, r.Client, next)
	}
	if was.Config != next.Config {
		attributeNew(ctx, r.Live, &next, r.Now())
	}
	return next, err
}

// targetFacts returns the inputs from which a pool is rendered. The parameter was is the earlier record of the pool.
func (r *Controller) targetFacts(f facts, was v1alpha1.PoolTarget) (revision.TargetFacts, error) {
	inputs, err := r.seen.Inputs(f.selected)
	if err != nil {
		return revision.TargetFacts{}, err
	}
	facts := revision.TargetFacts{
		Pool: f.pool.Name, Sources: map[string]string{}, Inputs: inputs,
		ReleasedBy: poolstate.RequestedBy(f.pool, was.Config),
	}
	for name, owner := range f.sources {
		_, before := was.Sources[name]
		gives := slices.ContainsFunc(inputs, func(in v1alpha1.TargetInput) bool { return in.Source == name })
		if before || gives {
			facts.Sources[name] = owner.Status.AppliedRevision
		}
	}
	return facts, nil
}

// withEarlierRequest corrects the target of a pool without a record, such as a pool that was deleted while no
// controller ran. Changes through the API may have requested the config first. If the commit before these changes is
// still applied, the changes stay the requester instead of that commit.
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

// attributeNew adds the author and the time to each new change of a target.
func attributeNew(ctx context.Context, live client.Reader, t *v1alpha1.PoolTarget, now time.Time) {
	known := map[string]v1alpha1.APIChange{}
	fill := func(c *v1alpha1.APIChange) {
		if !c.At.IsZero() {
			return
		}
		key := c.Kind + "/" + c.Name
		if _, ok := known[key]; !ok {
			attributeChange(ctx, live, c, now)
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

// attributeChange adds the author and the time to a change through the API. It reads field managers from the API
// server, because the manager's cache does not contain them. If the read fails, it records the time of the render.
func attributeChange(ctx context.Context, live client.Reader, c *v1alpha1.APIChange, now time.Time) {
	c.At = metav1.NewTime(now.UTC().Truncate(time.Second))
	if c.Action == v1alpha1.APIDeleted {
		return
	}
	o, field := client.Object(&mcfgv1.MachineConfig{}), []string{"f:spec"}
	if c.Kind == revision.KindMachineConfigPool {
		o, field = &mcfgv1.MachineConfigPool{}, []string{"f:spec", "f:machineConfigSelector"}
	}
	o.SetName(c.Name)
	if last := kube.LastManager(ctx, live, o, field...); last != nil {
		c.Manager, c.At = last.Manager, metav1.NewTime(last.Time.UTC())
	}
}

// renderedFrom returns the annotations of the pool that name the source and the revision of its config.
func (f facts) renderedFrom() map[string]string {
	mc := f.byName[f.pool.Annotations[v1alpha1.HoldAnnotation]]
	if mc != nil {
		at, ok := f.heldRevision(mc)
		if !ok {
			at.Revision = mc.Annotations[v1alpha1.RevisionAnnotation]
		}
		return map[string]string{
			v1alpha1.RevisionAnnotation: at.Revision,
			v1alpha1.SourceAnnotation:   mc.Annotations[v1alpha1.SourceAnnotation],
		}
	}
	src := newestSource(f.selectedSources())
	if src == nil {
		return nil
	}
	return map[string]string{
		v1alpha1.RevisionAnnotation: src.Status.AppliedRevision,
		v1alpha1.SourceAnnotation:   src.Name, v1alpha1.SourceSpecAnnotation: sourceSpec(src),
	}
}

// selectedSources returns the sources that own a selected fragment, by name: of two that applied a commit in the same
// second, each look then finds the same newest one.
func (f facts) selectedSources() []*v1alpha1.GitSource {
	var out []*v1alpha1.GitSource
	had := map[string]bool{}
	for _, mc := range f.selected {
		name := mc.Labels[v1alpha1.SourceLabel]
		if src, ok := f.sources[name]; ok && !had[name] {
			had[name] = true
			out = append(out, src)
		}
	}
	slices.SortFunc(out, func(a, b *v1alpha1.GitSource) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// newestSource is the source with the latest applied commit.
func newestSource(sources []*v1alpha1.GitSource) *v1alpha1.GitSource {
	var out *v1alpha1.GitSource
	for _, src := range sources {
		if src.Status.AppliedCommit == nil {
			continue
		}
		if out == nil || out.Status.AppliedCommit.Time.Before(&src.Status.AppliedCommit.Time) {
			out = src
		}
	}
	return out
}

// sourceSpec returns the spec of a source in the form of SourceSpecAnnotation.
func sourceSpec(src *v1alpha1.GitSource) string {
	spec := *src.Spec.DeepCopy()
	spec.URL, spec.Suspend, spec.SuspendUntil = source.Redact(spec.URL), false, nil
	text, err := json.Marshal(spec)
	if err != nil {
		return "" // There is no error, because texts and numbers can always be encoded.
	}
	return string(text)
}
