package source

import (
	"hash/fnv"
	"strings"
	"time"
)

// Ref is one ref of a remote's listing.
type Ref struct {
	// Name is the full name: `refs/heads/main`, `refs/tags/v1.4.2`, `HEAD`.
	Name string
	// Hash is the object that the ref points at: a commit, or the tag object of an annotated tag. Hash is empty for a
	// HEAD whose branch has no commit yet.
	Hash string
	// Peeled is the commit of an annotated tag; empty for every other ref.
	Peeled string
	// Target is the full name of HEAD's branch. It is empty for every other ref, and if the remote does not send the
	// branch.
	Target string
}

// Commit returns the commit that the ref points at.
func (r Ref) Commit() string {
	if r.Peeled != "" {
		return r.Peeled
	}
	return r.Hash
}

// tagObject returns the hash of an annotated tag; empty for any other ref.
func (r Ref) tagObject() string {
	if r.Peeled == "" {
		return ""
	}
	return r.Hash
}

// Picked is the commit of a GitRef.
type Picked struct {
	// Ref is the ref in its short form, as in Commit: `main`, `v1.4.2`, `refs/pull/7/head`; empty for a pinned commit.
	Ref string
	// Hash is the hash of the commit, 40 lower-case hex digits. For an artifact, Hash is the digest of the manifest, 64
	// digits.
	Hash string
	// FullName is the full name of the ref that points at the commit, `refs/heads/main`. For a pinned commit, FullName
	// is another ref of the spec, or empty. If a remote does not serve single commits, Bunsen fetches the history of
	// this ref.
	FullName string
	// TagObject is the hash of the annotated tag that the ref names; empty for any other ref.
	TagObject string
	// Applied is the hash of the commit that is applied, with which the history is compared; empty if none is applied.
	Applied string
}

// Revision returns the revision of the commit.
func (p Picked) Revision() Revision { return Revision{Ref: p.Ref, Hash: p.Hash} }

const (
	head     = "HEAD"
	branches = "refs/heads/"
	tags     = "refs/tags/"
)

// ShortRef drops `refs/heads/` or `refs/tags/` from a full ref name; any other name stays as it is.
func ShortRef(full string) string {
	for _, prefix := range []string{branches, tags} {
		if short, ok := strings.CutPrefix(full, prefix); ok && short != "" {
			return short
		}
	}
	return full
}

// Jitter returns 0 to 10 % of the interval, always the same for one seed. Jitter spreads the polls of many sources with
// the same interval.
func Jitter(interval time.Duration, seed string) time.Duration {
	if interval <= 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(seed))
	spread := interval / 10
	// For short seeds, the upper bits of an FNV hash differ little. One round of mixing makes every bit depend on all
	// bits.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return time.Duration(x % (uint64(spread) + 1))
}

// NextPoll returns the time between two polls of a remote: the interval plus its Jitter.
func NextPoll(interval time.Duration, seed string) time.Duration {
	return interval + Jitter(interval, seed)
}

// Poll is one poll of a source. A poll may use the listing of another source of the same repository.
type Poll struct {
	// Source is the name of the source.
	Source string
	// Now is the time of the poll, and Interval the time between two polls of the source.
	Now      time.Time
	Interval time.Duration
	// NotBefore excludes listings that began earlier. If NotBefore is Now, the poll uses no listing that began before
	// it.
	NotBefore time.Time
}

// Listing is the result of listing the refs of a remote.
type Listing struct {
	// Refs are at least the refs that the source needs.
	Refs []Ref
	// At is when the listing began.
	At time.Time
}
