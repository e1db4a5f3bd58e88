package mcs

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Turns limits how much work of each key runs at a time. Work that waits for the same key gets its turns in order. The
// zero value is ready to use, and Take may be called concurrently.
type Turns struct {
	mu   sync.Mutex
	keys map[any]*turnsOfKey
}

type turnsOfKey struct {
	*semaphore.Weighted
	// waiting or running; without any, the key is forgotten
	work int
}

// Limit is how much work of a key may run at a time: always the same number for one key.
type Limit struct {
	Key  any
	Most int64
}

// Take waits for a turn of each key, in this order. The caller calls end after its work. The error is that of the
// context.
func (t *Turns) Take(ctx context.Context, limits ...Limit) (end func(), err error) {
	var taken []func()
	end = func() {
		for _, end := range taken {
			end()
		}
	}
	for _, l := range limits {
		of := t.enter(l)
		if err := of.Acquire(ctx, 1); err != nil {
			t.leave(l.Key, of)
			end()
			return nil, err
		}
		taken = append(taken, func() {
			of.Release(1)
			t.leave(l.Key, of)
		})
	}
	return end, nil
}

func (t *Turns) enter(l Limit) *turnsOfKey {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keys == nil {
		t.keys = map[any]*turnsOfKey{}
	}
	of := t.keys[l.Key]
	if of == nil {
		of = &turnsOfKey{Weighted: semaphore.NewWeighted(l.Most)}
		t.keys[l.Key] = of
	}
	of.work++
	return of
}

func (t *Turns) leave(key any, of *turnsOfKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if of.work--; of.work == 0 {
		delete(t.keys, key)
	}
}
