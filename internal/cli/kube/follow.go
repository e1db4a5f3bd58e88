package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// Receiver gets the state of a cluster. Follow calls one method at a time.
type Receiver interface {
	// Due reports whether Follow must call Show although nothing has changed.
	Due(now time.Time) bool
	// Show receives all objects that a status shows. The receiver must not change these objects.
	Show(ctx context.Context, cluster fleet.Cluster, now time.Time) error
	// Problem receives the reason why the state is not current. After that, Follow tries again.
	Problem(err error) error
}

// watches are the watches on a cluster: the API server sends all objects once, and then each change.
type watches struct {
	cache cache.Cache
	// The user may read MachineConfigs. Without them, the state has no commits.
	configs bool
	changed chan struct{}
	// gets the error of a watch that the cluster does not allow
	refused chan error
}

const (
	// between two attempts to reach a cluster that does not answer
	pause = time.Second
	// the minimum time between two calls of Show
	mostOften = 250 * time.Millisecond
)

// Silence discards the logs of the libraries that watch a cluster, for the whole process. Receivers still get their
// errors.
func Silence() {
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())
}

// FollowObjects keeps a receiver current until the context ends. It reports an outage of the API server to the receiver
// and retries. It returns only errors of the receiver.
func FollowObjects(ctx context.Context, rc *rest.Config, c client.Client, to Receiver) error {
	for ctx.Err() == nil {
		err := checkAlive(ctx, c)
		if err == nil {
			err = watchCluster(ctx, rc, c, to)
		}
		if ctx.Err() != nil {
			return nil
		}
		var received *receiverError
		switch {
		case err == nil:
			continue
		case errors.As(err, &received):
			return received.err
		}
		if err := to.Problem(err); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

// receiverError is an error that a new watch does not fix.
type receiverError struct{ err error }

func (e *receiverError) Error() string { return e.err.Error() }

// checkAlive checks whether the API server answers, and whether it serves all watched kinds.
func checkAlive(ctx context.Context, c client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, CheckInterval)
	defer cancel()
	for _, l := range []struct {
		what string
		list client.ObjectList
	}{
		{"GitSources", &v1alpha1.GitSourceList{}},
		{"MachineConfigPools", &mcfgv1.MachineConfigPoolList{}},
		{"RolloutPolicies", &v1alpha1.RolloutPolicyList{}},
	} {
		if err := c.List(ctx, l.list, client.Limit(1)); err != nil {
			return ReadError(l.what, err)
		}
	}
	return nil
}

// watchCluster ends when the API server stops answering.
func watchCluster(ctx context.Context, rc *rest.Config, c client.Client, to Receiver) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f, err := newWatches(ctx, rc, c)
	if err != nil {
		return err
	}
	stopped := make(chan error, 2)
	go func() { stopped <- f.cache.Start(ctx) }()
	go func() { stopped <- f.whileAlive(ctx, c) }()
	synced := make(chan bool, 1)
	go func() { synced <- f.cache.WaitForCacheSync(ctx) }()
	select {
	case err := <-stopped:
		return err
	case <-synced:
	}
	tick := time.NewTicker(mostOften)
	defer tick.Stop()
	dirty, shown, beats := true, time.Time{}, &Heartbeats{Client: c, Background: true}
	for {
		if now := time.Now(); dirty || beats.Due(now) || to.Due(now) {
			cluster, err := f.read(ctx)
			if err != nil {
				return err
			}
			if err := beats.Fill(ctx, &cluster); err != nil {
				return err
			}
			if err := to.Show(ctx, cluster, time.Now()); err != nil {
				return &receiverError{err}
			}
			dirty, shown = false, time.Now()
			tick.Reset(mostOften)
		}
		changed := f.changed // A change after a quiet time is shown at once.
		if time.Since(shown) < mostOften {
			changed = nil
		}
		select {
		case err := <-stopped:
			return err
		case <-changed:
			dirty = true
		case <-tick.C:
		}
	}
}

// whileAlive returns the reason when the cluster stops answering or refuses a watch. One late answer is no outage: to
// read all objects again would make a busy API server slower.
func (f *watches) whileAlive(ctx context.Context, c client.Client) error {
	tick := time.NewTicker(CheckInterval)
	defer tick.Stop()
	for wasLate := false; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-f.refused:
			return err
		case <-tick.C:
			err := checkAlive(ctx, c)
			isLate := errors.Is(err, context.DeadlineExceeded)
			if err != nil && (wasLate || !isLate) {
				return err
			}
			wasLate = isLate
		}
	}
}

