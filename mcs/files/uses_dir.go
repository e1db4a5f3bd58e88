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
	"syscall"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
)

// usesDir is a directory with one file for the uses of each token. Only one process at a time may have the directory
// open.
type usesDir struct {
	dir  string
	lock *os.File

	batches mcs.BatchWriter[*tokenUses, newUse] // A write continues after its client has disconnected.

	mu   sync.Mutex
	uses map[usesKey]*tokenUses
}

// usesKey identifies a token by its id and hash. A token with the same id and another secret is a different token.
type usesKey struct {
	// ID and Hash are the id and the hash of the token.
	ID   string `json:"token"`
	Hash string `json:"hash"`
}

// usesFile is the content of a file with the uses of a token.
type usesFile struct {
	usesKey
	Status v1alpha1.ProvisioningTokenStatus `json:"status"`
}

func openUsesDir(dir string) (*usesDir, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory of token uses: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the directory of token uses: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("opening the directory of token uses %s: another process uses it; run one server "+
				"for a token", dir)
		}
		return nil, fmt.Errorf("locking the directory of token uses %s: %w", dir, err)
	}
	d := &usesDir{dir: dir, lock: lock, uses: map[usesKey]*tokenUses{}}
	d.batches.Write = d.writeBatch
	return d, nil
}

// close waits for running writes, so that the next process counts them.
func (d *usesDir) close() error {
	d.batches.Wait()
	return d.lock.Close()
}

// open returns the uses of a token. All calls for one token return the same object.
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

// count counts a use of a token if there are fewer than max uses, and returns after the use is on disk.
func (d *usesDir) count(ctx context.Context, c *tokenUses, max int32, use v1alpha1.TokenUse) error {
	if c.readErr != nil {
		return c.readErr
	}
	return d.batches.Do(ctx, d.file(c.key), c, newUse{&use, max})
}

// flush writes the unlimited uses of a token.
func (d *usesDir) flush(c *tokenUses) error {
	if !c.hasUnwritten() {
		return nil
	}
	return d.batches.Do(context.Background(), d.file(c.key), c, newUse{})
}

// file returns the path of a token's file. The path is safe because ids and hashes are validated: they consist of
// letters and digits.
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

// write replaces a token's file. After write has returned nil, the file survives a power loss. After an error, the file
// has the old or the new content.
func (d *usesDir) write(key usesKey, s v1alpha1.ProvisioningTokenStatus) error {
	raw, err := json.Marshal(usesFile{key, s})
	if err != nil {
		return fmt.Errorf("writing the uses of a token: %w", err)
	}
	name := d.file(key)
	// A fixed name is safe, because only one process uses the directory, and each file has only one writer at a time.
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
