package source

import (
	"hash/fnv"
	"time"
)

// Jitter spreads polls: it returns 0 to 10 % of the interval, always the same for one seed. Many sources of one interval
// then do not ask their remote at one moment, and a test knows when the next look is due.
func Jitter(interval time.Duration, seed string) time.Duration {
	if interval <= 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(seed))
	spread := interval / 10
	// FNV's upper bits hardly differ between short seeds; one round of mixing makes every bit depend on all of them.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return time.Duration(x % (uint64(spread) + 1))
}

// NextPoll returns the time to wait between two looks at a remote: the interval and its Jitter.
func NextPoll(interval time.Duration, seed string) time.Duration {
	return interval + Jitter(interval, seed)
}
