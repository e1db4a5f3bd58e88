package pinning

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/event"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bunsen-os/bunsen/api/pinnedimage"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/membership"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Controller tells nodes which PinnedImageSets they pull and pin. The rollout controller waits for the reports of the
// nodes.
//
// Reads: PinnedImageSet, MachineConfigPool, Node
// Writes: Node pinnedImageSets annotation
type Controller struct {
	// Client reads from the manager's cache.
	Client client.Client
	Now    func() time.Time
}

// everything: one reconciliation handles all pools.
const everything = "all"

// coalesce is for more events of Nodes: a reconciliation reads all of them.
func coalesce(string) time.Duration { return 100 * time.Millisecond }

// SetupWithManager tells the nodes again after each change of a set, of the pools, and of a Node's labels or
// annotations.
func SetupWithManager(mgr ctrl.Manager, pinning reconcile.Reconciler) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: everything}}}
	})
	return ctrl.NewControllerManagedBy(mgr).Named("pinned-images").
		Watches(&mcfgv1.PinnedImageSet{}, all).
		Watches(&mcfgv1.MachineConfigPool{}, all, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Node{}, kube.Delayed(all, coalesce), builder.WithPredicates(predicate.Or(
			predicate.LabelChangedPredicate{}, predicate.Funcs{UpdateFunc: pinChanged}))).
		Complete(pinning)
}

// pinChanged reports whether a change concerns the images of a Node. Most are heartbeats of kubelets.
func pinChanged(e event.UpdateEvent) bool {
	was, is := e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()
	for _, key := range []string{v1alpha1.PinAnnotation, v1alpha1.PinnedAnnotation} {
		if was[key] != is[key] {
			return true
		}
	}
	return false
}

// Reconcile tells the nodes of all pools which sets they pull. A write that fails is tried again.
func (r *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var sets mcfgv1.PinnedImageSetList
	var pools mcfgv1.MachineConfigPoolList
	var nodes corev1.NodeList
	for _, list := range []client.ObjectList{&sets, &pools, &nodes} {
		if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return reconcile.Result{}, fmt.Errorf("listing %T: %w", list, err)
		}
	}
	now := r.Now()
	var errs []error
	var after time.Duration
	for pool, members := range nodesOf(pools.Items, nodes.Items) {
		var want v1alpha1.PinRequest
		for i := range pools.Items {
			if pools.Items[i].Name == pool {
				want = requestOf(&pools.Items[i], sets.Items)
			}
		}
		writes, again := Next(members, want, now)
		for _, w := range writes {
			errs = append(errs, r.write(ctx, w))
		}
		if !again.IsZero() && (after == 0 || again.Sub(now) < after) {
			after = again.Sub(now)
		}
	}
	return reconcile.Result{RequeueAfter: after}, errors.Join(errs...)
}

// nodesOf puts a node without a pool into "", which has no sets.
func nodesOf(pools []mcfgv1.MachineConfigPool, nodes []corev1.Node) map[string][]poolstate.Node {
	var all []*mcfgv1.MachineConfigPool
	for i := range pools {
		all = append(all, &pools[i])
	}
	members, out := membership.New(all), map[string][]poolstate.Node{}
	for i := range nodes {
		n := &nodes[i]
		pool, _, err := members.For(n.Name, n.Labels)
		if err != nil { // A node in two custom pools keeps what it has.
			continue
		}
		out[pool] = append(out[pool], poolstate.ReadNode(n))
	}
	return out
}

func requestOf(pool *mcfgv1.MachineConfigPool, all []mcfgv1.PinnedImageSet) (want v1alpha1.PinRequest) {
	sets, _ := pinnedimage.Of(pool, all)
	want.Digest = pinnedimage.Digest(sets)
	for _, s := range sets {
		want.Sets = append(want.Sets, s.Name)
	}
	return want
}

// write may be repeated: it changes nothing then.
func (r *Controller) write(ctx context.Context, w Write) error {
	var value any
	if w.Value != "" {
		value = w.Value
	}
	patch, err := json.Marshal(
		map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.PinAnnotation: value}}})
	if err != nil {
		return err
	}
	node := &corev1.Node{}
	node.Name = w.Node
	if err := r.Client.Patch(ctx, node, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(
		err) != nil {
		return fmt.Errorf("naming the PinnedImageSets of node %q: %w", w.Node, err)
	}
	return nil
}
