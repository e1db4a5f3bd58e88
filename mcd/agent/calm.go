package agent

import (
	"context"
	"time"
)

// calm keeps a machine on which something is disturbed all the time, as a file that somebody writes every second, from
// being looked at all the time. The first disturbance is heard at once.
type calm struct {
	// last is when a disturbance was heard; the next is not for a pause.
	last  time.Time
	pause time.Duration
}

// heard notes a disturbance: after each that comes soon after another, the pause grows.
func (c *calm) heard(now time.Time) {
	if now.Sub(c.last) > 2*c.pause+longestPause/2 {
		c.pause = 0
	} else {
		c.pause = min(max(2*c.pause, firstPause), longestPause)
	}
	c.last = now
}

// rest waits for a signal, a disturbance, the limit or the end of the context; true: for the signal. Channels may be nil.
func (c *calm) rest(ctx context.Context, changed, disturbed <-chan struct{}, limit time.Duration) bool {
	over, deaf := time.NewTimer(limit), time.NewTimer(c.pause-time.Since(c.last))
	defer over.Stop()
	defer deaf.Stop()
	var hears <-chan struct{}
	for {
		select {
		case <-ctx.Done():
			return false
		case <-over.C:
			return false
		case <-changed:
			return true
		case <-deaf.C:
			hears = disturbed
		case <-hears:
			c.heard(time.Now())
			return false
		}
	}
}
