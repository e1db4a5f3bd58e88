package copies

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/mcs"
)

const (
	// readTimeout limits the time in which one file is read from the API server.
	readTimeout = 10 * time.Minute
	// answerTimeout is how long a request waits for a file that is being read. Ignition waits 10 s for headers.
	answerTimeout = 8 * time.Second
	// retryAfter is how long the reason of a failure answers further requests, so that a file with a missing chunk does not
	// cause endless reads.
	retryAfter = 5 * time.Second
	// maxReads is how many files are read at a time.
	maxReads = 2
)

// tempPrefix begins the name of a file that is being written.
const tempPrefix = ".new-"

// Options of Copies. All are required.
type Options struct {
	// Dir is a directory of this server alone.
	Dir string
	// Max is the largest size of all copies in bytes.
	Max int64
	// Log gets each failure.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Copies are copies of files of the content store. Its methods may be called concurrently.
//
// Reads: Content, ContentChunk (get).
type Copies struct {
	Options
	api   api
	reads chan struct{} // limits the reads

	mu sync.Mutex
	// known are the verified copies, by hash. pending are the running reads, and failed the last failures.
	known   map[string]*entry
	pending map[string]*read
	failed  map[string]failure
}

// entry is a verified copy.
type entry struct {
	size int64
	used time.Time
}

// read is a running read of a file. err is set before done is closed.
type read struct {
	done chan struct{}
	err  error
}

// failure is why a file could not be read.
type failure struct {
	at  time.Time
	err error
}

// New prepares to read an API server. It creates the directory, and removes what a crash left there.
func New(config *rest.Config, o Options) (*Copies, error) {
	api, err := newAPI(config)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory for files of the content store: %w", err)
	}
	entries, err := os.ReadDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("reading the directory for files of the content store: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) {
			continue
		}
		if err := os.Remove(filepath.Join(o.Dir, e.Name())); err != nil {
			return nil, fmt.Errorf("removing an incomplete file: %w", err)
		}
	}
	return &Copies{
		Options: o, api: api, reads: make(chan struct{}, maxReads),
		known: map[string]*entry{}, pending: map[string]*read{}, failed: map[string]failure{},
	}, nil
}

// errReading says that the file is being read from the API server.
var errReading = errors.New("the server reads the file from the API server now: retry later")

// Open returns the file with a hash, and its size. The caller closes it. The error wraps mcs.ErrContentUnavailable if the file
// cannot be served now.
func (c *Copies) Open(ctx context.Context, hash string) (*os.File, int64, error) {
	if !machineconfig.IsStoredHash(hash) {
		return nil, 0, fmt.Errorf("reading file %q of the content store: %w", mcs.SafeName(hash), mcs.ErrContentUnavailable)
	}
	if f, size := c.openKnown(hash); f != nil {
		return f, size, nil
	}
	r := c.begin(ctx, hash)
	timeout := time.NewTimer(answerTimeout)
	defer timeout.Stop()
	err := errReading
	select {
	case <-r.done:
		err = r.err
	case <-timeout.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil {
		if f, size := c.openKnown(hash); f != nil {
			return f, size, nil
		}
		err = errReading // it was removed at once, because others were needed
	}
	return nil, 0, fmt.Errorf("%w: %w", mcs.ErrContentUnavailable, err)
}

// openKnown opens a verified copy; nil if there is none.
func (c *Copies) openKnown(hash string) (*os.File, int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.known[hash]
	if e == nil {
		return nil, 0
	}
	f, err := os.Open(c.path(hash))
	if err == nil {
		if is, bad := f.Stat(); bad == nil && is.Size() == e.size {
			e.used = c.Now()
			return f, e.size
		}
		f.Close() //nolint:errcheck,gosec // only read
	}
	delete(c.known, hash) // another process removed or truncated the copy
	return nil, 0
}

// begin starts a read, or returns the running read or the last failure.
func (c *Copies) begin(ctx context.Context, hash string) *read {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.pending[hash]; r != nil {
		return r
	}
	r := &read{done: make(chan struct{})}
	if last, ok := c.failed[hash]; ok && c.Now().Sub(last.at) < retryAfter {
		r.err = last.err
		close(r.done)
		return r
	}
	delete(c.failed, hash)
	c.pending[hash] = r
	go c.run(context.WithoutCancel(ctx), hash, r) // A client that disconnects does not end it: others wait for the file.
	return r
}

// run reads a file, and ends its read.
func (c *Copies) run(ctx context.Context, hash string, r *read) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	c.reads <- struct{}{}
	size, err := c.copy(ctx, hash)
	<-c.reads
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.known[hash] = &entry{size, c.Now()}
	} else {
		if len(c.failed) > maxFailures {
			clear(c.failed)
		}
		c.failed[hash] = failure{c.Now(), err}
		c.Log.Error("a file of the content store cannot be served; machines and nodes that need it retry", "content", hash, "error", err)
	}
	r.err = err
	delete(c.pending, hash)
	close(r.done)
}

// maxFailures limits how many failures are remembered. Only files that configs name are read.
const maxFailures = 1024

func (c *Copies) path(hash string) string { return filepath.Join(c.Dir, hash) }
