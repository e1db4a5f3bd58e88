package gitsource

import (
	"sync"
	"time"
)

// announcementPause is the time between two announcements of a source that are recorded. It does not depend on what the
// requests say, so requests that somebody captured and sends again cause no more polls than others.
const announcementPause = time.Second

// announcements merges pushes that arrive shortly after each other. The zero value is ready for use, and safe for
// concurrent use.
type announcements struct {
	mu       sync.Mutex
	bySource map[string]*announced
}

// announced is the state of one source.
type announced struct {
	last    time.Time // when a push was last taken to be recorded
	waiting *waiting  // nil if no push waits
}

// waiting is a push that is not recorded yet, and the requests that wait for it. err is valid after done is closed.
type waiting struct {
	change PushedRef
	done   chan struct{}
	err    error
}

// add adds a push. If it is the first one that waits, isFirst is true: then the caller takes it after the delay, and
// closes done.
func (a *announcements) add(name string, c PushedRef, now time.Time) (w *waiting, delay time.Duration,
	isFirst bool,
) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bySource == nil {
		a.bySource = map[string]*announced{}
	}
	for other, s := range a.bySource { // of deleted sources too
		if s.waiting == nil && now.Sub(s.last) >= announcementPause {
			delete(a.bySource, other)
		}
	}
	s := a.bySource[name]
	if s == nil {
		s = &announced{last: now.Add(-announcementPause)}
		a.bySource[name] = s
	}
	if s.waiting != nil {
		// The controller polls until the repository has an announced commit, so a push without a commit replaces none.
		if c.Commit != "" || s.waiting.change.Commit == "" {
			s.waiting.change = c
		}
		return s.waiting, 0, false
	}
	s.waiting = &waiting{change: c, done: make(chan struct{})}
	return s.waiting, max(0, min(announcementPause, s.last.Add(announcementPause).Sub(now))), true
}

// take returns the merged push of a source. Pushes that arrive afterwards are recorded later.
func (a *announcements) take(name string, now time.Time) PushedRef {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.bySource[name]
	c := s.waiting.change
	s.waiting, s.last = nil, now
	return c
}