// newWatches watches all objects that a status shows, and caches only the parts that it needs.
func newWatches(ctx context.Context, rc *rest.Config, c client.Client) (*watches, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	f := &watches{changed: make(chan struct{}, 1), refused: make(chan error, 1)}
	f.cache, err = cache.New(rc, cache.Options{
		Scheme: scheme, DefaultTransform: dropUnused,
		DefaultWatchErrorHandler: f.failed,
	})
	if err != nil {
		return nil, cli.Unreachable(fmt.Errorf("connecting to %s: %w", rc.Host, err))
	}
	poke := func(any) {
		select {
		case f.changed <- struct{}{}:
		default:
		}
	}
	handlers := toolscache.ResourceEventHandlerFuncs{AddFunc: poke, DeleteFunc: poke, UpdateFunc: func(was, is any) {
		if !isHeartbeat(was, is) {
			poke(is)
		}
	}}
	config := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{
		APIVersion: ConfigsMeta.APIVersion,
		Kind:       strings.TrimSuffix(ConfigsMeta.Kind, "List"),
	}}
	watched := []client.Object{
		&v1alpha1.GitSource{}, &mcfgv1.MachineConfigPool{}, &corev1.Node{},
		&v1alpha1.RolloutPolicy{},
	}
	known := &metav1.PartialObjectMetadataList{TypeMeta: ConfigsMeta}
	if err := c.List(ctx, known, client.Limit(1)); !apierrors.IsForbidden(err) { // The watch reports other errors.
		f.configs, watched = true, append(watched, config)
	}
	for _, o := range watched {
		informer, err := f.cache.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, ReadError(fmt.Sprintf("%T", o), err)
		}
		if _, err := informer.AddEventHandler(handlers); err != nil {
			return nil, fmt.Errorf("watching %T: %w", o, err)
		}
	}
	return f, nil
}

// failed records the error of a watch that the cluster does not allow. After others, the library retries, and
// checkAlive reports them.
func (f *watches) failed(_ context.Context, _ *toolscache.Reflector, err error) {
	if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		return
	}
	select {
	case f.refused <- ReadError("what changes", err):
	default:
	}
}

func (f *watches) read(ctx context.Context) (fleet.Cluster, error) {
	if f.configs {
		out, err := ReadWatched(ctx, f.cache)
		sortObjects(&out)
		return out, err
	}
	out, err := ReadObjects(ctx, f.cache)
	out.Rendered = NamedConfigs(out)
	sortObjects(&out)
	return out, err
}

// sortObjects sorts objects by name, as the API server does. A cache returns the objects in another order each time.
func sortObjects(c *fleet.Cluster) {
	slices.SortFunc(c.Sources, func(a, b v1alpha1.GitSource) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(c.Pools, func(a, b mcfgv1.MachineConfigPool) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(c.Policies, func(a, b v1alpha1.RolloutPolicy) int { return strings.Compare(a.Name, b.Name) })
}

// dropUnused removes the fields that no status shows: most of the data of thousands of nodes.
func dropUnused(o any) (any, error) {
	if m, ok := o.(client.Object); ok {
		m.SetManagedFields(nil)
	}
	switch o := o.(type) {
	case *corev1.Node:
		o.Annotations = ours(o.Annotations)
		o.Status = corev1.NodeStatus{Conditions: slices.DeleteFunc(o.Status.Conditions,
			func(c corev1.NodeCondition) bool {
				return c.Type != corev1.NodeReady && c.Status != corev1.ConditionTrue // means nothing
			})}
	case *metav1.PartialObjectMetadata:
		o.Annotations = ours(o.Annotations)
		delete(o.Annotations, v1alpha1.InputsAnnotation)
		delete(o.Annotations, v1alpha1.FileAnnotation)
	case *v1alpha1.GitSource:
		o.Status.Inventory = nil
	}
	return o, nil
}

// isHeartbeat reports whether an update of a Node has only later times of a kubelet's heartbeat. The kubelets of a
// large cluster send several such updates a second. An update whose times are the same is another one: it may have
// changed a field that the watches drop.
func isHeartbeat(was, is any) bool {
	before, isNode := was.(*corev1.Node)
	after, stays := is.(*corev1.Node)
	if !isNode || !stays {
		return false
	}
	timeless := func(n *corev1.Node) *corev1.Node {
		n = n.DeepCopy()
		n.ResourceVersion = ""
		for i := range n.Status.Conditions {
			n.Status.Conditions[i].LastHeartbeatTime = metav1.Time{}
		}
		return n
	}
	return !equality.Semantic.DeepEqual(before.Status.Conditions, after.Status.Conditions) &&
		equality.Semantic.DeepEqual(timeless(before), timeless(after))
}

// ours returns the annotations of Bunsen and the Machine Config Operator, without a long drift report.
func ours(a map[string]string) map[string]string {
	a = maps.Clone(a)
	maps.DeleteFunc(a, func(key, value string) bool {
		return !strings.HasPrefix(key, "bunsen.dev/") && !strings.HasPrefix(key,
			"machineconfiguration.openshift.io/") || key == v1alpha1.DriftAnnotation && len(value) > fleet.ShortDrift
	})
	return a
}
