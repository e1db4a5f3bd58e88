package controller

import (
	"context"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// calm looks again soon, without an alarm in the log, where an object moved between the reading and the writing: that
// is how controllers that share objects work.
func calm(inner reconcile.Reconciler) reconcile.Func {
	return func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		res, err := inner.Reconcile(ctx, req)
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			return reconcile.Result{RequeueAfter: 200 * time.Millisecond}, nil
		}
		return res, err
	}
}

// ownerOf asks for the GitSource that owns an object.
func ownerOf(_ context.Context, o client.Object) []reconcile.Request {
	if name := o.GetLabels()[v1alpha1.SourceLabel]; name != "" {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: name}}}
	}
	return nil
}

// everySource asks for all GitSources: a pool may be what one of them waits for.
func everySource(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, _ client.Object) []reconcile.Request {
		var list v1alpha1.GitSourceList
		if c.List(ctx, &list) != nil {
			return nil // the cache answers; where it cannot yet, the first sync asks for every object anyway
		}
		return requests(list.Items, func(s *v1alpha1.GitSource) string { return s.Name })
	}
}

// everyPool asks for all pools; there are few, and a look that finds nothing to do is cheap.
func everyPool(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, _ client.Object) []reconcile.Request {
		var list mcfgv1.MachineConfigPoolList
		if c.List(ctx, &list) != nil {
			return nil
		}
		return requests(list.Items, func(p *mcfgv1.MachineConfigPool) string { return p.Name })
	}
}

func requests[T any](items []T, name func(*T) string) []reconcile.Request {
	out := make([]reconcile.Request, len(items))
	for i := range items {
		out[i] = reconcile.Request{NamespacedName: client.ObjectKey{Name: name(&items[i])}}
	}
	return out
}

// comesOrGoes is for objects whose content never changes.
var comesOrGoes = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}

// ofASource is for the objects that a GitSource owns.
var ofASource = predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[v1alpha1.SourceLabel] != "" })

// poolsMoved leaves out what a rollout writes to its pool, many times a minute. alike, where set, compares the part of the
// status that counts nevertheless.
func poolsMoved(alike func(a, b *mcfgv1.MachineConfigPool) bool) predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		a, ok := e.ObjectOld.(*mcfgv1.MachineConfigPool)
		b, ok2 := e.ObjectNew.(*mcfgv1.MachineConfigPool)
		if !ok || !ok2 || a.ResourceVersion == b.ResourceVersion { // the informer's own round, in case an event was lost
			return true
		}
		return !metaAlike(a, b) || !equality.Semantic.DeepEqual(a.Spec, b.Spec) || alike != nil && !alike(a, b)
	}}
}

// metaAlike tells that two states of a pool differ in nothing of their metadata but what the API server and rollouts write.
func metaAlike(a, b *mcfgv1.MachineConfigPool) bool {
	meta := func(p *mcfgv1.MachineConfigPool) any {
		m := p.ObjectMeta.DeepCopy()
		m.ResourceVersion, m.Generation, m.ManagedFields = "", 0, nil
		delete(m.Annotations, v1alpha1.RolloutAnnotation)
		delete(m.Annotations, v1alpha1.RolloutHistoryAnnotation)
		if len(m.Annotations) == 0 {
			m.Annotations = nil
		}
		return *m
	}
	return equality.Semantic.DeepEqual(meta(a), meta(b))
}

// rendersAlike tells that two states of a pool say the same of its rendering, which is part of a source's status.
func rendersAlike(a, b *mcfgv1.MachineConfigPool) bool {
	return condition(a, mcfgv1.MachineConfigPoolRenderDegraded) == condition(b, mcfgv1.MachineConfigPoolRenderDegraded)
}
