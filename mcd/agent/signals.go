package agent

import (
	"context"
	"time"
)

const (
	// MinBackoff is the first pause after a change or failure. Each further pause is twice as long, up to MaxBackoff.
	MinBackoff, MaxBackoff = time.Second, time.Minute
)

// Signals start a sync. The first change of a watched file starts a sync at once. A backoff delays the sync after
// further changes, because a program may write a file every second.
type Signals struct {
	// Changed fires when the Node changes. Disturbed fires when a watched file changes. Trust fires when the server has
	// sent other files beside the config. Fetched fires when a download in the background has ended or failed. Each of
	// the channels may be nil.
	Changed, Disturbed, Trust, Fetched <-chan struct{}
	// last is when the last change was accepted. Another change is accepted only after the pause.
	last  time.Time
	pause time.Duration
}

// record records a change. The pause grows with each change that comes soon after another.
func (s *Signals) record(now time.Time) {
	if now.Sub(s.last) > 2*s.pause+MaxBackoff/2 {
		s.pause = 0
	} else {
		s.pause = min(max(2*s.pause, MinBackoff), MaxBackoff)
	}
	s.last = now
}

// Wait waits for a change of the Node, a change of a watched file if files is true, other files of the server, a
// download, the limit or the end of the context. Wait returns true for a change of the Node.
func (s *Signals) Wait(ctx context.Context, files bool, limit time.Duration) bool {
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
		case <-s.Changed:
			return true
		case <-s.Trust:
			return false
		case <-s.Fetched:
			return false
		case <-paused.C:
			if files {
				accepted = s.Disturbed
			}
		case <-accepted:
			s.record(time.Now())
			return false
		}
	}
}
