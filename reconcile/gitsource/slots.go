package gitsource

import (
	"context"
	"fmt"
)

// Slots is a semaphore. The capacity of Slots is the number of goroutines that may hold a slot at a time. A nil Slots
// means no limit.
type Slots chan struct{}

// acquire waits for a slot.
func (s Slots) acquire(ctx context.Context) error {
	if s == nil {
		return nil
	}
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for other sources to be applied: %w", context.Cause(ctx))
	}
}

// release returns a slot.
func (s Slots) release() {
	if s != nil {
		<-s
	}
}
