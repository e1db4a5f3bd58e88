package kstatus

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// watched are the kinds whose versions a Watcher checks.
var watched = []schema.GroupVersionResource{
	{Group: "bunsen.dev", Version: "v1alpha1", Resource: "gitsources"},
	{Group: "bunsen.dev", Version: "v1alpha1", Resource: "bunsenstatuses"},
	{Group: "machineconfiguration.openshift.io", Version: "v1", Resource: "machineconfigpools"},
}

// Watcher checks each version of the watched objects of one API server.
type Watcher struct {
	cancel func()
	clock  func() time.Time
	done   sync.WaitGroup

	mu sync.Mutex
	// last has the newest version of each object, by its UID.
	last   map[string]*unstructured.Unstructured
	broken []string
	// Versions is how many versions of objects with conditions were checked. Read it after Stop.
	Versions int
}

// Watch checks all versions of the objects from now on. Their CRDs must exist. The clock is that of the controllers; if
// it is nil, Watch does not check how long a status lasts. It fails if it cannot list a kind.
func Watch(c dynamic.Interface, clock func() time.Time) (*Watcher, error) {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Watcher{cancel: cancel, clock: clock, last: map[string]*unstructured.Unstructured{}}
	for _, kind := range watched {
		stream, err := w.open(ctx, c.Resource(kind))
		if err != nil {
			cancel()
			return nil, fmt.Errorf("watching %s: %w", kind.Resource, err)
		}
		w.done.Go(func() { w.follow(ctx, c.Resource(kind), stream) })
	}
	return w, nil
}

// open lists a kind, checks the objects, and watches it from there.
func (w *Watcher) open(ctx context.Context, kind dynamic.ResourceInterface) (watch.Interface, error) {
	list, err := kind.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		w.check(&list.Items[i])
	}
	return kind.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
}

// follow checks what a watch reports. The API server ends a watch after some minutes; follow then opens the next one.
// It ends when the kind or the API server is gone.
func (w *Watcher) follow(ctx context.Context, kind dynamic.ResourceInterface, stream watch.Interface) {
	for {
		for event := range stream.ResultChan() {
			o, ok := event.Object.(*unstructured.Unstructured)
			switch {
			case !ok:
			case event.Type == watch.Deleted:
				w.forget(o)
			case event.Type != watch.Error:
				w.check(o)
			}
		}
		var err error
		if stream, err = w.open(ctx, kind); err != nil {
			if ctx.Err() == nil && !apierrors.IsNotFound(err) {
				w.add(fmt.Sprintf("the watch ended: %v", err))
			}
			return
		}
	}
}

func (w *Watcher) add(broken ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, text := range broken {
		if !slices.Contains(w.broken, text) {
			w.broken = append(w.broken, text)
		}
	}
}

func (w *Watcher) forget(o *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.last, string(o.GetUID()))
}

func (w *Watcher) check(o *unstructured.Unstructured) {
	w.mu.Lock()
	before := w.last[string(o.GetUID())]
	w.last[string(o.GetUID())] = o
	w.Versions++
	w.mu.Unlock()
	broken, err := Check(before, o)
	if err != nil {
		broken = append(broken, err.Error())
	}
	w.add(broken...)
	w.lasting(before)
}

// lasting checks how long a version was the newest one.
func (w *Watcher) lasting(o *unstructured.Unstructured) {
	if o == nil || w.clock == nil {
		return
	}
	broken, err := Lasting(o, w.clock())
	if err != nil {
		broken = append(broken, err.Error())
	}
	w.add(broken...)
}

// Stop ends the watches and returns the broken rules, each once. A nil Watcher has none.
func (w *Watcher) Stop() []string {
	if w == nil {
		return nil
	}
	w.cancel()
	w.done.Wait()
	for _, o := range w.last {
		w.lasting(o)
	}
	return w.broken
}
