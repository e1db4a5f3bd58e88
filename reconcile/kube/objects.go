package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// WriteStatus writes the whole status of obj if it differs from before, with a conflict if obj is stale. It is an
// update, because a patch omits zero values and `kubectl get mcp` would show blanks.
func WriteStatus(ctx context.Context, c client.Client, obj, before client.Object) error {
	if equality.Semantic.DeepEqual(obj, before) {
		return nil
	}
	return c.Status().Update(ctx, obj)
}

// AfterWrite returns the error of a write, nil if it has taken effect. After a missing answer, look says whether the
// object has what was written. So the caller sends its event, or counts, for each write that took effect.
func AfterWrite(err error, look func() (isWritten bool, err error)) error {
	if err = fault.APIRequest(err); !fault.IsUnknown(err) {
		return err
	}
	isWritten, lookErr := look()
	switch {
	case lookErr != nil:
		return errors.Join(err, fmt.Errorf("looking whether it was done: %w", lookErr))
	case isWritten:
		return nil
	}
	return err
}

// RequeueConflicts wraps a reconciler: if an object changed between reading and writing it, the request is requeued
// soon, without an error in the log. Such conflicts are normal between controllers that share objects.
func RequeueConflicts(inner reconcile.Reconciler) reconcile.Func {
	return func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		res, err := inner.Reconcile(ctx, req)
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			return reconcile.Result{RequeueAfter: 200 * time.Millisecond}, nil
		}
		return res, err
	}
}

// ConditionMessage returns the message of a pool's condition if it is True; otherwise "".
func ConditionMessage(p *mcfgv1.MachineConfigPool, kind mcfgv1.MachineConfigPoolConditionType) string {
	for _, c := range p.Status.Conditions {
		if c.Type == kind && c.Status == corev1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

// DisruptionPolicyName is the name of the MachineConfiguration that has the disruption policy.
const DisruptionPolicyName = "cluster"

// SetAnnotation sets an annotation, or removes it if the value is empty.
func SetAnnotation(o metav1.Object, key, value string) {
	annotations := maps.Clone(o.GetAnnotations())
	if value == "" {
		delete(annotations, key)
	} else {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
	}
	o.SetAnnotations(annotations)
}

// PollInterval is how often the repository of a source is listed: a minute by default, and at least 5 seconds.
func PollInterval(src *v1alpha1.GitSource) time.Duration {
	if d := src.Spec.Interval.Duration; d > 0 {
		return max(d, 5*time.Second)
	}
	return time.Minute
}

// OwnerSource enqueues the GitSource that owns an object.
func OwnerSource(_ context.Context, o client.Object) []reconcile.Request {
	if name := o.GetLabels()[v1alpha1.SourceLabel]; name != "" {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: name}}}
	}
	return nil
}

// EverySource enqueues all GitSources, because each GitSource may wait for a pool.
func EverySource(c client.Reader) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		var list v1alpha1.GitSourceList
		if c.List(ctx, &list) != nil {
			return nil // The cache has not synced yet, and the sync will enqueue every object.
		}
		return requests(list.Items, func(s *v1alpha1.GitSource) string { return s.Name })
	})
}

// EveryPool enqueues all pools. A cluster has few pools, and a reconciliation without a change is cheap.
func EveryPool(c client.Reader) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		var list mcfgv1.MachineConfigPoolList
		if c.List(ctx, &list) != nil {
			return nil
		}
		return requests(list.Items, func(p *mcfgv1.MachineConfigPool) string { return p.Name })
	})
}

// Delayed lets a handler enqueue after the delay of an object: thousands of events within it become one reconciliation,
// which reads the objects as they are then.
func Delayed(h handler.EventHandler, delay func(name string) time.Duration) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			h.Create(ctx, e, delayedQueue{q, delay})
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			h.Update(ctx, e, delayedQueue{q, delay})
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			h.Delete(ctx, e, delayedQueue{q, delay})
		},
	}
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

