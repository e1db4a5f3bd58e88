package console

import (
	"context"
	"errors"
	"sync"
	"time"
)

// FeedSource calls publish with each state, or with the reason why the state is not current, until the context ends.
type FeedSource[T any] func(ctx context.Context, publish func(state T, problem error))

// Snapshot is the newest state.
type Snapshot[T any] struct {
	// Version increases with each state and each problem; 0 if there is neither.
	Version uint64
	// Known is false if there is no State.
	State T
	Known bool
	// Problem says why the state is not current, or is nil.
	Problem error
}

// Feed runs a source while a reader holds it, and for the time linger after the last reader.
type Feed[T any] struct {
	source FeedSource[T]
	linger time.Duration

	mu      sync.Mutex
	holders int
	cancel  context.CancelFunc
	timer   *time.Timer
	now     Snapshot[T]
	version uint64
	changed chan struct{}
	closed  bool
}

// NewFeed returns a feed that starts the source for its first holder.
func NewFeed[T any](source FeedSource[T], linger time.Duration) *Feed[T] {
	return &Feed[T]{source: source, linger: linger, changed: make(chan struct{})}
}

// Hold starts the source unless it runs, and keeps it running until the caller calls release.
func (f *Feed[T]) Hold() (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holders++
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
	}
	if f.cancel == nil && !f.closed {
		ctx, cancel := context.WithCancel(context.Background())
		f.cancel = cancel
		go f.source(ctx, func(state T, problem error) { f.publish(ctx, state, problem) })
	}
	return sync.OnceFunc(f.release)
}

func (f *Feed[T]) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holders--
	if f.holders > 0 || f.closed {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(f.linger, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.timer == timer { // If the timers differ, another reader holds the feed again.
			f.stop()
		}
	})
	f.timer = timer
}

// stop stops the source and forgets its state, which is no longer current.
func (f *Feed[T]) stop() {
	if f.cancel != nil {
		f.cancel()
		f.cancel = nil
	}
	f.timer = nil
	f.now = Snapshot[T]{}
}

// Close stops the source for ever, and ends all waits.
func (f *Feed[T]) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	if f.timer != nil {
		f.timer.Stop()
	}
	f.stop()
	f.closed = true
	close(f.changed)
}

// errForget is published by a source whose last state nobody may read any more.
var errForget = errors.New("the state is to be forgotten")

// publish stores a state, or beside the last state the problem.
func (f *Feed[T]) publish(ctx context.Context, state T, problem error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil || f.closed { // The source has been stopped.
		return
	}
	if errors.Is(problem, errForget) {
		f.now = Snapshot[T]{}
		return
	}
	f.version++
	f.now.Version, f.now.Problem = f.version, problem
	if problem == nil {
		f.now.State, f.now.Known = state, true
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// ErrClosed is the error of a feed that nobody can read any more.
var ErrClosed = errors.New("the session has ended")

// Next returns the first snapshot whose version is higher than that of the caller's last one. If the context or the
// feed ends before, the error is that of the context, or ErrClosed.
func (f *Feed[T]) Next(ctx context.Context, after uint64) (Snapshot[T], error) {
	for {
		f.mu.Lock()
		snapshot, changed, closed := f.now, f.changed, f.closed
		f.mu.Unlock()
		if closed {
			return Snapshot[T]{}, ErrClosed
		}
		if snapshot.Version > after {
			return snapshot, nil
		}
		select {
		case <-ctx.Done():
			return Snapshot[T]{}, ctx.Err()
		case <-changed:
		}
	}
}
