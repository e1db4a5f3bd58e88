package mcs

import (
	"context"
	"slices"
	"sync"

	"github.com/bunsen-os/bunsen/api/fault"
)

// BatchWriter writes items in batches, one at a time for each key. S is what one write passes to the next of its key, T
// an item.
type BatchWriter[S, T any] struct {
	// Write returns the state for the next batch, and a result for each item or an error for all.
	Write func(ctx context.Context, state S, items []T) (next S, results []error, err error)

	writes sync.WaitGroup
	mu     sync.Mutex
	// by key, which is present while a goroutine writes its items
	waiting map[string][]*pending[T]
}

type pending[T any] struct {
	item    T
	writing bool       // writing is guarded by Writer.mu.
	done    chan error // done buffers the result.
}

// Do waits until an item is written, and returns its result. If the context ends before the write begins, there is
// none. The state is for the first write if no goroutine is writing items of the key.
func (w *BatchWriter[S, T]) Do(ctx context.Context, key string, state S, item T) error {
	p := &pending[T]{item: item, done: make(chan error, 1)}
	w.mu.Lock()
	if w.waiting == nil {
		w.waiting = map[string][]*pending[T]{}
	}
	waiting, isRunning := w.waiting[key]
	w.waiting[key] = append(waiting, p)
	if !isRunning {
		w.writes.Go(func() { w.run(context.WithoutCancel(ctx), key, state) })
	}
	w.mu.Unlock()
	select {
	case err := <-p.done:
		return err
	case <-ctx.Done():
	}
	if w.withdraw(key, p) {
		return ctx.Err()
	}
	return <-p.done // The write of the item has begun and ends soon.
}

// Wait waits for running writes.
func (w *BatchWriter[S, T]) Wait() { w.writes.Wait() }

// withdraw removes an item; false if its write has begun.
func (w *BatchWriter[S, T]) withdraw(key string, p *pending[T]) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.writing {
		return false
	}
	w.waiting[key] = slices.DeleteFunc(w.waiting[key], func(other *pending[T]) bool { return other == p })
	return true
}

// run writes the items of one key until none waits.
func (w *BatchWriter[S, T]) run(ctx context.Context, key string, state S) {
	for {
		batch := w.take(key)
		if len(batch) == 0 {
			return
		}
		items := make([]T, len(batch))
		for i, p := range batch {
			items[i] = p.item
		}
		next, results, err := w.write(ctx, state, items)
		for i, p := range batch {
			if err != nil {
				p.done <- err
				continue
			}
			p.done <- results[i]
		}
		if err == nil {
			state = next
		}
	}
}

// write makes a panic an error of these items.
func (w *BatchWriter[S, T]) write(ctx context.Context, state S, items []T) (next S, results []error, err error) {
	defer fault.Recover(&err)
	return w.Write(ctx, state, items)
}

func (w *BatchWriter[S, T]) take(key string) []*pending[T] {
	w.mu.Lock()
	defer w.mu.Unlock()
	batch := w.waiting[key]
	if len(batch) == 0 {
		delete(w.waiting, key)
		return nil
	}
	w.waiting[key] = nil
	for _, p := range batch {
		p.writing = true
	}
	return batch
}
