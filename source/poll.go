package source

import (
	"hash/fnv"
	"time"
)

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
