package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/render"
)

const (
	// sweepEvery is how often rendered configs are looked over.
	sweepEvery = time.Minute
	// deleteAtOnce is how many are deleted in that time at most.
	deleteAtOnce = 5
	// mostPause is between two tries to make again what could not be made.
	mostPause = time.Hour
)

// Garbage deletes rendered configs that nothing names any more, and makes again those that somebody deleted although
// they are needed.
//
// Reads: MachineConfig, MachineConfigPool, Node, GitSource.status, Secret, the remote
// Writes: `rendered-<pool>-<hash>` MachineConfig
type Garbage struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Live reads pools past the cache, before anything is deleted.
	Live client.Reader
	// Source opens repositories and transpiles their trees.
	Source *Source
	// Render says what a rendered config looks like as an object, and has the cluster's defaults.
	Render *Render
	// Now is the clock.
	Now func() time.Time
	// Events tells people.
	Events Events

	deleted time.Time // when something was deleted last
	lost    sync.Map  // name of a rendered config → loss
}

// loss is a rendered config that is missing.
type loss struct {
	// seen is when it was missed first.
	seen time.Time
	// next is when another try is due; pause is what came before it.
	next  time.Time
	pause time.Duration
	told  string
}

// SetupWithManager lets it look every minute, and whenever a rendered config is deleted.
func (g *Garbage) SetupWithManager(mgr ctrl.Manager) error {
	sweep := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: "rendered"}}}
	})
	begin := predicate.Funcs{
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
	gone := predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		DeleteFunc:  func(e event.DeleteEvent) bool { return e.Object.GetAnnotations()[v1alpha1.GeneratedByAnnotation] != "" },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
	err := ctrl.NewControllerManagedBy(mgr).Named("garbage").
		Watches(&mcfgv1.MachineConfigPool{}, sweep, builder.WithPredicates(begin)).
		Watches(&mcfgv1.MachineConfig{}, sweep, builder.WithPredicates(gone)).
		Complete(calm(g))
	if err != nil {
		return fmt.Errorf("registering the controller of garbage: %w", err)
	}
	return nil
}

// Reconcile looks over all rendered configs, whatever the request says.
func (g *Garbage) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	h, err := g.gather(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	missing := render.Missing(h)
	g.forget(missing)
	for _, lost := range missing {
		if err := g.mend(ctx, h, lost); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err := g.collect(ctx, h); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: sweepEvery}, nil
}

// gather reads everything once, without copies: nothing is written to it.
func (g *Garbage) gather(ctx context.Context) (render.Holders, error) {
	var configs mcfgv1.MachineConfigList
	var pools mcfgv1.MachineConfigPoolList
	var nodes corev1.NodeList
	var sources v1alpha1.GitSourceList
	for _, list := range []client.ObjectList{&configs, &pools, &nodes, &sources} {
		if err := g.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return render.Holders{}, fmt.Errorf("listing for garbage: %w", err)
		}
	}
	return render.Holders{Configs: configs.Items, Pools: pools.Items, Nodes: nodes.Items, Sources: sources.Items}, nil
}

// collect deletes a few of what nothing needs. A pool that was pointed at one of them a moment ago is read past the
// cache; one that is pointed at it a moment later gets it again from the render.
func (g *Garbage) collect(ctx context.Context, h render.Holders) error {
	now := g.Now()
	if now.Sub(g.deleted) < sweepEvery || len(render.Unused(h, now)) == 0 {
		return nil
	}
	var pools mcfgv1.MachineConfigPoolList
	if err := g.Live.List(ctx, &pools); err != nil {
		return fmt.Errorf("listing MachineConfigPools for garbage: %w", err)
	}
	h.Pools = pools.Items
	unused := render.Unused(h, now)
	for _, mc := range unused[:min(len(unused), deleteAtOnce)] {
		g.deleted = now
		err := g.Client.Delete(ctx, &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: mc.Name}},
			client.Preconditions{UID: &mc.UID, ResourceVersion: &mc.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting MachineConfig %q, which nothing names: %w", mc.Name, err)
		}
		if pool := poolNamed(h.Pools, metav1.GetControllerOfNoCopy(mc).Name); pool != nil {
			g.Events.Eventf(pool, mc, corev1.EventTypeNormal, "RenderedConfigDeleted", "Collect", "deleted old config %s: it is unused, and the 10 newest unused ones are kept", mc.Name)
		}
	}
	return nil
}

