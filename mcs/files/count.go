package files

import (
	"context"
	"sync"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/token"
)

// count is how often one token was used. Many may ask at once; whoever comes while a write is under way waits for the next
// one, which is for all of them: a thousand machines of one token cost far fewer than a thousand writes.
type count struct {
	page   page  // where it is on disk
	broken error // why the disk does not tell the count; then no limited use is granted

	mu      sync.Mutex
	now     v1alpha1.ProvisioningTokenStatus // as on disk, and uses that nobody waits for
	dirty   bool                             // there are such
	waiting []*claim
	busy    bool // somebody writes
}

// claim is one use that somebody waits for.
type claim struct {
	use     v1alpha1.TokenUse
	most    int32
	granted bool
	err     error
	done    chan struct{}
}

// status is the count at this moment.
func (c *count) status() v1alpha1.ProvisioningTokenStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *c.now.DeepCopy()
}

// atLeast takes over a count of elsewhere where it is the higher one.
func (c *count) atLeast(s v1alpha1.ProvisioningTokenStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.Used > c.now.Used {
		c.now, c.dirty = *s.DeepCopy(), true
	}
}

// note counts a use that is written later.
func (c *count) note(use v1alpha1.TokenUse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.dirty = token.Count(c.now, use), true
}

// flush writes what was noted.
func (c *count) flush(b *book) error {
	c.mu.Lock()
	if !c.dirty || c.busy || c.broken != nil {
		c.mu.Unlock()
		return nil // next time, or never: a count that cannot be read is not written over
	}
	c.dirty, c.busy = false, true
	s := c.now
	c.mu.Unlock()
	err := b.write(c.page, s)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dirty = c.dirty || err != nil
	c.next(b)
	return err
}

// take counts a use if fewer than most were counted, and returns when that is on disk. The context ends the waiting, not
// the counting.
func (c *count) take(ctx context.Context, b *book, most int32, use v1alpha1.TokenUse) (granted bool, err error) {
	if c.broken != nil {
		return false, c.broken
	}
	mine := &claim{use: use, most: most, done: make(chan struct{})}
	c.mu.Lock()
	c.waiting = append(c.waiting, mine)
	if !c.busy {
		c.next(b)
	}
	c.mu.Unlock()
	select {
	case <-mine.done:
		return mine.granted, mine.err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// next has the waiting ones served, or says that nobody writes any more. The caller holds mu.
func (c *count) next(b *book) {
	if c.busy = len(c.waiting) > 0; c.busy {
		batch := c.waiting
		c.waiting = nil
		b.writes.Go(func() { c.serve(b, batch) })
	}
}

// serve counts for all of a batch, writes once, and then tells them.
func (c *count) serve(b *book, batch []*claim) {
	c.mu.Lock()
	s, noted := c.now, c.dirty
	c.dirty = false
	before := s.Used
	for _, w := range batch {
		if w.granted = s.Used < w.most; w.granted {
			s = token.Count(s, w.use)
		}
	}
	c.mu.Unlock()
	var err error
	if s.Used != before {
		err = b.write(c.page, s)
	}
	c.mu.Lock()
	c.dirty = c.dirty || noted && (err != nil || s.Used == before)
	for _, w := range batch {
		switch {
		case err != nil && w.granted:
			w.granted, w.err = false, err
		case w.granted:
			c.now = token.Count(c.now, w.use) // not s: something may have been noted meanwhile
		}
	}
	c.next(b)
	c.mu.Unlock()
	for _, w := range batch {
		close(w.done)
	}
}
