package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// observer sees which commits the GitSources have applied.
type observer struct {
	admin client.WithWatch
	limit time.Duration

	mu      sync.Mutex
	changed chan struct{}         // closed at the next change of a GitSource
	applied map[string]seenCommit // by GitSource
}

// seenCommit is an applied commit, and when this program saw it.
type seenCommit struct {
	hash string
	at   time.Time
}

func newObserver(admin client.WithWatch, limit time.Duration) *observer {
	return &observer{admin: admin, limit: limit, changed: make(chan struct{}), applied: map[string]seenCommit{}}
}

// watch records the applied commit of each GitSource until the context ends.
func (o *observer) watch(ctx context.Context) error {
	for ctx.Err() == nil {
		w, err := o.admin.Watch(ctx, &v1alpha1.GitSourceList{})
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("watching GitSources: %w", err)
		}
		for e := range w.ResultChan() {
			if src, ok := e.Object.(*v1alpha1.GitSource); ok && e.Type != watch.Deleted {
				o.see(src, time.Now())
			}
		}
		w.Stop()
	}
	return nil
}

func (o *observer) see(src *v1alpha1.GitSource, now time.Time) {
	_, hash, _ := strings.Cut(src.Status.AppliedRevision, "@sha1:")
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.applied[src.Name].hash == hash {
		return
	}
	o.applied[src.Name] = seenCommit{hash, now}
	close(o.changed)
	o.changed = make(chan struct{})
}

// await waits until a GitSource has applied a commit, and returns when this program saw that.
func (o *observer) await(ctx context.Context, name, hash string) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("GitSource %s did not apply %s within %s", name,
		hash, o.limit))
	defer cancel()
	for {
		o.mu.Lock()
		seen, changed := o.applied[name], o.changed
		o.mu.Unlock()
		if seen.hash == hash {
			return seen.at, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return time.Time{}, context.Cause(ctx)
		}
	}
}
