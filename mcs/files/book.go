package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// book is a folder of counts, one page for each token. One process at a time has it.
type book struct {
	dir  string
	lock *os.File

	writes sync.WaitGroup // of limited uses; a write goes on after its client has hung up

	mu     sync.Mutex
	counts map[page]*count
}

// page is one count's place, by the token's id and hash: a token of the same id with another secret is another one.
type page struct {
	// ID and Hash of the token.
	ID   string `json:"token"`
	Hash string `json:"hash"`
}

// line is what stands on a page.
type line struct {
	page
	Status v1alpha1.ProvisioningTokenStatus `json:"status"`
}

func openBook(dir string) (*book, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of tokens' uses: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the folder of tokens' uses: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("opening the folder of tokens' uses %s: another process counts there; a token counts in one place only", dir)
		}
		return nil, fmt.Errorf("locking the folder of tokens' uses %s: %w", dir, err)
	}
	return &book{dir: dir, lock: lock, counts: map[page]*count{}}, nil
}

// close waits for the writes under way: another process that opens the folder then must not count past them.
func (b *book) close() error {
	b.writes.Wait()
	return b.lock.Close()
}

// open returns the count of a token, which stays the same one as long as the book is open.
func (b *book) open(id, hash string) *count {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := page{id, hash}
	c := b.counts[p]
	if c == nil || c.broken != nil {
		c = &count{page: p}
		c.now, c.broken = b.read(p)
		b.counts[p] = c
	}
	return c
}

// file is where a page is. Both parts were checked: ids and hashes hold letters and digits only.
func (b *book) file(p page) string { return filepath.Join(b.dir, p.ID+"-"+p.Hash[:16]+".json") }

func (b *book) read(p page) (v1alpha1.ProvisioningTokenStatus, error) {
	name := b.file(p)
	raw, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return v1alpha1.ProvisioningTokenStatus{}, nil
	}
	if err != nil {
		return v1alpha1.ProvisioningTokenStatus{}, fmt.Errorf("reading %s: %w", name, err)
	}
	var l line
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err = dec.Decode(&l); err == nil && (l.page != p || l.Status.Used < 0) {
		err = errors.New("it is not about this token")
	}
	if err != nil {
		return v1alpha1.ProvisioningTokenStatus{}, fmt.Errorf("reading %s: %w; make a new token, or remove the file to count this one from 0", name, err)
	}
	return l.Status, nil
}

// write replaces a page. When it returns without an error the page is on disk, whatever happens to the power; after an
// error it is as it was, or as it should be.
func (b *book) write(p page, s v1alpha1.ProvisioningTokenStatus) error {
	raw, err := json.Marshal(line{p, s})
	if err != nil {
		return fmt.Errorf("writing the uses of a token: %w", err)
	}
	name := b.file(p)
	half := name + ".new" // one writer at a time for each page, and one process
	if err := writeFile(half, raw); err != nil {
		return fmt.Errorf("writing the uses of a token: %w", errors.Join(err, os.Remove(half)))
	}
	if err := os.Rename(half, name); err != nil {
		return fmt.Errorf("writing the uses of a token: %w", err)
	}
	if err := syncFile(b.dir); err != nil {
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
