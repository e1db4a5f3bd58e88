package files

import (
	"context"
	"sync"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/join"
)

// tokenUses counts the uses of one token.
type tokenUses struct {
	key     usesKey
	readErr error // readErr is why the count on disk is unreadable. If readErr is set, no limited use is granted.

	mu sync.Mutex
	// status is the status on disk, plus the unlimited uses that are not written yet.
	status v1alpha1.ProvisioningTokenStatus
	dirty  bool // dirty is true if there are unlimited uses that are not written yet.
}

// newUse is a use of a token that a request waits for. If newUse.use is nil, the request only causes a write of the
// unwritten uses.
type newUse struct {
	use *v1alpha1.TokenUse
	max int32
}

// snapshot returns the current status.
func (c *tokenUses) snapshot() v1alpha1.ProvisioningTokenStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *c.status.DeepCopy()
}

// raise replaces the status if the given status has more uses.
func (c *tokenUses) raise(s v1alpha1.ProvisioningTokenStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.Used > c.status.Used {
		c.status, c.dirty = *s.DeepCopy(), true
	}
}

// add counts a use of an unlimited token, which flush writes later.
func (c *tokenUses) add(use v1alpha1.TokenUse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status, c.dirty = join.AddUse(c.status, use), true
}

// hasUnwritten reports whether flush has uses to write. hasUnwritten returns false if the count on disk cannot be read,
// because such a count must not be overwritten.
func (c *tokenUses) hasUnwritten() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dirty && c.readErr == nil
}

// with returns the status after a batch of uses, a result for each use, and whether the status must be written.
func (c *tokenUses) with(batch []newUse) (s v1alpha1.ProvisioningTokenStatus, results []error, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, isNew = c.status, c.dirty
	results = make([]error, len(batch))
	for i, n := range batch {
		switch {
		case n.use == nil:
		case s.Used >= n.max:
			results[i] = &join.InvalidError{ID: c.key.ID, Reason: join.UsedUp}
		default:
			s, isNew = join.AddUse(s, *n.use), true
		}
	}
	c.dirty = false
	return s, results, isNew
}

// writeBatch counts all uses of a batch with one write.
func (d *usesDir) writeBatch(_ context.Context, c *tokenUses, batch []newUse) (*tokenUses, []error, error) {
	s, results, isNew := c.with(batch)
	if !isNew {
		return c, results, nil
	}
	err := d.write(c.key, s)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.dirty = true // The next flush writes the unlimited uses.
		return nil, nil, err
	}
	for i, n := range batch {
		if n.use != nil && results[i] == nil {
			// This line starts from c.status and not from s, because add may have been called during the write.
			c.status = join.AddUse(c.status, *n.use)
		}
	}
	return c, results, nil
}
