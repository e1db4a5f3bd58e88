package files

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/join"
)

// usesDir has one file for the uses of each token. Only one process at a time may have it open.
type usesDir struct {
	dir  string
	lock *os.File

	batches mcs.BatchWriter[*tokenUses, newUse] // A write continues after its client has disconnected.

	mu   sync.Mutex
	uses map[usesKey]*tokenUses
}

// usesKey identifies a token. One with the same id and another secret is a different token.
type usesKey struct {
	ID   string `json:"token"`
	Hash string `json:"hash"`
}

type usesFile struct {
	usesKey
	Status v1alpha1.ProvisioningTokenStatus `json:"status"`
}

// close waits for running writes, so that the next process counts them.
func (d *usesDir) close() error {
	d.batches.Wait()
	return d.lock.Close()
}

// open returns the same object for all calls of one token.
func (d *usesDir) open(id, hash string) *tokenUses {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := usesKey{id, hash}
	c := d.uses[key]
	if c == nil || c.readErr != nil {
		c = &tokenUses{key: key}
		c.status, c.readErr = d.read(key)
		d.uses[key] = c
	}
	return c
}

// count returns after the use is on disk, if there are fewer than max.
func (d *usesDir) count(ctx context.Context, c *tokenUses, max int32, use v1alpha1.TokenUse) error {
	if c.readErr != nil {
		return c.readErr
	}
	return d.batches.Do(ctx, d.file(c.key), c, newUse{&use, max})
}

func (d *usesDir) flush(c *tokenUses) error {
	if !c.hasUnwritten() {
		return nil
	}
	return d.batches.Do(context.Background(), d.file(c.key), c, newUse{})
}

// file returns a token's path, which is safe: ids and hashes are validated, and consist of letters and digits.
func (d *usesDir) file(key usesKey) string {
	return filepath.Join(d.dir, key.ID+"-"+key.Hash[:16]+".json")
}

func (d *usesDir) read(key usesKey) (v1alpha1.ProvisioningTokenStatus, error) {
	name := d.file(key)
	raw, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return v1alpha1.ProvisioningTokenStatus{}, nil
	}
	if err != nil {
		return v1alpha1.ProvisioningTokenStatus{}, fmt.Errorf("reading %s: %w", name, err)
	}
	var l usesFile
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err = dec.Decode(&l); err == nil && (l.usesKey != key || l.Status.Used < 0) {
		err = errors.New("it is about another token")
	}
	if err != nil {
		return v1alpha1.ProvisioningTokenStatus{},
			fmt.Errorf("reading %s: %w; create a new token, or remove the file to count this one from 0", name, err)
	}
	return l.Status, nil
}

// write replaces a token's file, which survives a power loss after nil. After an error, it has the old or the new
// content.
func (d *usesDir) write(key usesKey, s v1alpha1.ProvisioningTokenStatus) error {
	raw, err := json.Marshal(usesFile{key, s})
	if err != nil {
		return fmt.Errorf("writing the uses of a token: %w", err)
	}
	name := d.file(key)
	// Safe: one process uses the directory, and each file has one writer at a time.
	half := name + ".new"
	if err := writeFile(half, raw); err != nil {
		return fmt.Errorf("writing the uses of a token: %w", errors.Join(err, os.Remove(half)))
	}
	if err := os.Rename(half, name); err != nil {
		return fmt.Errorf("writing the uses of a token: %w", err)
	}
	if err := syncFile(d.dir); err != nil {
		return fmt.Errorf("writing the uses of a token: %w", err)
	}
	return nil
}

func writeFile(name string, raw []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

type tokenUses struct {
	key     usesKey
	readErr error // readErr is why the count on disk is unreadable. If readErr is set, no limited use is granted.

	mu sync.Mutex
	// on disk, plus the unlimited uses that are not written yet
	status v1alpha1.ProvisioningTokenStatus
	dirty  bool // dirty is true if there are unlimited uses that are not written yet.
}

// newUse is a use that a request waits for, or with a nil use only a write of the unwritten ones.
type newUse struct {
	use *v1alpha1.TokenUse
	max int32
}

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

// hasUnwritten reports whether flush has uses to write. It is false if the count on disk cannot be read, which must not
// be overwritten then.
func (c *tokenUses) hasUnwritten() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dirty && c.readErr == nil
}

// with returns the status after a batch, a result for each use, and whether it must be written.
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
			// Not from s, because add may have been called during the write.
			c.status = join.AddUse(c.status, *n.use)
		}
	}
	return c, results, nil
}
