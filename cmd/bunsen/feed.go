package main

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/go-logr/logr"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/inspect"
)

// feed is a cluster as watches show it: everything is sent once, and then what changes.
type feed struct {
	cache cache.Cache
	// configs: MachineConfigs may be read.
	configs bool
	// changed has something in it after a change.
	changed chan struct{}
	// refused has the error of a watch that the cluster does not allow.
	refused chan error
}

const (
	// looksAlive is how often the cluster is asked for a sign of life: a watch tells late, or never, that nobody is there.
	looksAlive = 5 * time.Second
	// pause is between two tries to reach a cluster that does not answer.
	pause = time.Second
	// mostOften is the time between two looks at what has changed.
	mostOften = 250 * time.Millisecond
)

// follow keeps a display current until the context ends. A cluster that cannot be reached for a while is said and waited for.
func (t *target) follow(ctx context.Context, c client.Client, d *display) error {
	klog.SetLogger(logr.Discard()) // what goes wrong is on the screen; a log would smear it
	log.SetLogger(logr.Discard())
	defer d.close()
	for ctx.Err() == nil {
		err := alive(ctx, c)
		if err == nil {
			err = t.watch(ctx, c, d)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			continue
		}
		if err := d.say("waiting for the cluster: " + err.Error()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

// alive asks for a sign of life, and whether all that is watched is known there.
func alive(ctx context.Context, c client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, looksAlive)
	defer cancel()
	for _, l := range []struct {
		what string
		list client.ObjectList
	}{{"GitSources", &v1alpha1.GitSourceList{}}, {"MachineConfigPools", &mcfgv1.MachineConfigPoolList{}}, {"RolloutPolicies", &v1alpha1.RolloutPolicyList{}}} {
		if err := c.List(ctx, l.list, client.Limit(1)); err != nil {
			return unread(l.what, err)
		}
	}
	return nil
}

// watch shows the cluster as it changes, until it does not answer any more.
func (t *target) watch(ctx context.Context, c client.Client, d *display) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f, err := t.newFeed(ctx, c)
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
	dirty, laps, beats := true, newStopwatch(c), &heartbeats{c: c}
	for {
		if dirty || beats.due(time.Now()) || d.due(time.Now()) {
			cluster, err := f.read(ctx)
			if err != nil {
				return err
			}
			if err := beats.fill(ctx, &cluster); err != nil {
				return err
			}
			now := time.Now()
			s := inspect.NewStatus(cluster, now)
			laps.status(ctx, &s)
			if err := d.show(s, now); err != nil {
				return err
			}
			dirty = false
		}
		select {
		case err := <-stopped:
			return err
		case <-tick.C:
		}
		select {
		case <-f.changed:
			dirty = true
		default:
		}
	}
}

// whileAlive ends with the reason once the cluster does not answer, or does not allow to watch.
func (f *feed) whileAlive(ctx context.Context, c client.Client) error {
	tick := time.NewTicker(looksAlive)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-f.refused:
			return err
		case <-tick.C:
			if err := alive(ctx, c); err != nil {
				return err
			}
		}
	}
}

// newFeed watches all that a status is made of, and keeps of it only that.
func (t *target) newFeed(ctx context.Context, c client.Client) (*feed, error) {
	rc, err := t.config()
	if err != nil {
		return nil, err
	}
	scheme, err := kinds()
	if err != nil {
		return nil, err
	}
	f := &feed{changed: make(chan struct{}, 1), refused: make(chan error, 1)}
	f.cache, err = cache.New(rc, cache.Options{Scheme: scheme, DefaultTransform: slim, DefaultWatchErrorHandler: f.failed})
	if err != nil {
		return nil, unreachable(fmt.Errorf("connecting to %s: %w", rc.Host, err))
	}
	poke := func(any) {
		select {
		case f.changed <- struct{}{}:
		default:
		}
	}
	handlers := toolscache.ResourceEventHandlerFuncs{AddFunc: poke, DeleteFunc: poke, UpdateFunc: func(_, is any) { poke(is) }}
	config := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: configsMeta.APIVersion, Kind: strings.TrimSuffix(configsMeta.Kind, "List")}}
	watched := []client.Object{&v1alpha1.GitSource{}, &mcfgv1.MachineConfigPool{}, &corev1.Node{}, &v1alpha1.RolloutPolicy{}}
	known := &metav1.PartialObjectMetadataList{TypeMeta: configsMeta}
	if err := c.List(ctx, known, client.Limit(1)); !apierrors.IsForbidden(err) { // other errors show in the watch
		f.configs, watched = true, append(watched, config)
	}
	for _, o := range watched {
		informer, err := f.cache.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, unread(fmt.Sprintf("%T", o), err)
		}
		if _, err := informer.AddEventHandler(handlers); err != nil {
			return nil, fmt.Errorf("watching %T: %w", o, err)
		}
	}
	return f, nil
}

// failed takes note of a watch that is not allowed; all else is tried again, and shows in the signs of life.
func (f *feed) failed(_ context.Context, _ *toolscache.Reflector, err error) {
	if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		return
	}
	select {
	case f.refused <- unread("what changes", err):
	default:
	}
}

// read gets what the screen shows. Without permission to read MachineConfigs it shows no commits.
func (f *feed) read(ctx context.Context) (inspect.Cluster, error) {
	if f.configs {
		return read(ctx, f.cache)
	}
	out, err := readObjects(ctx, f.cache)
	out.Rendered = namedConfigs(out)
	return out, err
}

// slim drops what no screen shows: of thousands of nodes it is most.
func slim(o any) (any, error) {
	if m, ok := o.(client.Object); ok {
		m.SetManagedFields(nil)
	}
	switch o := o.(type) {
	case *corev1.Node:
		o.Annotations = ours(o.Annotations)
		o.Status = corev1.NodeStatus{Conditions: o.Status.Conditions}
	case *metav1.PartialObjectMetadata:
		o.Annotations = ours(o.Annotations)
		delete(o.Annotations, v1alpha1.InputsAnnotation)
		delete(o.Annotations, v1alpha1.FileAnnotation)
	case *v1alpha1.GitSource:
		o.Status.Inventory = nil
	}
	return o, nil
}

// ours are the annotations that Bunsen and its like wrote.
func ours(a map[string]string) map[string]string {
	a = maps.Clone(a)
	maps.DeleteFunc(a, func(key, _ string) bool {
		return !strings.HasPrefix(key, "bunsen.dev/") && !strings.HasPrefix(key, "machineconfiguration.openshift.io/") || key == v1alpha1.DriftAnnotation
	})
	return a
}
