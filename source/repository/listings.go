package repository

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/source"
)

// maxRepositories is how many repositories Listings stores. Above this number, Listings deletes the repository that was
// polled longest ago.
const maxRepositories = 1000

// Listings stores the last listings of each repository. The zero value of Listings is ready for use. Listings is safe
// for concurrent use.
type Listings struct {
	mu    sync.Mutex
	known map[string]*repository
}

// Request is a poll of a repository.
type Request struct {
	source.Poll
	// Key identifies the repository and everything on which its answer depends, as the function Key returns it.
	Key string
	// Prefixes cover the names of all refs that the source needs: each name begins with one of them.
	Prefixes []string
}

// ListingKey returns a text that identifies a repository together with its credentials. The text is a digest, so it
// contains no secret. Each argument is the data of a Secret. nil and an empty Secret give different keys.
func ListingKey(url string, secrets ...map[string][]byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q", url)
	for _, data := range secrets {
		fmt.Fprintf(h, " %t %d", data == nil, len(data))
		for _, name := range slices.Sorted(maps.Keys(data)) {
			fmt.Fprintf(h, " %q=%q", name, data[name])
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// List returns the refs of a repository that a source needs. List uses a listing that began no earlier than NotBefore,
// and within the shortest interval of the repository's sources. If such a listing is under way, List waits for it, but
// not longer than its own context. Otherwise List calls the function list, for a poll with the prefixes of all sources
// of the repository.
//
// If list fails, all sources that waited for this call get the error, and List does not store it. If list fails because
// the context of its source ended, one of the waiting sources calls its own list instead.
func (l *Listings) List(ctx context.Context, r Request,
	list func(ctx context.Context, prefixes []string) ([]source.Ref, error),
) (source.Listing, error) {
	for {
		found, running, mine := l.next(r)
		switch {
		case found != nil:
			return *found, nil
		case mine != nil:
			return l.run(ctx, mine, r, list)
		}
		select {
		case <-running.done:
			switch {
			case running.err == nil:
				return source.Listing{Refs: matching(running.refs, r.Prefixes), At: running.at}, nil
			case !running.abandoned:
				return source.Listing{}, running.err
			}
		case <-ctx.Done():
			return source.Listing{}, fmt.Errorf("waiting for a listing of the same repository that began at %s: %w",
				running.at.UTC().Format(time.RFC3339), context.Cause(ctx))
		}
	}
}

// next returns one of three: a stored answer, a call under way whose answer the caller can use, or a new call that the
// caller must run.
func (l *Listings) next(r Request) (*source.Listing, *call, *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	repo := l.repository(r.Key)
	repo.register(r)
	notBefore := repo.notBefore(r)
	if found, ok := repo.answer(r.Prefixes, notBefore); ok {
		return &found, nil, nil
	}
	if running := repo.joinable(r, notBefore); running != nil {
		return nil, running, nil
	}
	mine := &call{repo: repo, at: r.Now, prefixes: repo.union(r), done: make(chan struct{})}
	repo.calls = append(repo.calls, mine)
	return nil, nil, mine
}

// run calls list, stores the answer, and wakes the sources that wait for the call.
func (l *Listings) run(ctx context.Context, mine *call, r Request,
	list func(context.Context, []string) ([]source.Ref, error),
) (source.Listing, error) {
	mine.err = errInterrupted
	defer func() {
		mine.abandoned = ctx.Err() != nil
		l.mu.Lock()
		mine.repo.end(mine, len(mine.prefixes) > len(r.Prefixes))
		if l.stored() > maxStored {
			mine.repo.drop()
		}
		l.mu.Unlock()
		close(mine.done)
	}()
	mine.refs, mine.err = list(ctx, mine.prefixes)
	if mine.err != nil {
		return source.Listing{}, mine.err
	}
	return source.Listing{Refs: matching(mine.refs, r.Prefixes), At: mine.at}, nil
}

// stored returns about how many bytes the answers of all repositories have.
func (l *Listings) stored() (bytes int) {
	for _, repo := range l.known {
		bytes += repo.stored
	}
	return bytes
}

// repository returns the entry of a repository. If there are too many repositories, the method deletes the repository
// that was polled longest ago.
func (l *Listings) repository(key string) *repository {
	if repo, ok := l.known[key]; ok {
		return repo
	}
	if l.known == nil {
		l.known = map[string]*repository{}
	}
	if len(l.known) >= maxRepositories {
		oldest := ""
		for key, repo := range l.known {
			if oldest == "" || repo.polled.Before(l.known[oldest].polled) {
				oldest = key
			}
		}
		delete(l.known, oldest)
	}
	repo := &repository{answers: map[string]source.Listing{}, sharers: map[string]sharer{}}
	l.known[key] = repo
	return repo
}

// maxEvidence is how many bytes of evidence are stored for one repository. The evidence of a source usually has a few
// commits.
const maxEvidence = 64 << 10

// Evidence stores the last evidence of each repository. The zero value of Evidence is ready for use. Evidence is safe
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

// Read returns the evidence of a picked commit. The parameter key is the result of the function Key. If another source
// of the repository reads or has read the same evidence, Read returns this evidence. Otherwise Read calls the function
// read. If that call fails, all sources that waited for it get its error, unless the context of the call has ended.
//
// The objects of a commit never change. Read does not store evidence without the relation to the applied commit,
// because a server may send the missing history the next time.
func (e *Evidence) Read(ctx context.Context, key string, p source.Picked,
	read func(context.Context, source.Picked) (source.Evidence, error),
) (source.Evidence, error) {
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
