package polling

import (
	"context"
	"fmt"
	"sync"

	"github.com/bunsen-os/bunsen/source"
)

// maxEvidence is how many bytes of evidence are stored for one repository. Evidence usually has a few commits.
const maxEvidence = 64 << 10

// Evidence has the last evidence of repositories. The zero value is ready for use. It is safe for concurrent use.
type Evidence struct {
	mu    sync.Mutex
	known map[string]pickedEvidence // by repository
	calls map[string]*evidenceCall
}

type pickedEvidence struct {
	of source.Picked
	source.Evidence
}

// evidenceCall is one read that is under way. Its results are valid after done is closed.
type evidenceCall struct {
	done chan struct{}
	pickedEvidence
	err error
	// abandoned: the context of the source that reads ended.
	abandoned bool
}

// Read returns the evidence of a picked commit. The key is that of the function Key. If another source of the repository reads or read the
// same, Read uses that. Otherwise it calls read. An error of read goes to the sources that waited for that call, unless its own context
// ended it.
//
// The objects of a commit never change. Evidence without the relation to the applied commit is not stored, because a server may send it
// the next time.
func (e *Evidence) Read(ctx context.Context, key string, p source.Picked, read func(context.Context, source.Picked) (source.Evidence, error)) (source.Evidence, error) {
	for {
		e.mu.Lock()
		if known, ok := e.known[key]; ok && known.of == p {
			e.mu.Unlock()
			return known.Evidence, nil
		}
		running := e.calls[key]
		if running == nil || running.of != p {
			mine := &evidenceCall{done: make(chan struct{}), pickedEvidence: pickedEvidence{of: p}, err: errInterrupted}
			if e.calls == nil {
				e.calls, e.known = map[string]*evidenceCall{}, map[string]pickedEvidence{}
			}
			e.calls[key] = mine
			e.mu.Unlock()
			defer e.end(ctx, key, mine)
			mine.Evidence, mine.err = read(ctx, p)
			return mine.Evidence, mine.err
		}
		e.mu.Unlock()
		select {
		case <-running.done:
			if !running.abandoned {
				return running.Evidence, running.err
			}
		case <-ctx.Done():
			return source.Evidence{}, fmt.Errorf("waiting for another source that reads the commits of %s: %w", p.Revision().Short(), context.Cause(ctx))
		}
	}
}

// end stores the evidence of a call, and wakes the sources that wait.
func (e *Evidence) end(ctx context.Context, key string, mine *evidenceCall) {
	e.mu.Lock()
	defer e.mu.Unlock()
	mine.abandoned = mine.err != nil && ctx.Err() != nil
	if e.calls[key] == mine {
		delete(e.calls, key)
	}
	close(mine.done)
	if mine.err != nil || size(mine.Evidence) > maxEvidence || mine.of.Applied != "" && mine.Descent == source.Unknown {
		return
	}
	for other := range e.known { // in any order
		if len(e.known) < maxRepositories {
			break
		}
		delete(e.known, other)
	}
	e.known[key] = mine.pickedEvidence
}

func size(e source.Evidence) int {
	n := len(e.Commit) + len(e.Tag)
	for _, raw := range e.Added {
		n += len(raw)
	}
	return n
}
