package garbage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
	"k8s.io/apimachinery/pkg/labels"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	corev1 "k8s.io/api/core/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/content"
	"github.com/bunsen-os/bunsen/reconcile/gitsource"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/render"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// for checking the rendered configs
	sweepEvery = time.Minute
	// per sweep
	maxDeletions = 5
	// of the unused configs per sweep, if there are many: thousands of nodes may have their own
	deletedShare = 20
	// between two attempts to create a lost config again
	maxPause = time.Hour
)

// Controller deletes unused rendered configs, and creates deleted ones again that are in use.
//
// Reads: MachineConfig, MachineConfigPool, Node, GitSource.status, Secret, the remote
// Writes: `rendered-<pool>-<hash>` MachineConfig, large files in the registry
type Controller struct {
	// Client reads from the manager's cache.
	Client client.Client
	// Live reads pools before a config is deleted.
	Live client.Reader
	// for earlier revisions
	Source *gitsource.Controller
	// converts rendered configs to objects, with the cluster's defaults
	Render *render.Controller
	// the large files
	Contents *content.Store
	Now      func() time.Time
	Events   kube.Events

	deleted time.Time // the time of the last deletion
	swept   time.Time // the time of the last sweep of the content store
	lost    sync.Map  // name of a rendered config → *missingConfig
}

// missingConfig records the attempts to create a missing rendered config again.
type missingConfig struct {
	// when the config was first found missing
	since time.Time
	// the next attempt, and the pause before it
	next          time.Time
	pause         time.Duration
	reportedError string
}

