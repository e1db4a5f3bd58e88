package agent

import (
	"log/slog"
	"time"
)

// SyncRequest is a request to the controller that the agent waits for.
type SyncRequest struct {
	// what is the requested action. since is the start of the request.
	what  string
	since time.Time
}

// Elapsed returns how long the agent has waited for a request. For a different request than before, the time starts at
// zero. The parameter began is when the controller started to act on the request; zero if unknown.
func (w *SyncRequest) Elapsed(what string, began time.Time) time.Duration {
	if w.what != what {
		*w = SyncRequest{what, time.Now()}
	}
	if !began.IsZero() && began.Before(w.since) {
		w.since = began
	}
	return time.Since(w.since)
}

// Outage is an outage of the API server, or of a part of it.
type Outage struct {
	// Since is the start of the outage; zero while the API server answers.
	Since time.Time
	// logged is the last message of the outage.
	logged string
}

// MarkUnreachable records a missing answer and returns how long the outage has lasted. MarkUnreachable logs the start
// of the outage, and another message. An empty message is not logged after the start.
func (s *Outage) MarkUnreachable(log *slog.Logger, message string, args ...any) time.Duration {
	if s.Since.IsZero() {
		s.Since, s.logged = time.Now(), ""
	}
	if message != "" && message != s.logged {
		log.Warn(message, args...)
		s.logged = message
	}
	return time.Since(s.Since)
}

// MarkReachable records that the API server answered and logs how long the outage lasted.
func (s *Outage) MarkReachable(log *slog.Logger) {
	if !s.Since.IsZero() {
		log.Info("the API server answers again", "after", time.Since(s.Since).Round(time.Second))
	}
	s.Since = time.Time{}
}
