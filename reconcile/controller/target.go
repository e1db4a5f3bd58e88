package controller

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// shortDigest is how much of a digest a pool's record has of each input.
const shortDigest = 16

// target is the record of who asked for a rendered config.
func target(ctx context.Context, r *Render, f renderFacts, rendered render.Rendered, src *v1alpha1.GitSource) (v1alpha1.PoolTarget, error) {
	was, err := v1alpha1.ParsePoolTarget(f.pool.Annotations[v1alpha1.TargetAnnotation])
	if err != nil || was.Config != f.pool.Spec.Configuration.Name { // a user changed the annotation or the pool's configuration
		was = v1alpha1.PoolTarget{Config: f.pool.Spec.Configuration.Name, Requester: v1alpha1.RequesterOf(f.pool.Annotations, f.pool.Spec.Configuration.Name)}
	}
	facts := revision.TargetFacts{Pool: f.pool.Name, Config: rendered.Name, Sources: map[string]string{}}
	if src != nil {
		facts.Commit = *src.Status.AppliedCommit
	}
	for _, mc := range f.selected {
		digest, err := r.seen.Of(mc)
		if err != nil {
			return was, err
		}
		digest = strings.TrimPrefix(digest, "sha256:")
		in := v1alpha1.TargetInput{Name: mc.Name, Digest: digest[:min(len(digest), shortDigest)], Source: mc.Labels[v1alpha1.SourceLabel]}
		facts.Inputs = append(facts.Inputs, in)
	}
	for name, owner := range f.sources {
		_, before := was.Sources[name]
		gives := slices.ContainsFunc(facts.Inputs, func(in v1alpha1.TargetInput) bool { return in.Source == name })
		if before || gives {
			facts.Sources[name] = owner.Status.AppliedRevision
		}
	}
	next := revision.NextTarget(was, facts)
	if was.Config != next.Config {
		for i := range next.API {
			attribute(ctx, r.Live, &next.API[i], r.Now())
		}
	}
	return next, nil
}

// attribute fills in who changed an object through the API, and when. The manager's cache has no field managers, so it asks the API
// server; where that does not answer, the time of the render is as close as it gets.
func attribute(ctx context.Context, live client.Reader, c *v1alpha1.APIChange, now time.Time) {
	c.At = metav1.NewTime(now.UTC().Truncate(time.Second))
	if c.Action == v1alpha1.APIDeleted || live == nil {
		return
	}
	kind, field := schema.GroupVersionKind(mcfgv1.GroupVersion.WithKind(c.Kind)), `"f:spec"`
	if c.Kind == revision.KindMachineConfigPool {
		field = `"f:machineConfigSelector"`
	}
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(kind)
	if live.Get(ctx, client.ObjectKey{Name: c.Name}, o) != nil {
		return
	}
	var last *metav1.ManagedFieldsEntry
	for i := range o.ManagedFields {
		e := &o.ManagedFields[i]
		if e.FieldsV1 == nil || e.Time == nil || !bytes.Contains(e.FieldsV1.GetRawBytes(), []byte(field)) || e.Manager == string(standardOwner) {
			continue
		}
		if last == nil || last.Time.Before(e.Time) {
			last = e
		}
	}
	if last != nil {
		c.Manager, c.At = last.Manager, metav1.NewTime(last.Time.UTC())
	}
}