// SetupWithManager lets the controller reconcile every minute, and after each deletion of a rendered config.
func (g *Controller) SetupWithManager(mgr ctrl.Manager, garbage reconcile.Reconciler) error {
	sweep := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: "rendered"}}}
	})
	begin := predicate.Funcs{
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
	gone := predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
		DeleteFunc: func(e event.DeleteEvent) bool {
			return e.Object.GetAnnotations()[v1alpha1.GeneratedByAnnotation] != ""
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
	return ctrl.NewControllerManagedBy(mgr).Named("garbage").
		Watches(&mcfgv1.MachineConfigPool{}, sweep, builder.WithPredicates(begin)).
		Watches(&mcfgv1.MachineConfig{}, sweep, builder.WithPredicates(gone)).
		Complete(garbage)
}

// Reconcile checks all rendered configs. It ignores the content of the request.
func (g *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	h, err := g.gather(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	missing := render.Missing(h)
	g.forget(missing)
	for _, lost := range missing {
		if err := g.restore(ctx, h, lost); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err := g.collect(ctx, h); err != nil {
		return reconcile.Result{}, err
	}
	if err := g.sweepContents(ctx, h); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: sweepEvery}, nil
}

// gather reads all objects once, without copies: none is changed.
func (g *Controller) gather(ctx context.Context) (render.Holders, error) {
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

// collect deletes a few unused rendered configs. It reads the pools from the API server, because the cache may not show
// that one has just started to use a config. If that happens afterwards, the render controller creates the config
// again.
func (g *Controller) collect(ctx context.Context, h render.Holders) error {
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
	for _, mc := range unused[:min(len(unused), max(maxDeletions, len(unused)/deletedShare))] {
		g.deleted = now
		err := g.Client.Delete(ctx, &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: mc.Name}},
			client.Preconditions{UID: &mc.UID, ResourceVersion: &mc.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting MachineConfig %q, which nothing names: %w", mc.Name, err)
		}
		if pool := poolNamed(h.Pools, metav1.GetControllerOfNoCopy(mc).Name); pool != nil {
			g.Events.Send(kube.Event{
				Object: pool, Related: mc, Reason: "RenderedConfigDeleted", Action: "Collect",
				Note: fmt.Sprintf("deleted old config %s: it is unused, and the controller keeps only the 10 newest "+
					"unused configs", mc.Name),
			})
		}
	}
	return nil
}

// forget keeps the records of missing configs only.
func (g *Controller) forget(missing []render.Lost) {
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

// restore creates a lost config again. The target of a pool waits first, because the render controller normally renders
// it from the fragments.
func (g *Controller) restore(ctx context.Context, h render.Holders, lost render.Lost) error {
	now := g.Now()
	v, _ := g.lost.LoadOrStore(lost.Name, &missingConfig{since: now})
	l := v.(*missingConfig) // The entry needs no lock, because only one worker uses it.
	if now.Before(l.next) || lost.Target && now.Sub(l.since) < sweepEvery/2 {
		return nil
	}
	pool := poolNamed(h.Pools, lost.Pool)
	mc, err := g.recreate(ctx, h, pool, lost.Name)
	if err == nil {
		if err := g.Client.Create(ctx, mc); err != nil {
			return fmt.Errorf("creating MachineConfig %q again: %w", lost.Name, err)
		}
		g.Events.Send(kube.Event{
			Object: pool, Related: mc, Warning: true, Reason: "RenderedConfigRestored", Action: "Collect",
			Note: fmt.Sprintf("%s was deleted although %s; created again from %s %q", lost.Name, lost.For,
				kube.ShortRevision(mc.Annotations[v1alpha1.RevisionAnnotation]),
				mc.Annotations[v1alpha1.CommitSubjectAnnotation]),
		})
		return nil
	}
	l.pause = min(max(2*l.pause, sweepEvery), maxPause)
	l.next = now.Add(l.pause)
	if text := err.Error(); text != l.reportedError {
		l.reportedError = text
		g.Events.Send(kube.Event{
			Object: pool, Warning: true, Reason: "RenderedConfigLost", Action: "Collect",
			Note: fmt.Sprintf("%s was deleted although %s, and cannot be created again: %s", lost.Name, lost.For, text),
		})
	}
	return nil
}

// recreate renders a config again from the commits of its pool in the history of the GitSources. The name, a hash of
// the content, shows whether the result is the lost config.
func (g *Controller) recreate(ctx context.Context, h render.Holders, pool *mcfgv1.MachineConfigPool,
	name string,
) (*mcfgv1.MachineConfig, error) {
	var errs []error
	tried := map[string]bool{}
	for i := range h.Sources {
		src := &h.Sources[i]
		for j := range src.Status.History {
			entry := &src.Status.History[j]
			of := entry.Pools[pool.Name]
			if tried[src.Name+entry.Revision] || of != name && !h.IsOwnConfigOf(name, of) {
				continue
			}
			tried[src.Name+entry.Revision] = true
			mc, err := g.recreateFrom(ctx, h, pool, name, commitOf{src, entry.Revision})
			if err == nil {
				return mc, nil
			}
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return nil, errors.New("the history of no GitSource has a commit that gave it; " + consequence)
	}
	return nil, errors.Join(append(errs, errors.New(consequence))...)
}

// consequence is about the nodes of a config that cannot be created again.
const consequence = "its nodes are assigned the pool's next config as usual"

func poolNamed(pools []mcfgv1.MachineConfigPool, name string) *mcfgv1.MachineConfigPool {
	for i := range pools {
		if pools[i].Name == name {
			return &pools[i]
		}
	}
	return nil
}

type commitOf struct {
	src      *v1alpha1.GitSource
	revision string
}

// recreateFrom renders the pool at a revision, with the functions of the source controller and the render controller,
// as an object with the commit that first produced it.
func (g *Controller) recreateFrom(ctx context.Context, h render.Holders, pool *mcfgv1.MachineConfigPool, name string,
	at commitOf,
) (*mcfgv1.MachineConfig, error) {
	revision, err := source.ParseRevision(at.revision)
	if err != nil {
		return nil, err
	}
	res, err := g.Source.Transpile(ctx, at.src, revision)
	if err != nil {
		return nil, err
	}
	selector, err := metav1.LabelSelectorAsSelector(pool.Spec.MachineConfigSelector)
	if err != nil {
		return nil, fmt.Errorf("reading the machineConfigSelector of pool %q: %w", pool.Name, err)
	}
	own := fragmentsFor(res, at.src.Name, selector)
	others := otherConfigs(h.Configs, at.src.Name, selector)
	for _, selected := range [][]*mcfgv1.MachineConfig{slices.Concat(own, others), own} {
		rendered, err := render.Merge(pool.Name, selected, g.Render.Defaults.ForExisting())
		if err != nil {
			continue
		}
		if rendered.Name == name {
			if err := g.writeContents(ctx, res, rendered); err != nil {
				return nil, err
			}
			return g.Render.Object(pool, selected, at.src, rendered)
		}
		if node, ok := rendered.NodeOf(name); ok {
			own, err := rendered.Node(node)
			if err != nil {
				return nil, err
			}
			if err := g.writeContents(ctx, res, own); err != nil {
				return nil, err
			}
			mc, err := g.Render.Object(pool, selected, at.src, own)
			if err == nil {
				kube.SetAnnotation(mc, v1alpha1.VariantNodesAnnotation, strings.Join(rendered.NodesOf(name), ","))
			}
			return mc, err
		}
	}
	return nil, fmt.Errorf("%s no longer renders to config %s for pool %s. The cause is a change of a MachineConfig "+
		"outside of GitSource %s, of the pool's selector, of the source's path, or of the controller's defaults",
		revision.Short(), name, pool.Name, at.src.Name)
}

// fragmentsFor returns the fragments that a selector matches, as the source controller applies them.
func fragmentsFor(res transpile.Result, owner string, selector labels.Selector) []*mcfgv1.MachineConfig {
	var out []*mcfgv1.MachineConfig
	for _, mc := range transpile.MachineConfigs(res.Fragments) {
		if selector.Empty() || !selector.Matches(labels.Set(mc.Labels)) {
			continue
		}
		mc = mc.DeepCopy()
		metav1.SetMetaDataLabel(&mc.ObjectMeta, v1alpha1.SourceLabel, owner)
		out = append(out, mc)
	}
	return out
}

// otherConfigs returns the MachineConfigs that a selector matches and that this source does not own.
func otherConfigs(configs []mcfgv1.MachineConfig, source string, selector labels.Selector) []*mcfgv1.MachineConfig {
	var out []*mcfgv1.MachineConfig
	for i := range configs {
		mc := &configs[i]
		if !selector.Empty() && selector.Matches(labels.Set(mc.Labels)) && mc.Labels[v1alpha1.SourceLabel] != source {
			out = append(out, mc)
		}
	}
	return out
}
