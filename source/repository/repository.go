package repository

import (
	"cmp"
	"errors"
	"slices"
	"strings"
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

// repository is the entry of Listings for one repository with one set of credentials.
type repository struct {
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
	repo     *repository
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
func (r *repository) register(q Request) {
	r.polled = q.Now
	for name, s := range r.sharers {
		if s.until.Before(q.Now) {
			delete(r.sharers, name)
		}
	}
	r.sharers[q.Source] = sharer{q.Now.Add(2 * q.Interval), q.Interval, q.Prefixes}
}

// notBefore returns the earliest time at which a listing may have begun so that the poll can use it.
func (r *repository) notBefore(q Request) time.Time {
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
func (r *repository) answer(prefixes []string, notBefore time.Time) (source.Listing, bool) {
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
func (r *repository) joinable(q Request, notBefore time.Time) *call {
	for _, running := range r.calls {
		if !running.at.Before(notBefore) && q.Now.Sub(running.at) <= maxAge && contains(running.prefixes, q.Prefixes) {
			return running
		}
	}
	return nil
}

// union returns the prefixes of a poll, and those of the other sources. For a poll that uses no earlier listing, union
// returns only the poll's own prefixes, because this poll is urgent.
func (r *repository) union(q Request) []string {
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
func (r *repository) end(c *call, forOthers bool) {
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
func (r *repository) drop() { r.answers, r.stored = map[string]source.Listing{}, 0 }

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