// forget drops what is not missing any more.
func (g *Garbage) forget(missing []render.Lost) {
	still := map[string]bool{}
	for _, lost := range missing {
		still[lost.Name] = true
	}
	g.lost.Range(func(name, _ any) bool {
		if !still[name.(string)] {
			g.lost.Delete(name)
		}
		return true
	})
}

// mend makes a lost config again. The target of a pool is left to the render for a while, which makes it of the
// fragments that are there.
func (g *Garbage) mend(ctx context.Context, h render.Holders, lost render.Lost) error {
	now := g.Now()
	v, _ := g.lost.LoadOrStore(lost.Name, &loss{seen: now})
	l := v.(*loss) // one worker looks at it
	if now.Before(l.next) || lost.Target && now.Sub(l.seen) < sweepEvery/2 {
		return nil
	}
	pool := poolNamed(h.Pools, lost.Pool)
	mc, err := g.remake(ctx, h, pool, lost.Name)
	if err == nil {
		if err := g.Client.Create(ctx, mc); err != nil {
			return fmt.Errorf("creating MachineConfig %q again: %w", lost.Name, err)
		}
		g.Events.Eventf(pool, mc, corev1.EventTypeWarning, "RenderedConfigRestored", "Collect", "%s was deleted although %s; made again from %s %q",
			lost.Name, lost.For, short(mc.Annotations[v1alpha1.RevisionAnnotation]), mc.Annotations[v1alpha1.CommitSubjectAnnotation])
		return nil
	}
	l.pause = min(max(2*l.pause, sweepEvery), mostPause)
	l.next = now.Add(l.pause)
	if text := err.Error(); text != l.told {
		l.told = text
		g.Events.Eventf(pool, nil, corev1.EventTypeWarning, "RenderedConfigLost", "Collect", "%s",
			clip(fmt.Sprintf("%s was deleted although %s, and cannot be made again: %s", lost.Name, lost.For, text)))
	}
	return nil
}

// remake renders a config again as one of the commits did that history says gave it. Its name tells whether that is what
// was lost.
func (g *Garbage) remake(ctx context.Context, h render.Holders, pool *mcfgv1.MachineConfigPool, name string) (*mcfgv1.MachineConfig, error) {
	var errs []error
	tried := map[string]bool{}
	for i := range h.Sources {
		src := &h.Sources[i]
		for j := range src.Status.History {
			entry := &src.Status.History[j]
			if entry.Pools[pool.Name] != name || tried[src.Name+entry.Revision] {
				continue
			}
			tried[src.Name+entry.Revision] = true
			mc, err := g.remakeFrom(ctx, h, pool, name, commitOf{src, entry.Revision})
			if err == nil {
				return mc, nil
			}
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return nil, errors.New("the history of no GitSource has a commit that gave it; " + wayOut)
	}
	return nil, errors.Join(append(errs, errors.New(wayOut))...)
}

// wayOut is what to do about a node whose config is gone.
const wayOut = "its nodes are told the pool's next config as usual"

// poolNamed finds a pool.
func poolNamed(pools []mcfgv1.MachineConfigPool, name string) *mcfgv1.MachineConfigPool {
	for i := range pools {
		if pools[i].Name == name {
			return &pools[i]
		}
	}
	return nil
}

// bornIn is the source as it was when a commit of its history first gave a pool this rendered config: its AppliedCommit
// is that commit. Without one it is the source as it is.
func bornIn(src *v1alpha1.GitSource, pool, name string) *v1alpha1.GitSource {
	for i := len(src.Status.History) - 1; i >= 0; i-- {
		if entry := &src.Status.History[i]; entry.Pools[pool] == name {
			out := src.DeepCopy()
			out.Status.AppliedCommit = entry.CommitInfo.DeepCopy()
			return out
		}
	}
	return src
}
