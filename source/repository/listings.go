package repository

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/source"
)

const (
	// maxPrefixes is how many prefixes of other sources one call of list gets.
	maxPrefixes = 100
	// maxAge is the age of a call of list up to which another source waits for the call. The server may have lost the
	// request of an older call.
	maxAge = 5 * time.Second
	// maxListing is how many bytes of refs are stored for one prefix, and maxStored for all repositories, because a
	// server decides how many refs it sends.
	maxListing, maxStored = 4 << 20, 64 << 20
	// aloneFor is how long each source asks only for its own refs after a call for several sources failed.
	aloneFor = time.Hour
)

// maxRepositories is how many repositories Listings stores. Above this number, Listings deletes the repository that was
// polled longest ago.
const maxRepositories = 1000

// Listings stores the last listings of each repository. The zero value is ready for use; nil stores nothing. It is safe
// for concurrent use.
type Listings struct {
	mu    sync.Mutex
	known map[string]*listed
}

// Request is a poll of a repository.
type Request struct {
	source.Poll
	// Key identifies the repository and everything on which its answer depends, as ListingKey returns it.
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
	if l == nil {
		refs, err := list(ctx, r.Prefixes)
		return source.Listing{Refs: refs, At: r.Now}, err
	}
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
	repo := l.entry(r.Key)
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

// entry returns the entry of a repository. If there are too many repositories, the method deletes the repository
// that was polled longest ago.
func (l *Listings) entry(key string) *listed {
	if repo, ok := l.known[key]; ok {
		return repo
	}
	if l.known == nil {
		l.known = map[string]*listed{}
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
	repo := &listed{answers: map[string]source.Listing{}, sharers: map[string]sharer{}}
	l.known[key] = repo
	return repo
}

// listed is the entry of Listings for one repository with one set of credentials.
type listed struct {
	polled  time.Time
	answers map[string]source.Listing // the last listings, by prefix
	stored  int                       // about how many bytes the answers have
	sharers map[string]sharer         // the sharers, by the name of their source
	calls   []*call                   // the calls of list that are under way
	// aloneUntil is until when a call asks for the refs of one source only.
	aloneUntil time.Time
}

// sharer is a source that polls the repository. A sharer counts until two of its intervals have passed since its last
// poll.
type sharer struct {
	until    time.Time
	interval time.Duration
	prefixes []string
}

// call is one call of list that is under way. The results are valid after done is closed.
type call struct {
	repo     *listed
	at       time.Time
	prefixes []string

	done chan struct{}
	refs []source.Ref
	err  error
	// abandoned is true if the call ended because the context of the source that called list ended.
	abandoned bool
}

// errInterrupted is the error of a call whose function list panicked.
var errInterrupted = errors.New("listing the refs: the listing did not return")

// register records a poll, and forgets the sources that no longer poll.
func (r *listed) register(q Request) {
	r.polled = q.Now
	for name, s := range r.sharers {
		if s.until.Before(q.Now) {
			delete(r.sharers, name)
		}
	}
	r.sharers[q.Source] = sharer{q.Now.Add(2 * q.Interval), q.Interval, q.Prefixes}
}

// notBefore returns the earliest time at which a listing may have begun so that the poll can use it.
func (r *listed) notBefore(q Request) time.Time {
	shortest := q.Interval
	for _, s := range r.sharers {
		shortest = min(shortest, s.interval)
	}
	if oldest := q.Now.Add(-shortest); oldest.After(q.NotBefore) {
		return oldest
	}
	return q.NotBefore
}

// answer returns the refs with the prefixes, if each prefix has a listing that the poll can use. The time of the result
// is the time of the oldest listing.
func (r *listed) answer(prefixes []string, notBefore time.Time) (source.Listing, bool) {
	var refs []source.Ref
	var at time.Time
	for _, p := range prefixes {
		a, ok := r.answers[p]
		if !ok || a.At.Before(notBefore) {
			return source.Listing{}, false
		}
		if at.IsZero() || a.At.Before(at) {
			at = a.At
		}
		refs = append(refs, a.Refs...)
	}
	byName := func(a, b source.Ref) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortStableFunc(refs, byName)
	return source.Listing{
		Refs: slices.CompactFunc(refs, func(a, b source.Ref) bool { return a.Name == b.Name }),
		At:   at,
	}, len(prefixes) > 0
}

// joinable returns a call under way whose answer the poll can use, or nil.
func (r *listed) joinable(q Request, notBefore time.Time) *call {
	for _, running := range r.calls {
		if !running.at.Before(notBefore) && q.Now.Sub(running.at) <= maxAge && contains(running.prefixes, q.Prefixes) {
			return running
		}
	}
	return nil
}

// union returns the prefixes of a poll, and those of the other sources. For a poll that uses no earlier listing, union
// returns only the poll's own prefixes, because this poll is urgent.
func (r *listed) union(q Request) []string {
	all := slices.Clone(q.Prefixes)
	if q.NotBefore.Equal(q.Now) || q.Now.Before(r.aloneUntil) {
		return all
	}
	for _, s := range r.sharers {
		for _, p := range s.prefixes {
			if len(all) < maxPrefixes && !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	return all
}

// end stores the answer of a call, unless the answer is too large or a later answer is stored. A call that asked for
// refs of other sources may have failed because of their number. After such a failure, each source asks only for its
// own refs for an hour.
func (r *listed) end(c *call, forOthers bool) {
	r.calls = slices.DeleteFunc(r.calls, func(other *call) bool { return other == c })
	if c.err != nil {
		if forOthers {
			r.aloneUntil = c.at.Add(aloneFor)
		}
		return
	}
	var wanted []string
	for _, s := range r.sharers {
		wanted = append(wanted, s.prefixes...)
	}
	for p := range r.answers {
		if !slices.Contains(wanted, p) {
			delete(r.answers, p)
		}
	}
	for _, p := range c.prefixes {
		if c.at.Before(r.answers[p].At) {
			continue
		}
		delete(r.answers, p)
		if found := matching(c.refs, []string{p}); bytesOf(found) <= maxListing {
			r.answers[p] = source.Listing{Refs: found, At: c.at}
		}
	}
	r.stored = 0
	for _, a := range r.answers {
		r.stored += bytesOf(a.Refs)
	}
}

// drop deletes the answers. The next poll lists the refs again.
func (r *listed) drop() { r.answers, r.stored = map[string]source.Listing{}, 0 }

// bytesOf returns about how many bytes refs have in memory.
func bytesOf(refs []source.Ref) int {
	const headers = 64 // the headers of four strings
	n := headers * len(refs)
	for _, ref := range refs {
		n += len(ref.Name) + len(ref.Hash) + len(ref.Peeled) + len(ref.Target)
	}
	return n
}

// matching returns the refs whose names begin with one of the prefixes. matching is necessary because a server may also
// send refs with other names.
func matching(refs []source.Ref, prefixes []string) []source.Ref {
	var out []source.Ref
	for _, ref := range refs {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(ref.Name, p) }) {
			out = append(out, ref)
		}
	}
	return out
}

func contains(all, some []string) bool {
	for _, p := range some {
		if !slices.Contains(all, p) {
			return false
		}
	}
	return true
}
