package repository

import (
	"context"
	"fmt"
	"sync"

	"github.com/bunsen-os/bunsen/source"
)

// maxEvidence is how many bytes of evidence are stored for one repository. The evidence of a source usually has a few
// commits.
const maxEvidence = 64 << 10

// Evidence stores the last evidence of each repository. The zero value is ready for use; nil stores nothing. It is safe
// for concurrent use.
type Evidence struct {
	mu    sync.Mutex
	known map[string]pickedEvidence // the last evidence, by the key of the repository
	calls map[string]*evidenceCall
}

type pickedEvidence struct {
	of source.Picked
	source.Evidence
}

// evidenceCall is one call of read that is under way. The results are valid after done is closed.
type evidenceCall struct {
	done chan struct{}
	pickedEvidence
	err error
	// abandoned is true if the call ended because the context of the source that called read ended.
	abandoned bool
}

// Read returns the evidence of a picked commit. The parameter key is the result of ListingKey. If another source of
// the repository reads or has read the same evidence, Read returns this evidence. Otherwise Read calls the function
// read. If that call fails, all sources that waited for it get its error, unless the context of the call has ended.
//
// The objects of a commit never change. Read does not store evidence without the relation to the applied commit,
// because a server may send the missing history the next time.
func (e *Evidence) Read(ctx context.Context, key string, p source.Picked,
	read func(context.Context, source.Picked) (source.Evidence, error),
) (source.Evidence, error) {
	if e == nil {
		return read(ctx, p)
	}
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
			return source.Evidence{}, fmt.Errorf("waiting for another source that reads the commits of %s: %w",
				p.Revision().Short(), context.Cause(ctx))
		}
	}
}

// end stores the evidence of a call, and wakes the sources that wait for the call.
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
	for other := range e.known { // If there are too many entries, end deletes any of them.
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