type delayedQueue struct {
	queue
	delay func(name string) time.Duration
}

// Add keeps the earlier time of a request that waits already.
func (q delayedQueue) Add(r reconcile.Request) { q.AddAfter(r, q.delay(r.Name)) }

func requests[T any](items []T, name func(*T) string) []reconcile.Request {
	out := make([]reconcile.Request, len(items))
	for i := range items {
		out[i] = reconcile.Request{NamespacedName: client.ObjectKey{Name: name(&items[i])}}
	}
	return out
}

// CreatedOrDeleted passes the creation and deletion of objects whose content never changes.
var CreatedOrDeleted = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}

// OwnedBySource passes objects that a GitSource owns.
var OwnedBySource = predicate.NewPredicateFuncs(func(o client.Object) bool {
	return o.GetLabels()[v1alpha1.SourceLabel] != ""
})

// PoolSettingsChanged passes changes of a pool, except the writes of its rollout, which come many times a minute.
// alike, if set, compares the part of the status whose changes still count.
func PoolSettingsChanged(alike func(a, b *mcfgv1.MachineConfigPool) bool) predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		a, ok := e.ObjectOld.(*mcfgv1.MachineConfigPool)
		b, ok2 := e.ObjectNew.(*mcfgv1.MachineConfigPool)
		// A resync of the informer, which replaces lost events.
		if !ok || !ok2 || a.ResourceVersion == b.ResourceVersion {
			return true
		}
		return !metaAlike(a, b) || !equality.Semantic.DeepEqual(a.Spec, b.Spec) || alike != nil && !alike(a, b)
	}}
}

// metaAlike compares the metadata of a pool, without what the API server and rollouts write.
func metaAlike(a, b *mcfgv1.MachineConfigPool) bool {
	meta := func(p *mcfgv1.MachineConfigPool) any {
		m := p.ObjectMeta.DeepCopy()
		m.ResourceVersion, m.Generation, m.ManagedFields = "", 0, nil
		delete(m.Annotations, v1alpha1.RolloutAnnotation)
		delete(m.Annotations, v1alpha1.RolloutHistoryAnnotation)
		delete(m.Annotations, v1alpha1.ClosedGatesAnnotation)
		if len(m.Annotations) == 0 {
			m.Annotations = nil
		}
		return *m
	}
	return equality.Semantic.DeepEqual(meta(a), meta(b))
}

// RendersAlike reports whether two states of a pool have the same result of rendering, which is part of a source's
// status.
func RendersAlike(a, b *mcfgv1.MachineConfigPool) bool {
	return ConditionMessage(a, mcfgv1.MachineConfigPoolRenderDegraded) == ConditionMessage(b,
		mcfgv1.MachineConfigPoolRenderDegraded)
}

// CacheLag is how long a reconciliation waits until the informers show a write. An event may end the wait earlier.
const CacheLag = time.Second

// StandardPoolsManager is the field manager of the pools that every cluster has.
const StandardPoolsManager = client.FieldOwner("bunsen-standard-pools")

// LastManager returns the entry of the field manager that last wrote a field of an object, or a field below it, by a
// path that begins with f:spec, for example. It reads the object from the API server, and returns nil if the manager is
// not known. That of the standard pools does not count: it only restores fields.
func LastManager(ctx context.Context, live client.Reader, of client.Object,
	field ...string,
) *metav1.ManagedFieldsEntry {
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
		if e.FieldsV1 == nil || e.Time == nil || !ownsField(e.FieldsV1.GetRawBytes(), field) ||
			e.Manager == string(StandardPoolsManager) {
			continue
		}
		// In the same second, the later entry of the API server's list counts.
		if last == nil || !e.Time.Before(last.Time) {
			last = e
		}
	}
	return last
}

// ownsField reports whether a set of managed fields has the field at a path, or one below it. The entry "." alone does
// not count: it always belongs to the creator of the object.
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
