package tokens

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

const (
	// earlyBy is how long before a token expires it is replaced, so that no token expires during a fetch.
	earlyBy = 5 * time.Minute
	// longestUse is the longest time for which a token is used, whatever lifetime the server reports.
	longestUse = time.Hour - earlyBy
	// failurePause is the time after a failed request in which all sources that share the token get the same failure,
	// without another request. A failure that asks for a longer pause gets it.
	failurePause = 10 * time.Second
	// unusedAfter is after how long an unused entry is dropped, such as one of an earlier key.
	unusedAfter = 2 * time.Hour
	// maxKnown is the largest number of entries. Above it, the entry that was unused the longest is dropped.
	maxKnown = 1000
)

// cache keeps one token for each key until five minutes before the token expires, and a failure for a short pause. It
// sends at most one request at a time for a key. The zero value is ready for use, and safe for concurrent use.
type cache[Key comparable] struct {
	mu    sync.Mutex
	known map[Key]*cached
}

// cached is the last answer for a key. The channel is the lock of the entry, so that a caller can stop waiting when its
// context ends.
type cached struct {
	lock  chan struct{}
	token string
	err   error
	until time.Time // the time until which the token or the error is used
	used  time.Time
}

// token returns the token of a key. If there is none, it calls the function request, which returns a token with its
// lifetime. The text what names the token in the error of a caller whose context ends.
func (c *cache[Key]) token(ctx context.Context, key Key, what string, now time.Time,
	request func(context.Context) (token string, life time.Duration, err error),
) (string, error) {
	at := c.entry(key, now)
	select {
	case at.lock <- struct{}{}:
		defer func() { <-at.lock }()
	case <-ctx.Done():
		return "", fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("waiting for %s: %w", what,
			context.Cause(ctx)))
	}
	if now.Before(at.until) {
		return at.token, at.err
	}
	token, life, err := request(ctx)
	if err != nil {
		if ctx.Err() == nil {
			at.token, at.err, at.until = "", err, now.Add(max(failurePause, fault.Of(err, "").After))
		}
		return "", err
	}
	at.token, at.err, at.until = token, nil, now.Add(min(life-earlyBy, longestUse))
	return token, nil
}

// forget drops the token of a key if it is one of those that a host refused, so that the next call requests another.
func (c *cache[Key]) forget(key Key, refused ...string) {
	c.mu.Lock()
	at := c.known[key]
	c.mu.Unlock()
	if at == nil {
		return
	}
	at.lock <- struct{}{}
	defer func() { <-at.lock }()
	if at.token != "" && slices.Contains(refused, at.token) {
		at.token, at.until = "", time.Time{}
	}
}

// entry returns the entry of a key, and drops unused ones.
func (c *cache[Key]) entry(key Key, now time.Time) *cached {
	c.mu.Lock()
	defer c.mu.Unlock()
	var oldest Key
	for k, other := range c.known {
		if now.Sub(other.used) > unusedAfter {
			delete(c.known, k)
		} else if at := c.known[oldest]; at == nil || other.used.Before(at.used) {
			oldest = k
		}
	}
	at := c.known[key]
	if at == nil {
		if c.known == nil {
			c.known = map[Key]*cached{}
		}
		if len(c.known) >= maxKnown {
			delete(c.known, oldest)
		}
		at = &cached{lock: make(chan struct{}, 1)}
		c.known[key] = at
	}
	at.used = now
	return at
}
