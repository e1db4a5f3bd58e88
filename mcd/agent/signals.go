package agent

import (
	"context"
	"time"
)

// signals start a sync. The first change of a watched file starts a sync at once. A backoff delays the sync after
// further changes, because a program may write a file every second.
type signals struct {
	// changed fires when the Node changes. disturbed fires when a watched file changes. trust fires when the server has
	// sent other files beside the config. Each of the three channels may be nil.
	changed, disturbed, trust <-chan struct{}
	// last is when the last change was accepted. Another change is accepted only after the pause.
	last  time.Time
	pause time.Duration
}

// record records a change. The pause grows with each change that comes soon after another.
func (s *signals) record(now time.Time) {
	if now.Sub(s.last) > 2*s.pause+maxBackoff/2 {
		s.pause = 0
	} else {
		s.pause = min(max(2*s.pause, minBackoff), maxBackoff)
	}
	s.last = now
}

// wait waits for a change of the Node, a change of a watched file if files is true, other files of the server, the
// limit or the end of the context. wait returns true for a change of the Node.
func (s *signals) wait(ctx context.Context, files bool, limit time.Duration) bool {
	limited, paused := time.NewTimer(limit), time.NewTimer(s.pause-time.Since(s.last))
	defer limited.Stop()
	defer paused.Stop()
	var accepted <-chan struct{}
	for {
		select {
		case <-ctx.Done():
			return false
		case <-limited.C:
			return false
		case <-s.changed:
			return true
		case <-s.trust:
			return false
		case <-paused.C:
			if files {
				accepted = s.disturbed
			}
		case <-accepted:
			s.record(time.Now())
			return false
		}
	}
}
